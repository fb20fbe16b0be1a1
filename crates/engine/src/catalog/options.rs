//! The encoding of a table's objects, as far as it is declared: `STORED AS` and `OPTIONS (…)`.
//!
//! The rest follows from an object's name ([`FileName`]) or, for tables without declared columns,
//! from its bytes ([`super::infer`]). The names are DataFusion's, with or without their `format.`
//! prefix, and a few common synonyms. An unknown option is refused: a misspelled delimiter must not
//! be ignored.

use pushdowndb_contract::{
    Compression, CsvOptions, Error, Format, JsonOptions, JsonShape, NullRule, Profile, Ragged, Result,
};

use crate::nearest::nearest;

/// The options of a table: name, synonyms, whether it is for CSV only.
const OPTIONS: [(&str, &[&str], bool); 18] = [
    ("has_header", &["header"], true),
    ("delimiter", &["delim", "sep", "separator"], true),
    ("quote", &[], true),
    ("escape", &[], true),
    ("double_quote", &[], true),
    ("comment", &[], true),
    ("terminator", &[], true),
    ("null_value", &["null", "nullstr"], true),
    ("null_regex", &[], true),
    ("newlines_in_values", &[], true),
    ("truncated_rows", &["ragged", "null_padding"], true),
    ("newline_delimited", &[], false),
    ("compression", &[], false),
    ("schema_infer_max_rec", &[], false),
    ("union_by_name", &[], false),
    ("hive_partitioning", &[], false),
    ("backend", &[], false),
    ("index_location", &[], false),
];

/// Prefixes of DataFusion's options about the connection.
const STORE_PREFIXES: [&str; 5] = ["aws.", "s3.", "http.", "gcp.", "azure."];

/// The kinds of object that can be read.
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

    fn is_csv(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

/// The encoding that an object's name suggests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileName {
    /// By the extension, without that of the compression.
    pub kind: Option<Kind>,
    /// By the last extension.
    pub compression: Compression,
    /// Whether the extension is one of text about the data, such as `.sql` or `.md`.
    pub is_side_file: bool,
    /// Whether it is `.log`: text about the data, unless the format of such objects is declared.
    pub is_log: bool,
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
        Self { kind: Kind::from_word(extension), compression, is_side_file, is_log: extension == "log" }
    }
}

/// The declared options of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableOptions {
    /// `STORED AS`.
    pub kind: Option<Kind>,
    /// Whether the first record names the columns.
    pub header: Option<bool>,
    /// The byte between fields.
    pub delimiter: Option<u8>,
    /// The byte around fields; `Some(None)` if quotes have no meaning.
    pub quote: Option<Option<u8>>,
    /// The byte before a quote inside a quoted field.
    pub escape: Option<u8>,
    /// The byte that starts a record to skip.
    pub comment: Option<u8>,
    /// The byte that ends a record.
    pub terminator: Option<u8>,
    /// The fields that are NULL.
    pub null: Option<NullRule>,
    /// Whether quoted fields may hold line ends.
    pub newlines_in_values: Option<bool>,
    /// The treatment of short and long records.
    pub ragged: Option<Ragged>,
    /// The layout of JSON records in an object.
    pub json_shape: Option<JsonShape>,
    /// The compression of each object, whatever its name suggests.
    pub compression: Option<Compression>,
    /// The records of an object that inference reads.
    pub schema_infer_max_rec: Option<usize>,
    /// Whether columns are found by name in each object, instead of by position.
    pub union_by_name: bool,
    /// `Some(false)` if `key=value` in a path is only a name.
    pub hive_partitioning: Option<bool>,
    /// The kind of server, which decides what storage can do.
    pub backend: Option<Profile>,
    /// The location of the table's indexes, if not only beside its objects.
    pub index_location: Option<String>,
}

impl TableOptions {
    /// Parses `STORED AS stored_as OPTIONS (options)`; an empty `stored_as` leaves the kind to the
    /// objects' names.
    pub fn parse<K, V>(stored_as: &str, options: impl IntoIterator<Item = (K, V)>) -> Result<Self>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut parsed = Self::default();
        if !stored_as.is_empty() {
            parsed.kind = Some(Kind::from_word(stored_as).ok_or_else(|| {
                Error::unsupported(format!(
                    "STORED AS {stored_as}: known formats are CSV, TSV, JSON, NDJSON and PARQUET"
                ))
            })?);
        }
        for (name, value) in options {
            parsed.set(name.as_ref(), value.as_ref())?;
        }
        Ok(parsed)
    }

    fn set(&mut self, written: &str, value: &str) -> Result<()> {
        let lower = written.to_ascii_lowercase();
        let name = lower.strip_prefix("format.").unwrap_or(&lower);
        if STORE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(Error::unsupported(format!(
                "option '{name}' is about the connection, which is the session's and not a table's: set the AWS_* variables, a \
                 profile, or --endpoint, --region and the like"
            )));
        }
        let Some((name, _, csv_only)) =
            OPTIONS.iter().find(|(known, synonyms, _)| *known == name || synonyms.contains(&name))
        else {
            return Err(unknown(name));
        };
        if let Some(kind) = self.kind.filter(|kind| *csv_only && !kind.is_csv()) {
            return Err(Error::invalid(format!(
                "option '{name}' is about CSV, but the table is STORED AS {}",
                kind.name()
            )));
        }
        self.apply(name, value).map_err(|error| error.context(format!("option '{name}'")))
    }

    fn apply(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "has_header" => self.header = Some(boolean(value)?),
            "delimiter" => self.delimiter = Some(byte(value)?),
            "quote" if matches!(value, "" | "none") => self.quote = Some(None),
            "quote" => self.quote = Some(Some(byte(value)?)),
            "escape" if matches!(value, "" | "none") => self.escape = None,
            "escape" => self.escape = Some(byte(value)?),
            "double_quote" if boolean(value)? => self.escape = None,
            "double_quote" => {
                return Err(Error::unsupported(
                    "quotes inside quoted fields are doubled, or name an 'escape' character",
                ));
            }
            "comment" => self.comment = Some(byte(value)?),
            "terminator" => self.terminator = Some(byte(value)?),
            "null_value" if value.is_empty() => self.null = Some(NullRule::Empty),
            "null_value" => self.null = Some(NullRule::Text(value.to_owned())),
            "null_regex" if matches!(value, "" | "^$") => self.null = Some(NullRule::Empty),
            "null_regex" => {
                return Err(Error::unsupported("only '^$' is; name the text that means NULL with 'null_value'"));
            }
            "newlines_in_values" => self.newlines_in_values = Some(boolean(value)?),
            "truncated_rows" => self.ragged = Some(if boolean(value)? { Ragged::Lenient } else { Ragged::Error }),
            "newline_delimited" => {
                self.json_shape = Some(if boolean(value)? { JsonShape::Lines } else { JsonShape::Document });
            }
            "compression" => self.compression = Some(compression(value)?),
            "schema_infer_max_rec" => {
                let records =
                    value.parse().map_err(|_| Error::invalid(format!("'{value}' is no number of records")))?;
                self.schema_infer_max_rec = Some(records);
            }
            "union_by_name" => self.union_by_name = boolean(value)?,
            "hive_partitioning" => self.hive_partitioning = Some(boolean(value)?),
            "backend" => self.backend = Some(value.parse()?),
            "index_location" => self.index_location = Some(value.to_owned()),
            other => return Err(Error::internal(format!("option {other} is listed but not read"))),
        }
        Ok(())
    }

    /// The format of a table of this kind, with defaults for what is not declared.
    pub fn format(&self, kind: Kind) -> Format {
        let compression = self.compression.unwrap_or_default();
        match kind {
            Kind::Parquet => Format::Parquet,
            Kind::Json => {
                let shape = self.json_shape.unwrap_or_default();
                Format::Json(JsonOptions { shape, compression, ..JsonOptions::default() })
            }
            Kind::Csv | Kind::Tsv => {
                let default = CsvOptions::default();
                Format::Csv(CsvOptions {
                    header: self.header.unwrap_or(default.header),
                    delimiter: self.delimiter.unwrap_or(if kind == Kind::Tsv { b'\t' } else { default.delimiter }),
                    quote: self.quote.unwrap_or(default.quote),
                    escape: self.escape,
                    comment: self.comment,
                    terminator: self.terminator,
                    null: self.null.clone().unwrap_or_default(),
                    ragged: self.ragged.unwrap_or_default(),
                    newlines_in_values: self.newlines_in_values.unwrap_or(false),
                    compression,
                    inferred: false,
                    wide: None,
                })
            }
        }
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
    let names = OPTIONS.iter().flat_map(|(name, synonyms, _)| synonyms.iter().chain(std::iter::once(name)));
    let hint = nearest(name, names.copied()).map(|name| format!("did you mean '{name}'? ")).unwrap_or_default();
    Error::invalid(format!("unknown table option '{name}': {hint}known are {}", known.join(", ")))
}

/// Parses the `value` of an option that is true or false.
pub(crate) fn boolean(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(Error::invalid(format!("'{value}' is neither true nor false"))),
    }
}

/// Parses one ASCII character, or one of its usual spellings.
fn byte(value: &str) -> Result<u8> {
    match value {
        "\\t" | "tab" => Ok(b'\t'),
        "\\n" => Ok(b'\n'),
        "\\r" => Ok(b'\r'),
        "\\\\" => Ok(b'\\'),
        "\\0" => Ok(0),
        _ => match value.as_bytes() {
            [one] if one.is_ascii() => Ok(*one),
            _ => Err(Error::invalid(format!("'{value}' is not one ASCII character"))),
        },
    }
}

fn compression(value: &str) -> Result<Compression> {
    match value.to_ascii_lowercase().as_str() {
        "" | "none" | "uncompressed" => Ok(Compression::None),
        "gzip" | "gz" => Ok(Compression::Gzip),
        "bzip2" | "bz2" => Ok(Compression::Bzip2),
        "zstd" | "zst" => Ok(Compression::Zstd),
        other => Err(Error::unsupported(format!("'{other}': known are none, gzip, bzip2 and zstd"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(stored_as: &str, options: &[(&str, &str)]) -> Result<TableOptions> {
        TableOptions::parse(stored_as, options.iter().copied())
    }

    #[test]
    fn names_with_and_without_prefix_are_one() {
        let options = [
            ("format.has_header", "false"),
            ("DELIMITER", "\\t"),
            ("format.null_value", "NA"),
            ("truncated_rows", "true"),
            ("backend", "minio"),
        ];
        let table = parse("CSV", &options).unwrap();
        let Format::Csv(csv) = table.format(Kind::Csv) else { panic!() };
        assert!(!csv.header);
        assert_eq!(csv.delimiter, b'\t');
        assert_eq!(csv.null, NullRule::Text("NA".into()));
        assert_eq!(csv.ragged, Ragged::Lenient);
        assert_eq!(table.backend, Some(Profile::Minio));
    }

    #[test]
    fn every_known_option_is_read() {
        for (name, ..) in OPTIONS {
            let error = TableOptions::default().apply(name, "?!").err().map(|e| e.to_string()).unwrap_or_default();
            assert!(!error.contains("not read"), "{error}");
        }
    }

    #[test]
    fn mistakes_name_the_way_out() {
        let error = parse("CSV", &[("delimeter", ";")]).unwrap_err().to_string();
        assert!(error.contains("did you mean 'delimiter'") && error.contains("union_by_name"), "{error}");
        let error = parse("CSV", &[("delimiter", ";;")]).unwrap_err().to_string();
        assert_eq!(error, "option 'delimiter': ';;' is not one ASCII character");
        let error = parse("PARQUET", &[("header", "true")]).unwrap_err().to_string();
        assert!(error.contains("about CSV"), "{error}");
        let error = parse("CSV", &[("aws.region", "eu-west-1")]).unwrap_err().to_string();
        assert!(error.starts_with("option 'aws.region' is about the connection"), "{error}");
        assert!(parse("AVRO", &[]).unwrap_err().to_string().contains("known formats"));
        assert!(parse("CSV", &[("backend", "azure")]).unwrap_err().to_string().contains("minio"));
    }

    #[test]
    fn names_tell_kind_and_compression() {
        let of = |name| (FileName::of(name).kind, FileName::of(name).compression);
        assert_eq!(of("a/b.CSV"), (Some(Kind::Csv), Compression::None));
        assert_eq!(of("a/b.tsv.gz"), (Some(Kind::Tsv), Compression::Gzip));
        assert_eq!(of("b.ndjson.zst"), (Some(Kind::Json), Compression::Zstd));
        assert_eq!(of("x.parquet"), (Some(Kind::Parquet), Compression::None));
        assert_eq!(of("folder.csv/part-0"), (None, Compression::None));
        assert_eq!(of("part-0.gz"), (None, Compression::Gzip));
        assert_eq!(of("csv"), (None, Compression::None));
        assert!(FileName::of("schema.sql").is_side_file);
    }
}
