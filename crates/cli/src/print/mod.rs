//! Printing of results in every format, of statistics, and of errors with their position.
//!
//! Every format is a [`RowWriter`], which accepts batches as they arrive, so that results of any
//! size need bounded memory.

mod columnar;
mod error;
mod format;
mod markdown;
mod output;
mod pager;
mod plan;
mod profile;
mod stats;
mod table;
mod text;
mod writer;

use anyhow::Result;
use arrow::datatypes::SchemaRef;

pub use error::{Located, error, message};
pub use format::{OutputFormat, StatsFormat};
pub use output::{Output, is_closed, print_line};
pub use profile::page;
pub use pushdowndb_cost::units;
pub use stats::stats;
pub use table::TableStyle;
pub use writer::RowWriter;

/// Creates a writer for results with this `schema`.
pub fn rows(
    format: OutputFormat,
    schema: &SchemaRef,
    output: &Output,
    style: TableStyle,
) -> Result<Box<dyn RowWriter>> {
    Ok(match format {
        OutputFormat::Table if plan::is_plan(schema) => Box::new(plan::Plan(output.clone())),
        OutputFormat::Table => Box::new(table::Table::new(schema, output.clone(), style)?),
        OutputFormat::Markdown => Box::new(markdown::Markdown::new(schema, output.clone())?),
        OutputFormat::Csv => Box::new(text::Csv::new(schema, output.clone())?),
        OutputFormat::Json => Box::new(text::json_array(output.clone())),
        OutputFormat::Ndjson => Box::new(text::json_lines(output.clone())),
        OutputFormat::Arrow => Box::new(columnar::arrow(schema, output.clone())?),
        OutputFormat::Parquet => Box::new(columnar::parquet(schema, output.clone())?),
    })
}
