//! Statistics of a table, for planning.
//!
//! ```text
//! collect     few ranges of a table's objects -> Sampled      one round of requests, in parallel
//!   TableSample   of text: rows, with the piece and the block each came from
//!   Footers       of Parquet: rows, bytes and bounds of columns
//! totals      ANALYZE TABLE -> Totals                         all rows, counted
//! feedback    earlier queries -> QueryFeedback                bytes read, their time, rows, keys of joins
//! columns     figures of a column for DataFusion              NULLs, distinct values
//! cache       keyed by the ETags of the objects               an unchanged table is not sampled again
//! ```
//!
//! The share of rows that pass a query's own predicate is measured on the sample rather than
//! guessed from figures of columns (YourSQL, Section 3.2.1: the sampler), so that dependent
//! conditions are estimated right. For Parquet, a sample of rows with all columns would be
//! expensive, so its footers are used.

pub(crate) mod cache;
pub(crate) mod collect;
pub(crate) mod columns;
pub(crate) mod feedback;
pub(crate) mod footers;
pub(crate) mod sample;
pub(crate) mod totals;
pub(crate) mod width;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::ColumnStatistics;
use pushdowndb_contract::Expr;

pub(crate) use cache::{Key, StatisticsCache, totals_from_json, totals_to_json};
pub(crate) use collect::collect;
pub(crate) use columns::ColumnFigures;
pub(crate) use feedback::{Core, QueryFeedback};
pub(crate) use footers::Footers;
pub(crate) use sample::{Selectivity, TableSample};
pub(crate) use totals::Totals;

/// The statistics of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableStatistics {
    /// Statistics from a few ranges of its objects.
    sampled: Option<Sampled>,
    /// Counts of all of its rows.
    totals: Option<Totals>,
    /// Feedback of earlier queries.
    feedback: Arc<QueryFeedback>,
}

/// Statistics from a few ranges of a table's objects.
#[derive(Clone, Debug)]
pub(crate) enum Sampled {
    /// A sample of its rows.
    Rows(TableSample),
    /// Its footers, and the columns that they describe.
    Footers(Footers, SchemaRef),
}

impl TableStatistics {
    /// Returns the same statistics with `totals`, the counts of all rows.
    fn with_totals(&self, totals: Totals) -> Self {
        Self { sampled: self.sampled.clone(), totals: Some(totals), feedback: Arc::clone(&self.feedback) }
    }

    /// Returns the feedback of earlier queries.
    pub(crate) fn feedback(&self) -> &QueryFeedback {
        &self.feedback
    }

    /// Returns the mean bytes of a row.
    pub(crate) fn row_bytes(&self) -> f64 {
        match (&self.totals, &self.sampled) {
            (Some(totals), _) => totals.row_bytes(),
            (None, Some(Sampled::Rows(sample))) => sample.row_bytes,
            (None, Some(Sampled::Footers(footers, _))) => footers.row_bytes(),
            (None, None) => 1.0,
        }
    }

    /// Estimates the shares of rows and blocks that pass the predicate, if possible.
    pub(crate) fn selectivity(&self, predicate: &Expr) -> Option<Selectivity> {
        match self.sampled.as_ref()? {
            Sampled::Rows(sample) => sample.selectivity(predicate),
            Sampled::Footers(footers, schema) => {
                let (rows, blocks) = (footers.selectivity(predicate, schema), footers.groups_kept(predicate, schema));
                Some(Selectivity { rows, blocks })
            }
        }
    }

    /// Estimates the number of groups that `keys` form in the rows that pass the predicate.
    pub(crate) fn groups(&self, keys: &[Expr], predicate: Option<&Expr>) -> Option<f64> {
        if let ([Expr::Column(column)], None, Some(totals)) = (keys, predicate, &self.totals) {
            return totals.distinct(*column);
        }
        match self.sampled.as_ref()? {
            Sampled::Rows(sample) => sample.distinct(keys, predicate),
            // The keys are treated as independent. Keys of one table seldom are, but footers do not
            // show how they depend.
            Sampled::Footers(footers, schema) => {
                let distinct = keys.iter().map(|key| match key {
                    Expr::Column(column) => footers.distinct_of(*column, schema.fields().get(*column)?.data_type()),
                    _ => None,
                });
                distinct.product()
            }
        }
    }

    /// Returns the shares of the keys' most frequent values in the rows that pass the predicate, in
    /// descending order, as far as they are at least `share`.
    pub(crate) fn frequent(&self, keys: &[Expr], predicate: Option<&Expr>, share: f64) -> Option<Vec<f64>> {
        match self.sampled.as_ref()? {
            Sampled::Rows(sample) => Some(sample.frequent(keys, predicate, share)),
            Sampled::Footers(..) => None,
        }
    }

    /// Returns the mean bytes of a value of the column as storage sends it.
    pub(crate) fn value_bytes(&self, column: usize) -> Option<f64> {
        match self.sampled.as_ref()? {
            Sampled::Rows(sample) => sample.text_bytes(column),
            Sampled::Footers(footers, schema) => footers.value_bytes(column, schema.fields().get(column)?.data_type()),
        }
    }

    /// Estimates the number of byte ranges that `columns` occupy in objects with `bytes` bytes in
    /// total, if ranges at most `gap` bytes apart are joined. Returns `None` for text, which is
    /// read as a whole.
    pub(crate) fn stretches(&self, columns: &[usize], bytes: f64, gap: f64) -> Option<f64> {
        match self.sampled.as_ref()? {
            Sampled::Rows(_) => None,
            Sampled::Footers(footers, _) => footers.stretches(columns, bytes, gap),
        }
    }

    /// Returns the share of the objects' bytes that `columns` take; `None` for text.
    pub(crate) fn stored_share(&self, columns: &[usize]) -> Option<f64> {
        match self.sampled.as_ref()? {
            Sampled::Rows(_) => None,
            Sampled::Footers(footers, _) => footers.stored_share(columns),
        }
    }

    /// Returns DataFusion's statistics of a column, for `rows` rows.
    pub(crate) fn column(&self, column: usize, rows: f64) -> Option<ColumnStatistics> {
        if let Some(figures) = self.totals.as_ref().and_then(|totals| totals.column(column)) {
            return Some(figures.statistics(rows));
        }
        match self.sampled.as_ref()? {
            Sampled::Rows(sample) => Some(sample.column(column)?.statistics(rows)),
            Sampled::Footers(footers, schema) => {
                let distinct = footers.distinct_of(column, schema.fields().get(column)?.data_type())?;
                let null_share = footers.null_share(column)?;
                Some(ColumnFigures { null_share, distinct }.statistics(rows))
            }
        }
    }
}

/// Statistics that the scans of a table share.
pub(crate) type SharedStatistics = Arc<TableStatistics>;
