//! What a scan will probably find: by the statistics of its table, or else by guesses from bytes and types.
//!
//! It orders joins, chooses strategies, and enforces the caps before a query runs.

use arrow::datatypes::DataType;
use pushdown::{Expr, Format, Fragment, Output};

use super::ScanSpec;
use crate::backends::COALESCE_GAP_BYTES;
use crate::statistics::{Core, Kept, TableStatistics};

/// The bytes of an answer without rows.
const AGGREGATE_BYTES: u64 = 1024;

/// Bytes of a group's key or state in an answer, about.
const STATE_BYTES: f64 = 16.0;

/// What stands between two values of text.
const DELIMITER_BYTES: f64 = 1.0;

/// Numbers and texts take this share of their bytes as text in the fragment route's answers: they are columns of Arrow under LZ4.
const COMPRESSED: f64 = 0.5;

/// Bytes of a text there that is one of few: a number in a dictionary, which LZ4 makes no shorter.
const CODE_BYTES: f64 = 1.0;

/// So few texts have such numbers.
const CODES: f64 = 256.0;

/// How much a predicate is assumed to keep where nothing is known: DataFusion's own default of 20 %.
pub(crate) const DEFAULT_SELECTIVITY: f64 = 0.2;

/// Parquet holds a row in about a third of the bytes that CSV needs (PushdownDB, Section IX).
const PARQUET_SHRINKS: u64 = 3;

/// Bytes of a value of this type as text, its delimiter included.
pub(crate) fn column_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 5,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => 4,
        DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => 8,
        DataType::Date32 | DataType::Date64 => 11,
        DataType::Timestamp(..) => 24,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Float32 | DataType::Float64 => 9,
        _ => 18,
    }
}

/// About how many rows objects of so many bytes hold.
pub(crate) fn rows_of(fragment: &Fragment, bytes: u64) -> u64 {
    let width: u64 = fragment.schema.fields().iter().map(|f| column_bytes(f.data_type())).sum();
    let width = match fragment.format {
        Format::Parquet => (width / PARQUET_SHRINKS).max(1),
        // Every record repeats the names.
        Format::Json(_) => width + fragment.schema.fields().iter().map(|f| f.name().len() as u64 + 4).sum::<u64>(),
        Format::Csv(_) => width.max(1),
    };
    bytes / width.max(1)
}

/// What a scan will probably find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures<'a> {
    fragment: &'a Fragment,
    statistics: Option<&'a TableStatistics>,
    /// Of the objects that are scanned.
    bytes: u64,
    /// What the predicate keeps.
    kept: Kept,
    /// The predicate without the keys of joins.
    without_keys: Option<&'a Expr>,
}

impl<'a> Figures<'a> {
    /// Of a scan of all its objects.
    pub(crate) fn of(spec: &'a ScanSpec, fragment: &'a Fragment) -> Self {
        let statistics = spec.statistics.as_deref();
        let bytes = spec.objects.iter().map(|object| object.size).sum();
        let guess = Kept { rows: DEFAULT_SELECTIVITY, blocks: 1.0 };
        let kept = match &fragment.predicate {
            None => Kept { rows: 1.0, blocks: 1.0 },
            Some(predicate) => statistics.and_then(|statistics| statistics.kept(predicate)).unwrap_or(guess),
        };
        let without_keys = match &spec.without_keys {
            Some(without_keys) => without_keys.predicate.as_ref(),
            None => fragment.predicate.as_ref(),
        };
        let mut figures = Self { fragment, statistics, bytes, kept, without_keys };
        let scanned = figures.scanned().max(1.0);
        match &spec.without_keys {
            // Keys are others each time; they leave no more rows than pass without them.
            Some(without_keys) => figures.kept.rows = figures.kept.rows.min(without_keys.rows / scanned),
            None => {
                if let Some(rows) = figures.passed_before() {
                    figures.kept.rows = (rows / scanned).clamp(0.0, 1.0);
                }
            }
        }
        figures
    }

    /// The same of parts of so many bytes.
    pub(crate) fn within(&self, bytes: u64) -> Self {
        Self { bytes, ..*self }
    }

    /// Of the objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Rows that are scanned.
    pub(crate) fn scanned(&self) -> f64 {
        match self.statistics {
            Some(statistics) => self.bytes as f64 / statistics.row_bytes().max(f64::MIN_POSITIVE),
            None => rows_of(self.fragment, self.bytes) as f64,
        }
    }

    /// Rows that pass.
    pub(crate) fn rows(&self) -> f64 {
        self.scanned() * self.kept.rows
    }

    /// How many groups these keys make of the rows that pass; `None` where nobody can tell.
    pub(crate) fn groups(&self, keys: &[Expr]) -> Option<f64> {
        let groups = self.statistics?.groups(keys, self.fragment.predicate.as_ref())?;
        Some(groups.min(self.rows().max(1.0)))
    }

    /// Bytes that each request costs besides the rows of its splits: Bloom filters that it brings along, and states of groups, which
    /// several answers with.
    pub(crate) fn repeated_bytes(&self) -> f64 {
        let conjuncts = self.fragment.predicate.iter().flat_map(Expr::conjuncts);
        let brought = conjuncts.map(|conjunct| match conjunct {
            Expr::Bloom { filter, .. } => filter.size_bytes(),
            _ => 0,
        });
        let brought = brought.sum::<usize>() as f64;
        let Output::Aggregate { groups, calls } = &self.fragment.output else { return brought };
        let columns = (groups.len() + calls.len()) as f64;
        let keys: Vec<Expr> = groups.iter().map(|group| group.expr.clone()).collect();
        // Where nobody can tell, there may be as many as rows.
        let count = if keys.is_empty() { 1.0 } else { self.groups(&keys).unwrap_or_else(|| self.rows()) };
        brought + count * columns * STATE_BYTES
    }

    /// How many values an expression has in the table, whatever the predicate; `None` where nobody can tell.
    pub(crate) fn values(&self, expr: &Expr) -> Option<f64> {
        self.statistics?.groups(std::slice::from_ref(expr), None)
    }

    /// The shares of the rows that pass which these keys' most frequent values have, where that is at least `share`;
    /// `None` where nobody can tell.
    pub(crate) fn frequent(&self, keys: &[Expr], share: f64) -> Option<Vec<f64>> {
        self.statistics?.frequent(keys, self.fragment.predicate.as_ref(), share)
    }

    /// The share of the bytes that storage read the last time it scanned them for the same; `None` if that is not known.
    pub(crate) fn scanned_before(&self) -> Option<f64> {
        self.statistics?.seen().share(self.fragment, self.bytes)
    }

    /// Seconds that a byte took such a core when it was last scanned for the same without keys of joins; `None` if that is not
    /// known.
    pub(crate) fn byte_s(&self, core: Core) -> Option<f64> {
        self.statistics?.seen().byte_s(self.fragment, self.without_keys, core)
    }

    /// Rows that passed the last time; `None` if that is not known.
    fn passed_before(&self) -> Option<f64> {
        self.statistics?.seen().rows(self.fragment, self.bytes)
    }

    /// Bytes that plain reads fetch: all of text, of Parquet the columns that are read.
    pub(crate) fn read_bytes(&self) -> u64 {
        match self.fragment.format {
            Format::Parquet => (self.bytes as f64 * self.read_share()) as u64,
            Format::Csv(_) | Format::Json(_) => self.bytes,
        }
    }

    /// Requests of plain reads beyond one an object: of Parquet each row group is asked for in stretches, those of the
    /// predicate's columns first.
    pub(crate) fn further_reads(&self, objects: u64) -> u64 {
        let all = self.fragment.columns();
        let predicate = self.fragment.predicate.as_ref().map(Expr::columns).unwrap_or_default();
        let (first, then): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|column| predicate.contains(column));
        let gap = COALESCE_GAP_BYTES as f64;
        let stretches = |columns: &[usize]| self.statistics?.stretches(columns, self.bytes as f64, gap);
        let reads = stretches(&first).zip(stretches(&then)).map(|(first, then)| (first + then) * self.kept.blocks);
        (reads.unwrap_or_default() as u64).saturating_sub(objects)
    }

    /// The columns' share of the bytes of Parquet, at least one of them for its rows.
    fn read_share(&self) -> f64 {
        let columns = self.fragment.columns();
        let stored = self.statistics.and_then(|statistics| statistics.stored_share(&columns));
        stored.unwrap_or_else(|| self.width(&columns) / self.all_width())
    }

    /// Bytes that storage sends where it filters and projects.
    pub(crate) fn sent_bytes(&self) -> u64 {
        let Output::Rows(outputs) = &self.fragment.output else { return AGGREGATE_BYTES };
        let columns: Vec<usize> = outputs.iter().flat_map(|output| output.expr.columns()).collect();
        match self.statistics {
            Some(_) => (self.rows() * self.width(&columns)) as u64,
            // Without knowing rows: their share of the bytes.
            None => {
                (self.bytes as f64 * self.width(&self.fragment.columns()) / self.all_width() * self.kept.rows) as u64
            }
        }
    }

    /// The share of [`Self::sent_bytes`] that the fragment route's answers take.
    pub(crate) fn compressed(&self) -> f64 {
        let Output::Rows(outputs) = &self.fragment.output else { return COMPRESSED };
        let columns = outputs.iter().flat_map(|output| output.expr.columns()).map(|column| {
            let width = self.width(&[column]);
            (width, if self.is_coded(column) { CODE_BYTES } else { width * COMPRESSED })
        });
        let (plain, sent) = columns.fold((0.0, 0.0), |(plain, sent), column| (plain + column.0, sent + column.1));
        if plain > 0.0 { sent / plain } else { COMPRESSED }
    }

    /// Whether the texts of a column are few.
    fn is_coded(&self, column: usize) -> bool {
        self.fragment.schema.field(column).data_type().is_string()
            && self.values(&Expr::Column(column)).is_some_and(|values| values <= CODES)
    }

    fn all_width(&self) -> f64 {
        let all: Vec<usize> = (0..self.fragment.schema.fields().len()).collect();
        self.width(&all).max(1.0)
    }

    /// Bytes of a row of these columns as storage sends them.
    pub(crate) fn width(&self, columns: &[usize]) -> f64 {
        let width = |column: &usize| match self.statistics.and_then(|statistics| statistics.value_bytes(*column)) {
            Some(bytes) => bytes + DELIMITER_BYTES,
            None => column_bytes(self.fragment.schema.field(*column).data_type()) as f64,
        };
        columns.iter().map(width).sum()
    }
}
