//! A fragment: what one scan does with the bytes of an object.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::Expr;

/// How text is compressed as a whole. Parquet compresses inside and is always [`Compression::None`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Compression {
    /// Not at all; byte ranges can be read.
    #[default]
    None,
    /// gzip, one or more members.
    Gzip,
    /// bzip2.
    Bzip2,
    /// zstd, one or more frames.
    Zstd,
}

/// Which fields of a CSV record mean NULL.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum NullRule {
    /// An empty field, quoted or not, is NULL: the meaning of tables in SQL.
    #[default]
    Empty,
    /// Empty fields and fields with exactly this text are NULL.
    Text(String),
    /// No field is NULL; an empty field is the empty string: the meaning of S3 Select.
    Never,
}

/// What a record with more or fewer fields than the schema means.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Ragged {
    /// An error that names the object and the byte.
    #[default]
    Error,
    /// Missing fields are NULL; extra fields are not read.
    Lenient,
}

/// How a CSV object is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CsvOptions {
    /// Whether the first record names the columns and is no data.
    pub header: bool,
    /// Between fields.
    pub delimiter: u8,
    /// Around fields that hold delimiters, quotes or line ends; `None` if quotes have no meaning.
    pub quote: Option<u8>,
    /// Before a quote inside a quoted field; `None` means the quote is doubled.
    pub escape: Option<u8>,
    /// A record that starts with it is skipped.
    pub comment: Option<u8>,
    /// Ends a record; `None` means `\n` or `\r\n`.
    pub terminator: Option<u8>,
    /// Which fields are NULL.
    pub null: NullRule,
    /// What a short or long record means.
    pub ragged: Ragged,
    /// Whether quoted fields may hold line ends. If so the object is read in one sequential pass.
    pub newlines_in_values: bool,
    /// How the object is compressed.
    pub compression: Compression,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            header: true,
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            comment: None,
            terminator: None,
            null: NullRule::Empty,
            ragged: Ragged::Error,
            newlines_in_values: false,
            compression: Compression::None,
        }
    }
}

/// How the JSON records of an object stand in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum JsonShape {
    /// One record a line (NDJSON).
    #[default]
    Lines,
    /// Values one after the other, or one large one; newlines have no meaning.
    Document,
}

/// How a JSON object is written and read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JsonOptions {
    /// Lines or document.
    pub shape: JsonShape,
    /// How the object is compressed.
    pub compression: Compression,
    /// Each column of the schema is then Utf8 and holds the JSON token found at the field's name, as it is
    /// written (`"a"`, `17.00`, `null`, `{…}`); absent paths are NULL. This is how S3 Select, which has no
    /// schema, reads JSON. Nested paths are written `a.b[0]` in the field's metadata under `path`.
    pub raw_tokens: bool,
}

/// The format of an object's bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// Delimited text; columns by position.
    Csv(CsvOptions),
    /// JSON records; columns by name, absent fields NULL.
    Json(JsonOptions),
    /// Parquet; columns by name, absent columns NULL.
    Parquet,
}

impl Format {
    /// The name in SQL and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Csv(_) => "CSV",
            Self::Json(_) => "JSON",
            Self::Parquet => "Parquet",
        }
    }

    /// How the object as a whole is compressed.
    pub fn compression(&self) -> Compression {
        match self {
            Self::Csv(options) => options.compression,
            Self::Json(options) => options.compression,
            Self::Parquet => Compression::None,
        }
    }

    /// Whether byte ranges of an object can be scanned on their own, a record belonging to the range that
    /// holds its first byte.
    pub fn is_splittable(&self) -> bool {
        self.compression() == Compression::None
            && match self {
                Self::Csv(options) => !options.newlines_in_values,
                Self::Json(options) => options.shape == JsonShape::Lines,
                Self::Parquet => true,
            }
    }
}

/// An output column: an expression and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedExpr {
    /// What is computed.
    pub expr: Expr,
    /// What it is called.
    pub name: String,
}

/// An aggregate that storage can compute.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AggregateFunction {
    /// `COUNT(*)` without an argument, else `COUNT(x)`: Int64, never NULL.
    Count,
    /// `SUM(x)`: NULL over nothing; DataFusion's result type.
    Sum,
    /// `MIN(x)`.
    Min,
    /// `MAX(x)`.
    Max,
    /// `AVG(x)`, the final value; engines ask for SUM and COUNT instead.
    Avg,
}

impl AggregateFunction {
    /// The name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Count => "COUNT",
            Self::Sum => "SUM",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Avg => "AVG",
        }
    }
}

/// One aggregate over the rows that pass.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// Which one.
    pub function: AggregateFunction,
    /// Of what; `None` only for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// What the result is called.
    pub name: String,
}

/// What comes out of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The rows that pass, each turned into these columns.
    Rows(Vec<NamedExpr>),
    /// One row.
    Aggregate(Vec<AggregateCall>),
}

/// What one scan does with the bytes of an object: decode, filter, then project or aggregate, then limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// How the bytes are written.
    pub format: Format,
    /// The columns of the object: all of them in order for CSV, the declared ones for JSON and Parquet.
    pub schema: SchemaRef,
    /// Rows for which this is not TRUE are dropped.
    pub predicate: Option<Expr>,
    /// What is computed from the rest.
    pub output: Output,
    /// At most this many rows (any of them).
    pub limit: Option<u64>,
}

impl Fragment {
    /// All columns of all rows.
    pub fn all(format: Format, schema: SchemaRef) -> Self {
        let output = Output::Rows(
            schema
                .fields()
                .iter()
                .enumerate()
                .map(|(index, field)| NamedExpr { expr: Expr::Column(index), name: field.name().clone() })
                .collect(),
        );
        Self { format, schema, predicate: None, output, limit: None }
    }

    /// The columns the fragment reads, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let outputs: Vec<&Expr> = match &self.output {
            Output::Rows(columns) => columns.iter().map(|c| &c.expr).collect(),
            Output::Aggregate(calls) => calls.iter().filter_map(|c| c.argument.as_ref()).collect(),
        };
        let mut all: Vec<usize> = outputs.into_iter().chain(&self.predicate).flat_map(Expr::columns).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A unit of scan work: an object as it was when the query was planned, or a range of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Split {
    /// The object's key in its bucket, or its path.
    pub key: Arc<str>,
    /// Its ETag at planning; the scan fails if the object has another one.
    pub etag: Option<String>,
    /// Its size in bytes at planning.
    pub size: u64,
    /// The records (Parquet: row groups) whose first byte lies in here; `None` for the whole object.
    pub range: Option<Range<u64>>,
}
