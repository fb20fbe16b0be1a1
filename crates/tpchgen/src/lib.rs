//! TPC-H data in CSV, Parquet and NDJSON, as many objects per table as asked, and the tables of the PushdownDB paper that
//! are not TPC-H's.
//!
//! [`generate`] streams the tables of a [`DataSet`] into an object store (a folder or a bucket) in bounded memory and
//! writes `schema.sql` beside them, whose statements declare the tables where they lie. TPC-H's rows are those of the
//! `tpchgen` crate. Rows do not depend on the format, on the number of objects or on the number of cores.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod encode;
mod generate;
mod rows;
mod synthetic;
mod tables;

pub use encode::Format;
pub use generate::{Destination, Options, Progress, Summary, generate, generate_set};
pub use tables::{DataSet, TABLES, schema, schema_sql};
