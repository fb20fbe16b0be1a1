//! Reading the bytes of column chunks and their pages.

pub(crate) mod chunk_bytes;
pub(crate) mod chunks;
pub(crate) mod codec;
pub(crate) mod header;
pub(crate) mod page_memory;
pub(crate) mod page_place;
pub(crate) mod pages;
pub(crate) mod selection;
