//! Index objects: what `CREATE INDEX` writes, and whoever looks rows up reads, the engine or a node.
//!
//! An index object is CSV that every S3 Select server reads: a header, then a record `value, first_byte_offset,
//! last_byte_offset` for each value of one column of one data object that is not NULL, sorted by value and then by
//! place (PushdownDB, Section IV-A). Offsets are inclusive; of Parquet both are the number of the row.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::{CsvOptions, Format, NullRule};

/// The columns of an index object, as its header names them.
pub const COLUMNS: [&str; 3] = ["value", "first_byte_offset", "last_byte_offset"];

/// How every index object is written. No value in it is NULL, and none holds a line end, so that it can be read in
/// ranges.
pub fn format() -> Format {
    Format::Csv(CsvOptions { null: NullRule::Never, ..CsvOptions::default() })
}

/// The columns of an index on a column of this type.
pub fn schema(value: &DataType) -> SchemaRef {
    let [name, first, last] = COLUMNS;
    let offset = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![Field::new(name, value.clone(), false), offset(first), offset(last)]))
}
