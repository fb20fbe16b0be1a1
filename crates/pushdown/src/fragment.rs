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
    /// Marks that are longer than one byte; they then stand in for `delimiter`, `quote`, `escape`, `comment` and
    /// `terminator`.
    pub wide: Option<WideMarks>,
}

/// The marks of a CSV of which some are longer than one byte, as S3 Select allows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WideMarks {
    /// Between fields; not empty.
    pub delimiter: String,
    /// Ends a record; `None` means `\n` or `\r\n`.
    pub terminator: Option<String>,
    /// Around fields; `None` if quotes have no meaning.
    pub quote: Option<String>,
    /// Before a quote inside a quoted field; `None` means the quote is doubled.
    pub escape: Option<String>,
    /// A record that starts with it is skipped.
    pub comment: Option<String>,
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
            wide: None,
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

/// One step of the way from a value at the root of JSON text to its records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JsonStep {
    /// The member of an object.
    Key {
        /// Its name.
        name: String,
        /// Whether case matters.
        exact: bool,
    },
    /// The element of an array, counted from 0.
    Index(usize),
    /// Every element of an array: `[*]`.
    AnyElement,
    /// Every member of an object: `.*`.
    AnyMember,
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
    /// schema, reads JSON. Nested paths are written `a."B"[0]` in the field's metadata under `path`: a name is
    /// found whatever its case, a name in double quotes (doubled inside) only as it is written; `$` is the whole
    /// record. Without that metadata the field's name is found as it is written.
    pub raw_tokens: bool,
    /// With `raw_tokens`: where the records are within each value at the root of the text. Empty: the values
    /// themselves are the records, an array at the root being one value. Each of them yields at least one record;
    /// one that has nothing at the path yields a record all of whose columns are NULL.
    pub from: Vec<JsonStep>,
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
    /// The mean of doubles, 0 over nothing. With COUNT and [`Self::SquaredDeviations`] it is the partial state of
    /// STDDEV and VARIANCE; S3 Select has neither.
    Mean,
    /// The sum of the squared deviations of doubles from their mean, 0 over nothing.
    SquaredDeviations,
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
            Self::Mean => "MEAN",
            Self::SquaredDeviations => "SQUARED_DEVIATIONS",
        }
    }
}

/// One aggregate over the rows that pass. NULL is skipped. Of tokens ([`Expr::is_token`]), SUM and AVG take numbers
/// only, and MIN and MAX order truth values before numbers before text.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// Which one.
    pub function: AggregateFunction,
    /// Of what; `None` only for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// What the result is called.
    pub name: String,
}

impl AggregateCall {
    /// Whether it is computed over JSON tokens and yields one: the argument is a token, and the function no COUNT.
    pub fn yields_token(&self) -> bool {
        self.function != AggregateFunction::Count && self.argument.as_ref().is_some_and(Expr::is_token)
    }
}

/// What comes out of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The rows that pass, each turned into these columns.
    Rows(Vec<NamedExpr>),
    /// One row for each combination of keys that occurs, NULL being a key like any other: first the keys, then the
    /// aggregates. Without keys it is exactly one row, whether or not rows pass.
    Aggregate {
        /// The keys.
        groups: Vec<NamedExpr>,
        /// What is computed for each.
        calls: Vec<AggregateCall>,
    },
}

impl Output {
    /// Aggregates over all rows that pass, as one row.
    pub fn scalar(calls: Vec<AggregateCall>) -> Self {
        Self::Aggregate { groups: vec![], calls }
    }
}

/// One key that rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// What is compared, over the columns of the output by their index there.
    pub expr: Expr,
    /// From the greatest to the least.
    pub descending: bool,
    /// Whether NULL comes before everything else.
    pub nulls_first: bool,
}

/// What one scan does with the bytes of an object: decode, filter, project or aggregate, order, limit, and perhaps
/// project once more.
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
    /// What the rows are ordered by before the limit, which must be given: the first rows in this order come out,
    /// in order. Rows that compare equal are in any order, and any of them come out.
    pub order: Vec<SortKey>,
    /// At most this many rows; without an order any of them.
    pub limit: Option<u64>,
    /// What comes out, over the columns of the output by their index there; `None` for those columns themselves.
    pub project: Option<Vec<NamedExpr>>,
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
        Self { format, schema, predicate: None, output, order: vec![], limit: None, project: None }
    }

    /// What is evaluated of the object's columns: the outputs, then the predicate.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let outputs: Vec<&Expr> = match &self.output {
            Output::Rows(columns) => columns.iter().map(|c| &c.expr).collect(),
            Output::Aggregate { groups, calls } => {
                groups.iter().map(|g| &g.expr).chain(calls.iter().filter_map(|c| c.argument.as_ref())).collect()
            }
        };
        outputs.into_iter().chain(&self.predicate)
    }

    /// The columns the fragment reads, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.exprs().flat_map(Expr::columns).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Which columns of the result are the text of JSON values rather than text: paths of raw JSON, and what is
    /// computed as tokens.
    pub fn token_columns(&self) -> Vec<bool> {
        let raw = matches!(&self.format, Format::Json(options) if options.raw_tokens);
        let of_input = |expr: &Expr| expr.is_token() || (raw && matches!(expr, Expr::Column(_)));
        let output: Vec<bool> = match &self.output {
            Output::Rows(columns) => columns.iter().map(|c| of_input(&c.expr)).collect(),
            Output::Aggregate { groups, calls } => {
                let call = |c: &AggregateCall| c.yields_token();
                groups.iter().map(|g| of_input(&g.expr)).chain(calls.iter().map(call)).collect()
            }
        };
        let Some(project) = &self.project else { return output };
        let last = |expr: &Expr| match expr {
            Expr::Column(index) => output.get(*index).copied().unwrap_or(false),
            other => other.is_token(),
        };
        project.iter().map(|c| last(&c.expr)).collect()
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
