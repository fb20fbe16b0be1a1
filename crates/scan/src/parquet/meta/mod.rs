//! Metadata of a Parquet object: its footer, a cache of footers, its schema, and checks of its
//! claims.

pub(crate) mod bounds_check;
pub(crate) mod cache;
pub(crate) mod footer;
pub(crate) mod nested;
pub(crate) mod schema;
pub(crate) mod thrift;
