//! Cardinality of a scan, from the statistics of its table or from guesses by bytes and types.
//!
//! The estimates order joins, choose strategies, and enforce the caps before a query runs.

use pushdowndb_contract::{Expr, Format, Fragment, Output};

use crate::endpoints::COALESCE_GAP_BYTES;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::statistics::width;
use crate::statistics::{Core, Selectivity, TableStatistics};

/// Assumed bytes of a response with aggregates in place of rows.
const AGGREGATE_BYTES: u64 = 1024;

/// Approximate bytes of a group's key or state in a response.
const STATE_BYTES: f64 = 16.0;

/// Bytes of the delimiter after a value of text.
const DELIMITER_BYTES: f64 = 1.0;

/// Ratio of the bytes of a value in a response of the fragment route (Arrow, LZ4) to its bytes as
/// text.
const LZ4_RATIO: f64 = 0.5;

/// Bytes of a dictionary code in a response of the fragment route, which LZ4 does not shorten.
const CODE_BYTES: f64 = 1.0;

/// Maximum distinct texts of a column that is sent as dictionary codes.
const MAX_DICTIONARY_TEXTS: f64 = 256.0;

/// Selectivity assumed without statistics: DataFusion's own default of 20 %.
pub(crate) const DEFAULT_SELECTIVITY: f64 = 0.2;

/// Ratio of the bytes of a row in CSV to its bytes in Parquet (PushdownDB, Section IX).
const CSV_TO_PARQUET_RATIO: u64 = 3;

/// Estimates the rows in `bytes` bytes of objects from the types of the columns.
pub(crate) fn rows_of(fragment: &Fragment, bytes: u64) -> u64 {
    let width: u64 = fragment.schema.fields().iter().map(|f| width::column_bytes(f.data_type())).sum();
    let width = match fragment.format {
        Format::Parquet => (width / CSV_TO_PARQUET_RATIO).max(1),
        // Every record repeats the column names.
        Format::Json(_) => width + fragment.schema.fields().iter().map(|f| f.name().len() as u64 + 4).sum::<u64>(),
        Format::Csv(_) => width.max(1),
    };
    bytes / width.max(1)
}

/// The estimated cardinality of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cardinality<'a> {
    fragment: &'a Fragment,
    statistics: Option<&'a TableStatistics>,
    bytes: u64,
    selectivity: Selectivity,
    without_keys: Option<&'a Expr>,
}

impl<'a> Cardinality<'a> {
    /// Estimates a scan of all objects of `plan`.
    pub(crate) fn of(plan: &'a ScanPlan, context: &'a ScanContext, fragment: &'a Fragment) -> Self {
        let statistics = context.statistics.as_deref();
        let bytes = plan.objects.iter().map(|object| object.size).sum();
        let guess = Selectivity { rows: DEFAULT_SELECTIVITY, blocks: 1.0 };
        let selectivity = match &fragment.predicate {
            None => Selectivity { rows: 1.0, blocks: 1.0 },
            Some(predicate) => statistics.and_then(|statistics| statistics.selectivity(predicate)).unwrap_or(guess),
        };
        let without_keys = match &plan.without_keys {
            Some(without_keys) => without_keys.predicate.as_ref(),
            None => fragment.predicate.as_ref(),
        };
        let mut cardinality = Self { fragment, statistics, bytes, selectivity, without_keys };
        let scanned = cardinality.scanned().max(1.0);
        match &plan.without_keys {
            // Keys differ between runs, but never leave more rows than the predicate without them.
            Some(without_keys) => {
                cardinality.selectivity.rows = cardinality.selectivity.rows.min(without_keys.rows / scanned)
            }
            None => {
                if let Some(rows) = cardinality.passed_before() {
                    cardinality.selectivity.rows = (rows / scanned).clamp(0.0, 1.0);
                }
            }
        }
        cardinality
    }

    /// Returns the estimate scaled to splits of `bytes` bytes in total.
    pub(crate) fn within(&self, bytes: u64) -> Self {
        Self { bytes, ..*self }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Estimated rows scanned.
    pub(crate) fn scanned(&self) -> f64 {
        match self.statistics {
            Some(statistics) => self.bytes as f64 / statistics.row_bytes().max(f64::MIN_POSITIVE),
            None => rows_of(self.fragment, self.bytes) as f64,
        }
    }

    /// Estimated rows that pass the predicate.
    pub(crate) fn rows(&self) -> f64 {
        self.scanned() * self.selectivity.rows
    }

    /// Estimates the number of groups that `keys` form in the passing rows; `None` without
    /// statistics.
    pub(crate) fn groups(&self, keys: &[Expr]) -> Option<f64> {
        let groups = self.statistics?.groups(keys, self.fragment.predicate.as_ref())?;
        Some(groups.min(self.rows().max(1.0)))
    }

    /// Estimates the bytes that each request adds to its rows: Bloom filters that it sends, and
    /// states of groups that other requests return, too.
    pub(crate) fn repeated_bytes(&self) -> f64 {
        let conjuncts = self.fragment.predicate.iter().flat_map(Expr::conjuncts);
        let filter_bytes = conjuncts.map(|conjunct| match conjunct {
            Expr::Bloom { filter, .. } => filter.size_bytes(),
            _ => 0,
        });
        let filter_bytes = filter_bytes.sum::<usize>() as f64;
        let Output::Aggregate { groups, calls } = &self.fragment.output else { return filter_bytes };
        let columns = (groups.len() + calls.len()) as f64;
        let keys: Vec<Expr> = groups.iter().map(|group| group.expr.clone()).collect();
        let count = if keys.is_empty() { 1.0 } else { self.groups(&keys).unwrap_or_else(|| self.rows()) };
        filter_bytes + count * columns * STATE_BYTES
    }

    /// Estimates the distinct values of `expr` without the predicate; `None` without statistics.
    pub(crate) fn values(&self, expr: &Expr) -> Option<f64> {
        self.statistics?.groups(std::slice::from_ref(expr), None)
    }

    /// Returns the shares of the passing rows that have the most frequent values of `keys`, for
    /// values with a share of at least `share`. Returns `None` without statistics.
    pub(crate) fn frequent(&self, keys: &[Expr], share: f64) -> Option<Vec<f64>> {
        self.statistics?.frequent(keys, self.fragment.predicate.as_ref(), share)
    }

    /// The share of bytes that storage read in an earlier scan; `None` without feedback.
    pub(crate) fn scanned_before(&self) -> Option<f64> {
        self.statistics?.feedback().share(self.fragment, self.bytes)
    }

    /// Seconds per byte on a `core` in an earlier scan without join keys; `None` without feedback.
    pub(crate) fn s_per_byte(&self, core: Core) -> Option<f64> {
        self.statistics?.feedback().s_per_byte(self.fragment, self.without_keys, core)
    }

    /// Rows that passed in an earlier scan of this fragment; `None` without feedback.
    fn passed_before(&self) -> Option<f64> {
        self.statistics?.feedback().rows(self.fragment, self.bytes)
    }

    /// Estimates the bytes that plain reads fetch: all of text; for Parquet, the columns in use.
    pub(crate) fn read_bytes(&self) -> u64 {
        match self.fragment.format {
            Format::Parquet => (self.bytes as f64 * self.read_share()) as u64,
            Format::Csv(_) | Format::Json(_) => self.bytes,
        }
    }

    /// Estimates the number of plain reads in addition to one per object. In each Parquet row
    /// group, columns are read together only if they are close to each other.
    pub(crate) fn further_reads(&self, objects: u64) -> u64 {
        let all = self.fragment.columns();
        let predicate = self.fragment.predicate.as_ref().map(Expr::columns).unwrap_or_default();
        let (first, then): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|column| predicate.contains(column));
        let gap = COALESCE_GAP_BYTES as f64;
        let stretches = |columns: &[usize]| self.statistics?.stretches(columns, self.bytes as f64, gap);
        let reads =
            stretches(&first).zip(stretches(&then)).map(|(first, then)| (first + then) * self.selectivity.blocks);
        (reads.unwrap_or_default() as u64).saturating_sub(objects)
    }

    /// Estimates the share of Parquet bytes that belong to the columns in use.
    fn read_share(&self) -> f64 {
        let columns = self.fragment.columns();
        let stored = self.statistics.and_then(|statistics| statistics.stored_share(&columns));
        stored.unwrap_or_else(|| self.width(&columns) / self.all_width())
    }

    /// Estimates the bytes that storage sends after filter and projection.
    pub(crate) fn sent_bytes(&self) -> u64 {
        let Output::Rows(outputs) = &self.fragment.output else { return AGGREGATE_BYTES };
        let columns: Vec<usize> = outputs.iter().flat_map(|output| output.expr.columns()).collect();
        match self.statistics {
            Some(_) => (self.rows() * self.width(&columns)) as u64,
            // Without statistics, use the columns' share of the bytes.
            None => {
                (self.bytes as f64 * self.width(&self.fragment.columns()) / self.all_width() * self.selectivity.rows)
                    as u64
            }
        }
    }

    /// Estimates the compressed size of [`Self::sent_bytes`] in a response of the fragment route,
    /// as a share of it.
    pub(crate) fn compressed(&self) -> f64 {
        let Output::Rows(outputs) = &self.fragment.output else { return LZ4_RATIO };
        let columns = outputs.iter().flat_map(|output| output.expr.columns()).map(|column| {
            let width = self.width(&[column]);
            (width, if self.is_coded(column) { CODE_BYTES } else { width * LZ4_RATIO })
        });
        let (plain, sent) = columns.fold((0.0, 0.0), |(plain, sent), column| (plain + column.0, sent + column.1));
        if plain > 0.0 { sent / plain } else { LZ4_RATIO }
    }

    /// Returns whether the texts of `column` are few enough for dictionary codes.
    fn is_coded(&self, column: usize) -> bool {
        self.fragment.schema.field(column).data_type().is_string()
            && self.values(&Expr::Column(column)).is_some_and(|values| values <= MAX_DICTIONARY_TEXTS)
    }

    fn all_width(&self) -> f64 {
        let all: Vec<usize> = (0..self.fragment.schema.fields().len()).collect();
        self.width(&all).max(1.0)
    }

    /// Estimated bytes of a row of `columns` as storage sends them.
    pub(crate) fn width(&self, columns: &[usize]) -> f64 {
        let width = |column: &usize| match self.statistics.and_then(|statistics| statistics.value_bytes(*column)) {
            Some(bytes) => bytes + DELIMITER_BYTES,
            None => width::column_bytes(self.fragment.schema.field(*column).data_type()) as f64,
        };
        columns.iter().map(width).sum()
    }
}
