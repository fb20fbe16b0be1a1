//! The formats of objects, and how the names of objects suggest them.

use pushdowndb_contract::Compression;

/// The formats that can be read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Delimited text.
    Csv,
    /// Text delimited by tabs.
    Tsv,
    /// JSON records.
    Json,
    /// Parquet.
    Parquet,
}

impl Kind {
    /// The name after `STORED AS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Json => "JSON",
            Self::Parquet => "PARQUET",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "json" | "ndjson" | "jsonl" => Self::Json,
            "parquet" | "parq" | "pq" => Self::Parquet,
            _ => return None,
        })
    }

    pub(super) fn is_csv(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

/// Returns advice on a file whose format is not supported, by its extension; `None` for other
/// names.
pub(crate) fn unread(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "xlsx" | "xls" | "ods" | "numbers" => "workbooks are not read; save the sheet as CSV",
        "xz" | "lz4" | "sz" | "snappy" | "lzo" | "br" => "this compression is not read; compress as .gz, .zst or .bz2",
        "zip" | "tar" | "tgz" | "7z" | "rar" => "archives are not read; unpack it",
        "avro" | "orc" | "arrow" | "feather" | "ipc" => "this format is not read; convert it to Parquet",
        "db" | "sqlite" | "duckdb" => "databases are not read; export the table as Parquet or CSV",
        "xml" | "html" | "pdf" => "this format is not read; convert it to CSV or JSON",
        _ => return None,
    })
}

/// The encoding that an object's name suggests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileName {
    /// The format by the extension, ignoring that of the compression.
    pub kind: Option<Kind>,
    /// The compression by the last extension.
    pub compression: Compression,
    /// Whether the extension is one of text about the data, such as `.sql` or `.md`.
    pub is_side_file: bool,
    /// Whether the extension is `.log`: a side file, too, unless the table is declared to be text
    /// or has no other objects.
    pub is_log: bool,
    /// Whether the extension is one of text whose format only its first bytes show: `.txt`, `.log`.
    pub is_text: bool,
}

impl FileName {
    /// Reads the extensions of a path's last segment.
    pub fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut words = name.rsplit('.').map(str::to_ascii_lowercase);
        let mut last = words.next().unwrap_or_default();
        let compression = match last.as_str() {
            "gz" | "gzip" => Compression::Gzip,
            "bz2" | "bzip2" => Compression::Bzip2,
            "zst" | "zstd" => Compression::Zstd,
            _ => Compression::None,
        };
        if compression != Compression::None {
            last = words.next().unwrap_or_default();
        }
        // A name without a dot has no extension.
        let extension = if words.next().is_some() { last.as_str() } else { "" };
        let is_side_file = matches!(extension, "sql" | "md" | "crc" | "toml" | "yaml" | "yml" | "html" | "sha256");
        let is_log = extension == "log";
        let is_text = is_log || extension == "txt";
        Self { kind: Kind::from_word(extension), compression, is_side_file, is_log, is_text }
    }
}
