//! Generators of TPC-H data in CSV, Parquet and NDJSON, with any number of objects per table, and
//! of the PushdownDB paper's other tables.
//!
//! [`generate`] streams the tables of a [`DataSet`] into an object store (a folder or a bucket) in
//! bounded memory and writes `schema.sql` beside them, which declares the tables. TPC-H's rows are
//! those of the `tpchgen` crate. Rows do not depend on the format, the number of objects or the
//! number of cores.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod destination;
mod encode;
mod format;
mod generate;
mod manifest;
mod rows;
mod synthetic;
mod tables;

pub use destination::Destination;
pub use format::Format;
pub use generate::{Options, Progress, Summary, generate, generate_over, generate_set, schema_sql_of};
pub use tables::{DataSet, TABLES, schema, schema_sql};
