//! Kinds of contestants, and formats of data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format of the data.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DataFormat {
    Csv,
    Gzip,
    Ndjson,
    Parquet,
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "csv",
            Self::Gzip => "gzip",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
        })
    }
}

/// The program and library that run a contestant.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The storage node of the measured program, queried with S3 Select.
    Node,
    /// MinIO, queried with S3 Select.
    Minio,
    /// `crates/scan` alone on a local file.
    Library,
    /// The engine of PushdownDB.
    Engine,
    /// DataFusion with its own readers.
    Datafusion,
    /// Only the decompressor that the scans of PushdownDB use.
    Inflate,
    Duckdb,
    Polars,
    /// A shell command, with the file as `$0`.
    Command,
}

impl Kind {
    /// Whether it is a server that is queried over HTTP.
    pub fn is_server(self) -> bool {
        matches!(self, Self::Node | Self::Minio)
    }

    /// Its name in a definition.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Minio => "minio",
            Self::Library => "library",
            Self::Engine => "engine",
            Self::Datafusion => "datafusion",
            Self::Inflate => "inflate",
            Self::Duckdb => "duckdb",
            Self::Polars => "polars",
            Self::Command => "command",
        }
    }

    /// The language of its statements; `None` if it has none.
    pub fn dialect(self) -> Option<&'static str> {
        match self {
            Self::Node | Self::Minio | Self::Library => Some("select"),
            Self::Engine | Self::Datafusion | Self::Duckdb | Self::Polars => Some("sql"),
            Self::Inflate | Self::Command => None,
        }
    }
}
