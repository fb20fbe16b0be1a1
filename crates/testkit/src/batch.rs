//! Record batches as text.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Returns each row as text, with `|` between columns and `NULL` for NULL.
pub fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a type that can be formatted"))
        .collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// Returns a schema of nullable columns.
pub fn schema<'a>(columns: impl AsRef<[(&'a str, DataType)]>) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Arc::new(Schema::new(columns.as_ref().iter().map(field).collect::<Vec<_>>()))
}
