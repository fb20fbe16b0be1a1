//! Fragments: the work of one scan over the bytes of an object.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::{Expr, Translation};

/// The key of the field metadata that marks a field with values of several kinds.
///
/// Objects of the table store such a field with different types, under different spellings of its
/// name or not at all, or JSON records hold text in some places and an object in others. Scans
/// convert each value to the field's type. S3 Select compares and returns values with the types of
/// each object, so it is not used for such a field.
pub const MIXED: &str = "mixed";

/// The key of the field metadata that marks a field whose type was inferred from other objects. A
/// Parquet value that would be changed by the conversion to the field's type is then an error.
pub const EXACT: &str = "exact";

/// The key of the field metadata that marks a CSV field with a declared type among fields with
/// inferred types. Such a field accepts every spelling of a value, such as numbers with leading
/// zeros.
pub const DECLARED: &str = "declared";

/// The compression of an object as a whole. For Parquet, which compresses internally, it is always
/// [`Compression::None`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Compression {
    /// None; byte ranges can be read.
    #[default]
    None,
    /// gzip, one or more members.
    Gzip,
    /// bzip2.
    Bzip2,
    /// zstd, one or more frames.
    Zstd,
}

/// The rule for NULL in CSV.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum NullRule {
    /// Empty fields are NULL, as in SQL tables. A pair of quotes is empty text in a text column,
    /// and NULL in other columns.
    #[default]
    Empty,
    /// Empty fields and fields with exactly this text are NULL.
    Text(String),
    /// No field is NULL, and an empty field is empty text, as in S3 Select.
    Never,
}

/// The rule for records with more or fewer fields than the schema.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Ragged {
    /// It is an error, which names the object and the offset.
    #[default]
    Error,
    /// Missing fields are NULL; extra fields are skipped.
    Lenient,
}

/// The dialect of a CSV object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CsvOptions {
    /// True if the first record is a header.
    pub header: bool,
    /// The byte between fields.
    pub delimiter: u8,
    /// The byte around fields that hold delimiters, quotes or line ends; `None` if quotes have no
    /// meaning.
    pub quote: Option<u8>,
    /// The byte before a quote inside a quoted field; `None` if the quote is doubled.
    pub escape: Option<u8>,
    /// The first byte of records that are skipped.
    pub comment: Option<u8>,
    /// The end of a record; `None` for `\n` or `\r\n`.
    pub terminator: Option<u8>,
    /// The rule for NULL.
    pub null: NullRule,
    /// The rule for records with more or fewer fields than the schema.
    pub ragged: Ragged,
    /// True if quoted fields may hold line ends. The object is then read in one sequential pass.
    pub newlines_in_values: bool,
    /// The compression of the object.
    pub compression: Compression,
    /// True if the types were inferred from a sample. A number with leading zeros, which would be
    /// lost, is then an error.
    pub inferred: bool,
    /// Delimiters longer than one byte; they replace `delimiter`, `quote`, `escape`, `comment` and
    /// `terminator`.
    pub wide: Option<WideMarks>,
    /// The translation of the text before it is parsed; `None` for UTF-8 with values as SQL spells
    /// them. A translated object is read in one sequential pass.
    pub translation: Option<Arc<Translation>>,
}

/// Delimiters of CSV that are longer than one byte, as S3 Select allows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WideMarks {
    /// The text between fields; not empty.
    pub delimiter: String,
    /// The end of a record; `None` for `\n` or `\r\n`.
    pub terminator: Option<String>,
    /// The text around fields; `None` if quotes have no meaning.
    pub quote: Option<String>,
    /// The byte before a quote inside a quoted field; `None` if the quote is doubled.
    pub escape: Option<String>,
    /// The first byte of records that are skipped.
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
            inferred: false,
            wide: None,
            translation: None,
        }
    }
}

/// The layout of JSON records in an object.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum JsonShape {
    /// One record per line (NDJSON).
    #[default]
    Lines,
    /// Concatenated values, or one large one; newlines have no meaning.
    Document,
}

/// One step of the path from a value at the root of the JSON text to the records inside it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JsonStep {
    /// The member of an object.
    Key {
        /// Its name.
        name: String,
        /// True if case matters.
        exact: bool,
    },
    /// The element of an array, counted from 0.
    Index(usize),
    /// Every element of an array: `[*]`.
    AnyElement,
    /// Every member of an object: `.*`.
    AnyMember,
}

/// The dialect of a JSON object, and how to read it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JsonOptions {
    /// The layout of the records.
    pub shape: JsonShape,
    /// The compression of the object.
    pub compression: Compression,
    /// True if each column of the schema is Utf8 and holds a JSON token as it is written (`"a"`,
    /// `17.00`, `null`, `{…}`), as S3 Select reads JSON, which has no schema there. Absent paths
    /// are NULL.
    ///
    /// The token is found at the path in the field's metadata under `path`, such as `a."B"[0]`: a
    /// bare name is matched ignoring case, a name in double quotes (doubled inside) exactly, and
    /// `$` is the whole record. Without that metadata, the field's name is matched exactly.
    pub raw_tokens: bool,
    /// The path from each value at the root of the text to its records, used only with
    /// `raw_tokens`.
    ///
    /// If it is empty, the root values themselves are the records; an array at the root is one
    /// value. Each value yields at least one record: if there is nothing at the path, all columns
    /// of that record are NULL.
    pub from: Vec<JsonStep>,
    /// True if the columns were inferred from a sample. Then an integer that a DOUBLE would round
    /// is an error, and so is a field without a column if all columns are read. Ignored with
    /// `raw_tokens`.
    pub inferred: bool,
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

    /// The compression of the object as a whole.
    pub fn compression(&self) -> Compression {
        match self {
            Self::Csv(options) => options.compression,
            Self::Json(options) => options.compression,
            Self::Parquet => Compression::None,
        }
    }

    /// Sets the compression of the object as a whole; Parquet has none.
    pub fn compressed(mut self, compression: Compression) -> Self {
        match &mut self {
            Self::Csv(csv) => csv.compression = compression,
            Self::Json(json) => json.compression = compression,
            Self::Parquet => {}
        }
        self
    }

    /// Returns whether byte ranges of an object can be scanned independently. A record belongs to
    /// the range that contains its first byte.
    pub fn is_splittable(&self) -> bool {
        self.compression() == Compression::None
            && match self {
                Self::Csv(options) => !options.newlines_in_values && options.translation.is_none(),
                Self::Json(options) => options.shape == JsonShape::Lines,
                Self::Parquet => true,
            }
    }
}

/// An output column: an expression and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedExpr {
    /// The expression.
    pub expr: Expr,
    /// The name of the column.
    pub name: String,
}

/// An aggregate function that storage can compute.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AggregateFunction {
    /// `COUNT(*)` without an argument, else `COUNT(x)`: Int64, never NULL.
    Count,
    /// `SUM(x)`, with DataFusion's result type; NULL if there are no rows.
    Sum,
    /// `MIN(x)`.
    Min,
    /// `MAX(x)`.
    Max,
    /// `AVG(x)`, the final value; engines push SUM and COUNT instead.
    Avg,
    /// The mean of doubles; 0 if there are no rows. With COUNT and [`Self::SquaredDeviations`] it
    /// is the partial state of STDDEV and VARIANCE, which S3 Select does not have.
    Mean,
    /// The sum of the squared deviations of doubles from their mean; 0 if there are no rows.
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

/// One aggregate over the rows that pass the predicate. NULL is skipped. For JSON tokens
/// ([`Expr::is_token`]), SUM and AVG ignore values other than numbers, and MIN and MAX order
/// booleans before numbers before text.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// The argument; `None` only for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// The name of the result.
    pub name: String,
}

impl AggregateCall {
    /// True if the result is a JSON token: the argument is a token, and the function is not COUNT.
    pub fn yields_token(&self) -> bool {
        self.function != AggregateFunction::Count && self.argument.as_ref().is_some_and(Expr::is_token)
    }
}

/// The output of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The rows that pass the predicate, projected to these columns.
    Rows(Vec<NamedExpr>),
    /// One row per distinct combination of keys, where NULL is a key like any other. The keys are
    /// followed by the aggregates. Without keys, the output is exactly one row, even if no row
    /// passes.
    Aggregate {
        /// The keys of GROUP BY.
        groups: Vec<NamedExpr>,
        /// The aggregates of each group.
        calls: Vec<AggregateCall>,
    },
}

impl Output {
    /// Returns the output of aggregates over all rows that pass, which is one row.
    pub fn scalar(calls: Vec<AggregateCall>) -> Self {
        Self::Aggregate { groups: vec![], calls }
    }
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The expression to compare, over the columns of the output.
    pub expr: Expr,
    /// True for descending order.
    pub descending: bool,
    /// True if NULL comes first.
    pub nulls_first: bool,
}

/// The work of one scan on the bytes of an object: decode, filter, project or aggregate, order,
/// limit, and optionally project again.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// The format of the object.
    pub format: Format,
    /// The columns of the object. For CSV these are all columns in order, for JSON and Parquet the
    /// declared ones.
    pub schema: SchemaRef,
    /// The filter: rows for which it is not TRUE are dropped.
    pub predicate: Option<Expr>,
    /// The projection or the aggregates over the rows that pass the predicate.
    pub output: Output,
    /// The sort keys, which require a limit. The first rows in this order are returned, in order.
    /// Rows that compare equal are interchangeable.
    pub order: Vec<SortKey>,
    /// The maximum number of rows; without sort keys, any rows of the output may be returned.
    pub limit: Option<u64>,
    /// A final projection over the columns of the output; `None` to return those columns.
    pub project: Option<Vec<NamedExpr>>,
}

impl Fragment {
    /// Returns a fragment that selects all columns of all rows.
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

    /// Returns the expressions over the object's columns: those of the output, then the predicate.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let outputs: Vec<&Expr> = match &self.output {
            Output::Rows(columns) => columns.iter().map(|c| &c.expr).collect(),
            Output::Aggregate { groups, calls } => {
                groups.iter().map(|g| &g.expr).chain(calls.iter().filter_map(|c| c.argument.as_ref())).collect()
            }
        };
        outputs.into_iter().chain(&self.predicate)
    }

    /// Returns the columns that the fragment reads, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.exprs().flat_map(Expr::columns).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the name of a column that the fragment reads and that is marked as [`MIXED`], if
    /// any.
    pub fn mixed_column(&self) -> Option<&str> {
        let mut fields = self.columns().into_iter().filter_map(|column| self.schema.fields().get(column));
        fields.find(|field| field.metadata().contains_key(MIXED)).map(|field| field.name().as_str())
    }

    /// Returns whether a JSON field without a column is an error. It is one if the columns were
    /// inferred from a sample and all of them are returned unchanged, as by `SELECT *`.
    pub fn refuses_surplus(&self) -> bool {
        let Format::Json(JsonOptions { inferred: true, raw_tokens: false, .. }) = &self.format else { return false };
        let Output::Rows(columns) = &self.output else { return false };
        let fields = 0..self.schema.fields().len();
        !fields.is_empty() && fields.map(Expr::Column).all(|field| columns.iter().any(|column| column.expr == field))
    }

    /// Returns for each column of the result whether it holds JSON tokens rather than text. Paths
    /// in raw JSON and results of token functions are tokens.
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

/// A unit of scan work: an object in the version that was planned with, or a range of that object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Split {
    /// The object's key in its bucket, or its path.
    pub key: Arc<str>,
    /// The ETag at planning; the scan fails if the object has another one.
    pub etag: Option<String>,
    /// The size at planning, in bytes.
    pub size: u64,
    /// The range of bytes to scan; `None` for the whole object. A record, or a Parquet row group,
    /// belongs to the range that contains its first byte.
    pub range: Option<Range<u64>>,
}
