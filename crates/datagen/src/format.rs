//! Formats of generated objects.

use std::str::FromStr;

use pushdowndb_contract::{Error, Result};

/// The format of generated objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Comma-separated, with a header line; fields are quoted only if necessary.
    Csv,
    /// Parquet with Snappy.
    Parquet,
    /// One JSON object per line; decimals are numbers with their scale, dates are strings.
    Json,
}

impl Format {
    /// The keyword after STORED AS.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Parquet => "PARQUET",
            Self::Json => "JSON",
        }
    }

    /// The extension of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Json => "json",
        }
    }

    /// Returns the approximate number of rows per piece: a few megabytes of text, or row groups
    /// large enough for a request each.
    pub(crate) fn piece_rows(self) -> u64 {
        match self {
            Self::Csv | Self::Json => 65_536,
            Self::Parquet => 262_144,
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            "json" | "ndjson" => Ok(Self::Json),
            _ => Err(Error::invalid(format!("unknown format '{text}'; known are csv, parquet, json"))),
        }
    }
}
