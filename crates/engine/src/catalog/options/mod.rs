//! The encoding of a table's objects, as far as it is declared: `STORED AS` and `OPTIONS (…)`.
//!
//! The rest follows from an object's name ([`FileName`]) or, for tables without declared columns,
//! from its bytes ([`super::infer`]). The names are DataFusion's, with or without their `format.`
//! prefix, and a few common synonyms. An unknown option is refused: a misspelled delimiter must not
//! be ignored.

mod kind;
mod value;

use std::sync::Arc;

use pushdowndb_contract::{
    Compression, CsvOptions, Error, Format, JsonOptions, JsonShape, NullRule, Profile, Ragged, Result, Translation,
    WideMarks,
};

use crate::nearest::nearest;

pub(crate) use kind::unread;
pub use kind::{FileName, Kind};
pub(crate) use value::{OptionValue, boolean};
use value::{byte, compression, separator, time_format};

/// The name of the column [`TableOptions::filename`], if no other name is given.
pub(crate) const FILENAME: &str = "filename";

/// The options of a table: name, synonyms, whether it is for CSV only. The synonyms are DuckDB's
/// names.
const OPTIONS: [(&str, &[&str], bool); 40] = [
    ("has_header", &["header"], true),
    ("delimiter", &["delim", "sep", "separator"], true),
    ("quote", &[], true),
    ("escape", &[], true),
    ("double_quote", &[], true),
    ("comment", &[], true),
    ("terminator", &["new_line"], true),
    ("null_value", &["null", "nullstr"], true),
    ("null_regex", &[], true),
    ("newlines_in_values", &[], true),
    ("truncated_rows", &["ragged", "null_padding"], true),
    ("skip", &[], true),
    ("columns", &[], false),
    ("types", &["dtypes", "column_types"], true),
    ("names", &["column_names"], true),
    ("all_varchar", &[], true),
    ("normalize_names", &[], true),
    ("auto_detect", &[], true),
    ("encoding", &[], true),
    ("decimal_separator", &["decimal"], true),
    ("thousands", &["thousands_separator"], true),
    ("dateformat", &["date_format"], true),
    ("timestampformat", &["timestamp_format"], true),
    ("ignore_errors", &[], true),
    ("store_rejects", &[], true),
    ("newline_delimited", &[], false),
    ("format", &[], false),
    ("records", &[], false),
    ("compression", &[], false),
    ("schema_infer_max_rec", &["sample_size"], false),
    ("union_by_name", &[], false),
    ("hive_partitioning", &[], false),
    ("filename", &[], false),
    ("parallel", &[], false),
    ("hive_types", &[], false),
    ("hive_types_autocast", &["hive_type_autocast"], false),
    ("max_line_size", &["maximum_line_size", "buffer_size", "maximum_object_size", "rejects_limit"], false),
    ("maximum_depth", &["maximum_sample_files", "map_inference_threshold", "field_appearance_threshold"], false),
    ("backend", &[], false),
    ("index_location", &[], false),
];

/// Prefixes of DataFusion's options about the connection.
const STORE_PREFIXES: [&str; 5] = ["aws.", "s3.", "http.", "gcp.", "azure."];

/// The declared options of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableOptions {
    /// The format after `STORED AS`.
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
    /// Maximum number of records per object that inference reads.
    pub schema_infer_max_rec: Option<usize>,
    /// `Some(true)` if the table has the columns of all objects, matched by name; those without a
    /// common type become text. `Some(false)` if all objects must have the same columns, in CSV in
    /// the same order.
    pub union_by_name: Option<bool>,
    /// `Some(false)` if `key=value` in a path gives no column.
    pub hive_partitioning: Option<bool>,
    /// The kind of server, which decides what storage can do.
    pub backend: Option<Profile>,
    /// A location of the table's indexes, in addition to the folder beside its objects.
    pub index_location: Option<String>,
    /// The text between fields, if it is not one ASCII character.
    pub wide_delimiter: Option<String>,
    /// Changes to the text before it is cut into records, and to its fields.
    pub translation: Translation,
    /// The columns that replace the inferred ones, with the SQL of their types.
    pub columns: Vec<(String, String)>,
    /// Types that replace inferred ones: of the column with that name, or without a name by
    /// position.
    pub types: Vec<(Option<String>, String)>,
    /// Names that replace those of the first columns.
    pub names: Vec<String>,
    /// Whether all columns are text.
    pub all_varchar: bool,
    /// Whether names are changed so that they need no quotes in SQL.
    pub normalize_names: bool,
    /// `Some(false)` if nothing is inferred, since `columns` declares every column.
    pub auto_detect: Option<bool>,
    /// The name of the column with the address of each row's object; `None` for no such column.
    pub filename: Option<String>,
    /// Types that replace those inferred for columns from paths, by name.
    pub hive_types: Vec<(String, String)>,
    /// `Some(false)` if columns from paths are text.
    pub hive_types_autocast: Option<bool>,
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
            parsed.set(name.as_ref(), &OptionValue::parse(value.as_ref()))?;
        }
        parsed.check()?;
        Ok(parsed)
    }

    /// Parses the named arguments of a reading function.
    pub(crate) fn of_arguments(kind: Kind, arguments: &[(String, OptionValue)]) -> Result<Self> {
        let mut parsed = Self { kind: Some(kind), ..Self::default() };
        for (name, value) in arguments {
            parsed.set(name, value)?;
        }
        parsed.check()?;
        Ok(parsed)
    }

    /// Refuses options that contradict each other.
    fn check(&self) -> Result<()> {
        let renamed = !self.columns.is_empty() || !self.names.is_empty();
        if renamed && self.union_by_name == Some(true) {
            return Err(Error::invalid(
                "'union_by_name' finds columns by the names in the objects: leave out 'names' and 'columns'",
            ));
        }
        if !self.columns.is_empty() && (!self.types.is_empty() || !self.names.is_empty()) {
            return Err(Error::invalid("'columns' has names and types already: leave out 'names' and 'types'"));
        }
        if self.kind == Some(Kind::Parquet) && !self.columns.is_empty() {
            return Err(Error::invalid("'columns' is about CSV and JSON: Parquet has its own names and types"));
        }
        if self.auto_detect == Some(false) && self.columns.is_empty() {
            return Err(Error::invalid("'auto_detect' false needs 'columns': {'name': 'TYPE', …}"));
        }
        let Translation { decimal, thousands, .. } = &self.translation;
        if thousands.is_some() && *thousands == Some(decimal.unwrap_or(b'.')) {
            return Err(Error::invalid("'thousands' and 'decimal_separator' are the same character"));
        }
        Ok(())
    }

    fn set(&mut self, written: &str, value: &OptionValue) -> Result<()> {
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

    fn apply(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match (name, value) {
            ("null_value", _) => self.set_nulls(value.texts()?),
            ("columns", _) => self.columns = value.named_texts()?,
            ("types", OptionValue::Map(_)) => {
                self.types = value.named_texts()?.into_iter().map(|(name, text)| (Some(name), text)).collect();
            }
            ("types", _) => self.types = value.texts()?.into_iter().map(|text| (None, text)).collect(),
            ("names", _) => self.names = value.texts()?,
            ("hive_types", _) => self.hive_types = value.named_texts()?,
            _ => self.apply_text(name, value.text()?)?,
        }
        Ok(())
    }

    /// Sets the texts that mean NULL. The scan compares with the first one; translation replaces
    /// the others by it.
    fn set_nulls(&mut self, texts: Vec<String>) {
        let mut texts = texts.into_iter().filter(|text| !text.is_empty());
        self.null = Some(texts.next().map_or(NullRule::Empty, NullRule::Text));
        self.translation.nulls = texts.collect();
    }

    fn apply_text(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "has_header" => self.header = Some(boolean(value)?),
            "delimiter" if value.is_empty() => return Err(Error::invalid("the text between fields is empty")),
            "delimiter" => match byte(value) {
                Ok(byte) => self.delimiter = Some(byte),
                Err(_) => self.wide_delimiter = Some(value.to_owned()),
            },
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
            "comment" if value.is_empty() => self.comment = None,
            "comment" => self.comment = Some(byte(value)?),
            "terminator" if matches!(value, "\\r\\n" | "\r\n") => self.terminator = None,
            "terminator" => self.terminator = Some(byte(value)?),
            "null_regex" if matches!(value, "" | "^$") => self.null = Some(NullRule::Empty),
            "null_regex" => {
                return Err(Error::unsupported("only '^$' is; name the text that means NULL with 'null_value'"));
            }
            "newlines_in_values" => self.newlines_in_values = Some(boolean(value)?),
            "truncated_rows" => self.ragged = Some(if boolean(value)? { Ragged::Lenient } else { Ragged::Error }),
            "newline_delimited" => {
                self.json_shape = Some(if boolean(value)? { JsonShape::Lines } else { JsonShape::Document });
            }
            "format" => {
                self.json_shape = match value.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    "newline_delimited" | "nd" => Some(JsonShape::Lines),
                    "array" | "unstructured" => Some(JsonShape::Document),
                    _ => {
                        return Err(Error::invalid(format!(
                            "'{value}': known are auto, newline_delimited, array and unstructured"
                        )));
                    }
                };
            }
            "records" if matches!(value, "auto" | "true") => {}
            "records" => return Err(Error::unsupported("records are JSON objects, whose fields are the columns")),
            "compression" if matches!(value.to_ascii_lowercase().as_str(), "auto" | "auto_detect") => {
                self.compression = None
            }
            "compression" => self.compression = Some(compression(value)?),
            "skip" => {
                self.translation.skip =
                    value.parse().map_err(|_| Error::invalid(format!("'{value}' is no number of lines")))?;
            }
            "all_varchar" => self.all_varchar = boolean(value)?,
            "normalize_names" => self.normalize_names = boolean(value)?,
            "auto_detect" => self.auto_detect = Some(boolean(value)?),
            "encoding" => {
                pushdowndb_scan::check_encoding(value)?;
                let is_utf8 = matches!(value.to_ascii_lowercase().as_str(), "utf-8" | "utf8");
                self.translation.encoding = (!is_utf8).then(|| value.to_ascii_lowercase());
            }
            "decimal_separator" => self.translation.decimal = Some(separator(value)?).filter(|byte| *byte != b'.'),
            "thousands" if value.is_empty() => self.translation.thousands = None,
            "thousands" => self.translation.thousands = Some(separator(value)?),
            "dateformat" => self.translation.date_format = Some(time_format(value)?),
            "timestampformat" => self.translation.timestamp_format = Some(time_format(value)?),
            "ignore_errors" => self.translation.ignores_errors = boolean(value)?,
            "store_rejects" => self.translation.ignores_errors |= boolean(value)?,
            "filename" => {
                self.filename = match boolean(value) {
                    Ok(is_wanted) => is_wanted.then(|| FILENAME.to_owned()),
                    Err(_) => Some(value.to_owned()),
                };
            }
            "hive_types_autocast" => self.hive_types_autocast = Some(boolean(value)?),
            // Accepted, as in DuckDB, but without effect: how a file is read is not an option.
            "parallel" => {
                boolean(value)?;
            }
            "max_line_size" | "maximum_depth" => {
                value.parse::<f64>().map_err(|_| Error::invalid(format!("'{value}' is no number")))?;
            }
            "schema_infer_max_rec" if value == "-1" => self.schema_infer_max_rec = None,
            "schema_infer_max_rec" => {
                let records =
                    value.parse().map_err(|_| Error::invalid(format!("'{value}' is no number of records")))?;
                self.schema_infer_max_rec = Some(records);
            }
            "union_by_name" => self.union_by_name = Some(boolean(value)?),
            "hive_partitioning" => self.hive_partitioning = Some(boolean(value)?),
            "backend" => self.backend = Some(value.parse()?),
            "index_location" => self.index_location = Some(value.to_owned()),
            other => return Err(Error::internal(format!("option {other} is listed but not read"))),
        }
        Ok(())
    }

    /// Returns the format of a table of this kind, with defaults for what is not declared.
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
                    // Without inference there is no header, unless it is declared.
                    header: self.header.unwrap_or(self.auto_detect != Some(false)),
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
                    wide: self.wide_marks(),
                    translation: (!self.translation.is_empty()).then(|| Arc::new(self.translation.clone())),
                })
            }
        }
    }
}

impl TableOptions {
    fn wide_marks(&self) -> Option<WideMarks> {
        let text = |byte: u8| char::from(byte).to_string();
        Some(WideMarks {
            delimiter: self.wide_delimiter.clone()?,
            terminator: self.terminator.map(text),
            quote: self.quote.unwrap_or(CsvOptions::default().quote).map(text),
            escape: self.escape.map(text),
            comment: self.comment.map(text),
        })
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
    let names = OPTIONS.iter().flat_map(|(name, synonyms, _)| synonyms.iter().chain(std::iter::once(name)));
    let hint = nearest(name, names.copied()).map(|name| format!("did you mean '{name}'? ")).unwrap_or_default();
    Error::invalid(format!("unknown table option '{name}': {hint}known are {}", known.join(", ")))
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
            let value = OptionValue::Text("?!".to_owned());
            let error = TableOptions::default().apply(name, &value).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(!error.contains("not read"), "{error}");
        }
    }

    #[test]
    fn mistakes_name_the_way_out() {
        let error = parse("CSV", &[("delimeter", ";")]).unwrap_err().to_string();
        assert!(error.contains("did you mean 'delimiter'") && error.contains("union_by_name"), "{error}");
        let error = parse("CSV", &[("quote", ";;")]).unwrap_err().to_string();
        assert_eq!(error, "option 'quote': ';;' is not one ASCII character");
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
