//! Index objects, which `CREATE INDEX` writes and row lookups of the engine or a node read.
//!
//! An index object is CSV that every S3 Select server reads: a header, then a record `value,
//! first_byte_offset, last_byte_offset` for each value of one column of one data object that is not
//! NULL, sorted by value and then by position (PushdownDB, Section IV-A). Offsets are inclusive;
//! for Parquet both are the row number.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::{CsvOptions, Format, NullRule};

/// The columns of an index object, as in its header.
pub const COLUMNS: [&str; 3] = ["value", "first_byte_offset", "last_byte_offset"];

/// Returns the format of index objects. No value is NULL or holds a line end, so that they can be
/// read in ranges.
pub fn format() -> Format {
    Format::Csv(CsvOptions { null: NullRule::Never, ..CsvOptions::default() })
}

/// Returns the schema of an index on a column of type `value`.
pub fn schema(value: &DataType) -> SchemaRef {
    let [name, first, last] = COLUMNS;
    let offset = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![Field::new(name, value.clone(), false), offset(first), offset(last)]))
}
