//! Printing: results in every format, statistics, and errors that show the place.
//!
//! Every format is a [`RowWriter`] that takes batches as they come, so that a result of any size passes through in
//! bounded memory.

mod columnar;
mod error;
mod output;
mod plan;
mod profile;
mod stats;
mod table;
mod text;

use std::path::Path;

use anyhow::Result;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use clap::ValueEnum;
use pushdown::Error;

pub use error::{Located, error, message};
pub use output::{Output, is_closed, say};
pub use profile::page;
pub use pushdowndb_cost::units;
pub use stats::stats;
pub use table::TableStyle;

/// How results are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum OutputFormat {
    /// A table to read
    Table,
    /// Header, ISO dates, decimals with their scale, empty for NULL
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// An Arrow IPC stream
    Arrow,
    /// Parquet
    Parquet,
}

impl OutputFormat {
    /// The format a file's name asks for; that of tables where it asks for none.
    pub fn of_name(path: &Path) -> Result<Self> {
        let Some(extension) = path.extension().filter(|_| !path.starts_with("/dev")) else { return Ok(Self::Table) };
        match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "ndjson" | "jsonl" => Ok(Self::Ndjson),
            "arrow" | "arrows" => Ok(Self::Arrow),
            "parquet" => Ok(Self::Parquet),
            "txt" | "text" | "log" | "out" => Ok(Self::Table),
            other => {
                let message = format!(
                    "{}: .{other} names no format of results; name it .csv, .json, .ndjson, .arrow, .parquet or .txt, or \
                     say --format",
                    path.display()
                );
                Err(Error::invalid(message).into())
            }
        }
    }

    /// Whether it is bytes that no terminal should see, and whether one file holds a single result.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

/// Writes one result.
pub trait RowWriter: Send {
    /// Writes rows; may keep some back until later ones or the end.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes what is left, also where there were no rows at all.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A writer of results with these columns.
pub fn rows(
    format: OutputFormat,
    schema: &SchemaRef,
    output: &Output,
    style: TableStyle,
) -> Result<Box<dyn RowWriter>> {
    Ok(match format {
        OutputFormat::Table if plan::is_plan(schema) => Box::new(plan::Plan(output.clone())),
        OutputFormat::Table => Box::new(table::Table::new(schema, output.clone(), style)?),
        OutputFormat::Csv => Box::new(text::Csv::new(schema, output.clone())?),
        OutputFormat::Json => Box::new(text::json_array(output.clone())),
        OutputFormat::Ndjson => Box::new(text::json_lines(output.clone())),
        OutputFormat::Arrow => Box::new(columnar::arrow(schema, output.clone())?),
        OutputFormat::Parquet => Box::new(columnar::parquet(schema, output.clone())?),
    })
}
