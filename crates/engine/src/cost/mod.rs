//! The cost model: cardinality of scans, and their cost in seconds and dollars.

pub(crate) mod candidates;
pub(crate) mod cardinality;
pub(crate) mod model;
pub(crate) mod plain_reads;
pub(crate) mod requests;
pub(crate) mod scan;
