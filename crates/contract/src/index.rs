//! Index objects. `CREATE INDEX` writes them, and the engine or a node reads them to look up rows.
//!
//! An index object is CSV that every S3 Select server can read. After a header, it has a record
//! `value,first_byte_offset,last_byte_offset` for each non-NULL value of one column of one data
//! object, sorted by value and then by position (PushdownDB, Section IV-A). Offsets are inclusive;
//! for Parquet, both are the row number.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::{CsvOptions, Format, NullRule};

/// The names of an index object's columns, as in its header.
pub const COLUMNS: [&str; 3] = ["value", "first_byte_offset", "last_byte_offset"];

/// Returns the format of index objects. It has no NULL and no line ends in values, so byte ranges
/// of an index object can be scanned independently.
pub fn format() -> Format {
    Format::Csv(CsvOptions { null: NullRule::Never, ..CsvOptions::default() })
}

/// Returns the schema of an index on a column of type `value`.
pub fn schema(value: &DataType) -> SchemaRef {
    let [name, first, last] = COLUMNS;
    let offset = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![Field::new(name, value.clone(), false), offset(first), offset(last)]))
}
