//! Metadata of a Parquet object: footer, its cache, schema, and checks of what it claims.

pub(crate) mod bounds_check;
pub(crate) mod cache;
pub(crate) mod footer;
pub(crate) mod nested;
pub(crate) mod schema;
pub(crate) mod thrift;
