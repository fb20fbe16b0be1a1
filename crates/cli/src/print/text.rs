//! CSV and JSON.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::{ArrayRef, StringArray};
use arrow::csv::{Writer, WriterBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, Writer as JsonWriter};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::output::Output;
use super::writer::RowWriter;

/// Writes CSV with a header. Nested values, which CSV lacks, are written as text.
pub struct Csv {
    writer: Writer<Output>,
    schema: SchemaRef,
}

impl Csv {
    pub fn new(schema: &SchemaRef, output: Output) -> Result<Self> {
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| match field.data_type().is_nested() {
                true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
                false => Arc::clone(field),
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let mut writer = WriterBuilder::new().with_header(true).build(output);
        // The header is written even if no row follows.
        writer.write(&RecordBatch::new_empty(Arc::clone(&schema)))?;
        Ok(Self { writer, schema })
    }
}

impl RowWriter for Csv {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().map(|column| match column.data_type().is_nested() {
            true => as_text(column),
            false => Ok(Arc::clone(column)),
        });
        let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect::<Result<_>>()?, &options)?;
        Ok(self.writer.write(&batch)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.writer.into_inner().flush()?)
    }
}

fn as_text(column: &ArrayRef) -> Result<ArrayRef> {
    let options = FormatOptions::new().with_null("null");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let text = (0..column.len()).map(|row| column.is_valid(row).then(|| formatter.value(row).to_string()));
    Ok(Arc::new(text.collect::<StringArray>()))
}

/// Writes JSON in either form. NULLs are included, so that every object has every field.
pub struct Json<F: JsonFormat> {
    writer: JsonWriter<Output, F>,
    output: Output,
}

/// Creates a writer of one JSON array.
pub fn json_array(output: Output) -> Json<JsonArray> {
    Json { writer: JsonBuilder::new().with_explicit_nulls(true).build(output.clone()), output }
}

/// Creates a writer of one JSON object per line.
pub fn json_lines(output: Output) -> Json<LineDelimited> {
    Json { writer: JsonBuilder::new().with_explicit_nulls(true).build(output.clone()), output }
}

impl<F: JsonFormat + Send> RowWriter for Json<F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish()?;
        // Lines end with a newline already; the array does not.
        if std::any::type_name::<F>() == std::any::type_name::<JsonArray>() {
            self.output.write_all(b"\n")?;
        }
        Ok(self.output.flush()?)
    }
}
