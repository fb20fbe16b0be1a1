//! Decoding of the values in pages.

pub(crate) mod adapt;
pub(crate) mod batches;
mod convert;
pub(crate) mod dictionary;
pub(crate) mod dictionary_codes;
pub(crate) mod fixed_width;
pub(crate) mod levels;
pub(crate) mod rle;
pub(crate) mod run_reader;
pub(crate) mod text_search;
