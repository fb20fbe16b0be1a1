//! Arrow IPC streams and Parquet.

use std::io::Write;

use anyhow::Result;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::output::Output;
use super::writer::RowWriter;

struct Arrow(StreamWriter<Output>);

pub fn arrow(schema: &SchemaRef, output: Output) -> Result<impl RowWriter + use<>> {
    Ok(Arrow(StreamWriter::try_new(output, schema)?))
}

impl RowWriter for Arrow {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.0.finish()?;
        Ok(self.0.get_mut().flush()?)
    }
}

struct Parquet(ArrowWriter<Output>);

pub fn parquet(schema: &SchemaRef, output: Output) -> Result<impl RowWriter + use<>> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    Ok(Parquet(ArrowWriter::try_new(output, schema.clone(), Some(properties))?))
}

impl RowWriter for Parquet {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.0.finish()?;
        Ok(self.0.inner_mut().flush()?)
    }
}
