//! Formats of results.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use pushdowndb_contract::Error;

/// The format of results.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum OutputFormat {
    /// A table to read
    Table,
    /// A table in Markdown
    Markdown,
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
    /// Returns the format for the extension of a file's name. Names without an extension are
    /// tables.
    pub fn of_name(path: &Path) -> Result<Self> {
        let Some(extension) = path.extension().filter(|_| !path.starts_with("/dev")) else { return Ok(Self::Table) };
        match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "ndjson" | "jsonl" => Ok(Self::Ndjson),
            "md" | "markdown" => Ok(Self::Markdown),
            "arrow" | "arrows" => Ok(Self::Arrow),
            "parquet" => Ok(Self::Parquet),
            "txt" | "text" | "log" | "out" => Ok(Self::Table),
            other => {
                let message = format!(
                    "{}: .{other} names no format of results; name it .csv, .json, .ndjson, .arrow, .parquet, .md or \
                     .txt, or say --format",
                    path.display()
                );
                Err(Error::invalid(message).into())
            }
        }
    }

    /// Whether the format is binary. Binary formats are not printed to terminals and hold one
    /// result per file.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

/// The format of statistics.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum StatsFormat {
    None,
    Table,
    Json,
}
