//! CSV: delimited text, with columns by position.

pub(crate) mod cut;
pub(crate) mod decoder;
pub(crate) mod dialect;
pub(crate) mod errors;
pub(crate) mod fuse;
pub(crate) mod plan;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod stages;
pub(crate) mod translate;
