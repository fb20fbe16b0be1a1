//! Parquet objects.

pub(crate) mod decode;
pub(crate) mod errors;
pub(crate) mod meta;
pub(crate) mod plan;
pub(crate) mod prefetch;
pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod row_group;
pub(crate) mod row_group_output;
pub(crate) mod row_group_slices;
pub(crate) mod row_numbers;
pub(crate) mod scan;
pub(crate) mod stages;
