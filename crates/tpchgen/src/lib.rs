//! TPC-H data in CSV, Parquet and NDJSON, as many objects per table as asked.
//!
//! [`generate`] streams the eight tables into an object store (a folder or a bucket) in bounded memory and writes
//! `schema.sql` beside them, whose statements declare the tables where they lie. The rows are those of the `tpchgen`
//! crate and do not depend on the format, on the number of objects or on the number of cores.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod encode;
mod generate;
mod rows;
mod tables;

pub use encode::Format;
pub use generate::{Destination, Options, Progress, Summary, generate};
pub use tables::{MIN_SCALE, TABLES, row_count, schema, schema_sql};
