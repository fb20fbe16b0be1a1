//! A sample of a table's rows, and estimates from it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::row::{Row, RowConverter, SortField};
use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::{Error, Expr, Result};
use pushdowndb_scan::Evaluator;

use super::ColumnFigures;
use crate::error::from_datafusion;

/// Rows of the sample that are assumed to pass a condition that none of them passes: half a row
/// (Krichevsky and Trofimov, 1981), since a condition in a query is more likely rare than
/// impossible.
const UNSEEN_ROWS: f64 = 0.5;

/// A sample of a table's rows. They come in runs of neighbors, called pieces, because a request
/// returns many adjacent rows. The piece of each row is kept, since what neighbors have in common
/// need not be true of the whole table.
#[derive(Clone, Debug)]
pub(crate) struct TableSample {
    /// The sampled rows, with all columns of the objects.
    pub(crate) rows: RecordBatch,
    /// For each row, the number of its piece, in ascending order.
    pub(crate) pieces: Vec<u32>,
    /// For each row, the number of the block of bytes that it begins in, in ascending order.
    pub(crate) blocks: Vec<u32>,
    /// The mean bytes of a row in the objects.
    pub(crate) row_bytes: f64,
    /// The estimated number of rows of the table.
    pub(crate) table_rows: f64,
    /// Figures of the columns, computed on first use.
    columns: Vec<OnceLock<Option<ColumnFigures>>>,
    text_bytes: Vec<OnceLock<Option<f64>>>,
    /// Cached selectivities by predicate, since planning needs them repeatedly.
    kept: Memo<Expr, Option<Selectivity>>,
    /// Cached distinct counts by expressions and predicate.
    groups: Memo<(Vec<Expr>, Option<Expr>), Option<f64>>,
}

/// Maximum cached estimates of each kind.
const MAX_ANSWERS: usize = 64;

/// Cache of the last estimates of one kind, by their parameters.
#[derive(Clone, Debug)]
struct Memo<Q, A>(Arc<Mutex<VecDeque<(Q, A)>>>);

impl<Q, A> Default for Memo<Q, A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Q: PartialEq, A: Clone> Memo<Q, A> {
    fn get_or(&self, question: Q, answer: impl FnOnce(&Q) -> A) -> A {
        let known = self.lock().iter().find(|(known, _)| *known == question).map(|(_, answer)| answer.clone());
        known.unwrap_or_else(|| {
            let answer = answer(&question);
            let mut all = self.lock();
            if all.len() >= MAX_ANSWERS {
                all.pop_front();
            }
            all.push_back((question, answer.clone()));
            answer
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Q, A)>> {
        self.0.lock()
    }
}

/// The shares of rows and blocks that pass a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selectivity {
    /// Share of the rows.
    pub(crate) rows: f64,
    /// Share of the blocks that contain a passing row.
    pub(crate) blocks: f64,
}

impl TableSample {
    /// Creates a sample of rows with their pieces and blocks, from a table of `table_rows` rows in
    /// `table_bytes` bytes.
    pub(crate) fn new(
        rows: RecordBatch,
        pieces: Vec<u32>,
        blocks: Vec<u32>,
        table_rows: f64,
        table_bytes: f64,
    ) -> Self {
        let row_bytes = table_bytes / table_rows.max(1.0);
        let columns = vec![OnceLock::new(); rows.num_columns()];
        let text_bytes = vec![OnceLock::new(); rows.num_columns()];
        let (kept, groups) = (Memo::default(), Memo::default());
        Self { rows, pieces, blocks, row_bytes, table_rows, columns, text_bytes, kept, groups }
    }

    /// Returns the number of rows in the sample.
    pub(crate) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Returns the number of rows in the sample as a share of the table's rows.
    pub(crate) fn share(&self) -> f64 {
        (self.len() as f64 / self.table_rows.max(1.0)).min(1.0)
    }

    /// Returns the shares of rows and blocks that pass `predicate`; `None` if the sample is empty
    /// or the predicate fails on a row of it.
    pub(crate) fn selectivity(&self, predicate: &Expr) -> Option<Selectivity> {
        // Join keys are large and differ between queries, so their result is not cached.
        match has_bloom(predicate) {
            true => self.measured(predicate),
            false => self.kept.get_or(predicate.clone(), |predicate| self.measured(predicate)),
        }
    }

    fn measured(&self, predicate: &Expr) -> Option<Selectivity> {
        if self.len() == 0 {
            return None;
        }
        let matches = Evaluator::predicate(predicate, self.rows.schema_ref()).ok()?.matches(&self.rows).ok()?;
        let hits = matches.true_count();
        if hits == 0 && self.share() < 1.0 {
            return Some(self.unseen(predicate));
        }
        let passing = self.blocks.iter().zip(matches.iter()).filter(|(_, matches)| *matches == Some(true));
        let blocks = distinct_of_sorted(passing.map(|(block, _)| *block));
        let all_blocks = distinct_of_sorted(self.blocks.iter().copied());
        Some(Selectivity { rows: hits as f64 / self.len() as f64, blocks: blocks as f64 / all_blocks.max(1) as f64 })
    }

    /// Estimates the shares of a predicate that no row of the sample passes: at most
    /// [`UNSEEN_ROWS`] of the sample's rows, and at most the product of the smoothed shares of its
    /// conjuncts, as if they were independent.
    fn unseen(&self, predicate: &Expr) -> Selectivity {
        let least = UNSEEN_ROWS / (self.len() as f64 + 1.0);
        let share = |conjunct: &Expr| {
            let matches = Evaluator::predicate(conjunct, self.rows.schema_ref()).ok()?.matches(&self.rows).ok()?;
            Some((matches.true_count() as f64 + UNSEEN_ROWS) / (self.len() as f64 + 1.0))
        };
        let conjuncts = predicate.conjuncts().into_iter();
        let independent: f64 = conjuncts.map(|conjunct| share(conjunct).unwrap_or(1.0)).product();
        let rows = independent.min(least);
        let per_block = self.len() as f64 / distinct_of_sorted(self.blocks.iter().copied()).max(1) as f64;
        Selectivity { rows, blocks: (rows * per_block).min(1.0) }
    }

    /// Estimates the number of distinct values of `exprs` among the table's rows that pass
    /// `predicate`; NULL is a value. Returns `None` if the sample has no such row, or if an
    /// expression fails on one.
    ///
    /// The estimator is that of Haas and Stokes (1998; PostgreSQL's ANALYZE uses it on rows): D = d
    /// / (1 - (1 - q) f1 / n), for d distinct values in a sample of the share q, of which f1 were
    /// seen once. Here a value counts once per piece: n is the number of pairs of a value and a
    /// piece, and f1 the number of values that occur in a single piece. So a column by which the
    /// table is sorted has new values in every piece.
    pub(crate) fn distinct(&self, exprs: &[Expr], predicate: Option<&Expr>) -> Option<f64> {
        let question = (exprs.to_vec(), predicate.cloned());
        self.groups.get_or(question, |(exprs, predicate)| self.counted(exprs, predicate.as_ref()))
    }

    fn counted(&self, exprs: &[Expr], predicate: Option<&Expr>) -> Option<f64> {
        let counts = self.values(exprs, predicate).ok()??;
        let seen = counts.len() as f64;
        if seen == 0.0 {
            return None;
        }
        let pairs: f64 = counts.iter().map(|count| f64::from(count.pieces)).sum();
        let single = counts.iter().filter(|count| count.pieces == 1).count() as f64;
        let kept = counts.iter().map(|count| f64::from(count.rows)).sum::<f64>() / self.len() as f64;
        let share = self.share();
        let distinct = seen / (1.0 - (1.0 - share) * single / pairs);
        Some(distinct.clamp(seen, (self.table_rows * kept).max(seen)))
    }

    /// Returns the shares of single values of `exprs` among the rows that pass `predicate`, in
    /// descending order. Includes values with a share of at least `share` that occur in more than
    /// one piece.
    pub(crate) fn frequent(&self, exprs: &[Expr], predicate: Option<&Expr>, share: f64) -> Vec<f64> {
        let Ok(Some(counts)) = self.values(exprs, predicate) else { return vec![] };
        let rows: f64 = counts.iter().map(|count| f64::from(count.rows)).sum();
        let spread = counts.iter().filter(|count| count.pieces > 1);
        let mut shares: Vec<f64> = spread.map(|count| f64::from(count.rows) / rows).filter(|s| *s >= share).collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        shares
    }

    /// Counts each value of `exprs` among the rows that pass `predicate`; `None` without
    /// expressions.
    fn values(&self, exprs: &[Expr], predicate: Option<&Expr>) -> Result<Option<Vec<ValueCount>>> {
        let schema = self.rows.schema_ref();
        let columns = exprs.iter().map(|expr| Evaluator::expr(expr, schema)?.evaluate(&self.rows));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        if columns.is_empty() {
            return Ok(None);
        }
        let matches = predicate.map(|p| Evaluator::predicate(p, schema)?.matches(&self.rows)).transpose()?;
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(failed)?;
        let rows = converter.convert_columns(&columns).map_err(failed)?;
        let mut counts: HashMap<Row<'_>, ValueCount, RandomState> = HashMap::default();
        for (index, (row, piece)) in rows.iter().zip(&self.pieces).enumerate() {
            if matches.as_ref().is_some_and(|matches| !matches.is_valid(index) || !matches.value(index)) {
                continue;
            }
            let seen = counts.entry(row).or_default();
            seen.rows += 1;
            if seen.last != Some(*piece) {
                seen.last = Some(*piece);
                seen.pieces += 1;
            }
        }
        Ok(Some(counts.into_values().collect()))
    }

    /// Returns the figures of a column.
    pub(crate) fn column(&self, column: usize) -> Option<&ColumnFigures> {
        self.columns.get(column)?.get_or_init(|| self.column_figures(column)).as_ref()
    }

    fn column_figures(&self, column: usize) -> Option<ColumnFigures> {
        let values = self.rows.columns().get(column)?;
        let rows = self.len().max(1) as f64;
        let distinct = self.distinct(&[Expr::Column(column)], None)?;
        Some(ColumnFigures { null_share: values.null_count() as f64 / rows, distinct })
    }

    /// Returns the mean bytes of a value of this column as text; NULL has none.
    pub(crate) fn text_bytes(&self, column: usize) -> Option<f64> {
        let mean = || {
            let text = cast(self.rows.columns().get(column)?, &DataType::Utf8).ok()?;
            let bytes: usize = text.as_string_opt::<i32>()?.iter().flatten().map(str::len).sum();
            Some(bytes as f64 / self.len().max(1) as f64)
        };
        *self.text_bytes.get(column)?.get_or_init(mean)
    }
}

fn has_bloom(expr: &Expr) -> bool {
    matches!(expr, Expr::Bloom { .. }) || expr.children().into_iter().any(has_bloom)
}

fn failed(error: ArrowError) -> Error {
    from_datafusion(error.into())
}

/// The counts of one value.
#[derive(Clone, Copy, Debug, Default)]
struct ValueCount {
    rows: u32,
    pieces: u32,
    last: Option<u32>,
}

fn distinct_of_sorted(values: impl Iterator<Item = u32>) -> usize {
    let (mut count, mut last) = (0, None);
    for value in values {
        if last != Some(value) {
            (count, last) = (count + 1, Some(value));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use pushdowndb_contract::{CompareOp, Literal};

    use super::*;

    /// A hundredth of a table of a million rows, in ten pieces of a thousand: a key it is sorted
    /// by, four rows each, a flag of three values, and scattered numbers below 5,000.
    fn sample() -> TableSample {
        let row = |i: i64| (i / 1000 * 100_000 + i % 1000, i);
        let sorted: Int64Array = (0..10_000).map(|i| Some(row(i).0 / 4)).collect();
        let flags: Int64Array = (0..10_000).map(|i| (i % 4 > 0).then_some(i % 4)).collect();
        let scattered: Int64Array = (0..10_000_i64).map(|i| Some(i.wrapping_mul(2_654_435_761) % 5_000)).collect();
        let schema = Schema::new(vec![
            Field::new("sorted", DataType::Int64, false),
            Field::new("flag", DataType::Int64, true),
            Field::new("scattered", DataType::Int64, false),
        ]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(sorted), Arc::new(flags), Arc::new(scattered)])
            .unwrap();
        let pieces = (0..10_000).map(|i| i / 1000).collect();
        let blocks = (0..10_000).map(|i| i / 100).collect();
        TableSample::new(rows, pieces, blocks, 1e6, 1e8)
    }

    fn compare(column: usize, op: CompareOp, to: i64) -> Expr {
        Expr::Compare(op, Box::new(Expr::Column(column)), Box::new(Expr::Literal(Literal::Int64(to))))
    }

    #[test]
    fn distinct_values_are_those_of_the_table() {
        let sample = sample();
        let sorted = sample.distinct(&[Expr::Column(0)], None).unwrap();
        assert!((200_000.0..300_000.0).contains(&sorted), "{sorted}, in truth 250,000");
        assert_eq!(sample.distinct(&[Expr::Column(1)], None), Some(4.0), "NULL is one");
        let scattered = sample.distinct(&[Expr::Column(2)], None).unwrap();
        assert!((4_500.0..6_000.0).contains(&scattered), "{scattered}, in truth 5,000");
        let one = sample.distinct(&[Expr::Column(1)], Some(&compare(1, CompareOp::Eq, 2))).unwrap();
        assert!((one - 1.0).abs() < 1e-9, "{one}");
    }

    #[test]
    fn a_predicate_is_measured_by_rows_and_by_blocks() {
        let sample = sample();
        let flagged = sample.selectivity(&compare(1, CompareOp::Eq, 2)).unwrap();
        assert_eq!(flagged, Selectivity { rows: 0.25, blocks: 1.0 });
        let first = sample.selectivity(&compare(0, CompareOp::Lt, 100_000 / 4)).unwrap();
        assert_eq!(first, Selectivity { rows: 0.1, blocks: 0.1 }, "the rows of one piece");
        let none = sample.selectivity(&compare(2, CompareOp::Gt, 9_999)).unwrap();
        assert!(none.rows > 0.0 && none.rows < 1e-4, "{none:?}: not seen, but perhaps there");
    }

    #[test]
    fn frequent_values_come_first() {
        let shares = sample().frequent(&[Expr::Column(1)], None, 0.1);
        assert_eq!(shares, [0.25; 4]);
        assert!(sample().frequent(&[Expr::Column(0)], None, 0.0).is_empty(), "seen in one piece only");
    }
}
