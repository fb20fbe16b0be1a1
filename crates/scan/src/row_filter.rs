//! Which rows a scan is for, as its decoders are told.

use arrow::array::{BooleanArray, RecordBatch};
use pushdown::{Expr, Result};

use crate::evaluate::Evaluator;
use crate::top_k::{FirstRows, LiveBound};

/// The rows that are wanted, over the columns that are read.
#[derive(Debug, Default)]
pub(crate) struct RowFilter {
    /// Those for which this is TRUE.
    pub(crate) predicate: Option<Expr>,
    /// The first in an order.
    pub(crate) first: Option<FirstRows>,
}

impl RowFilter {
    /// The columns that decide whether a row is wanted.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let of_predicate = self.predicate.iter().flat_map(Expr::columns);
        let mut columns: Vec<usize> =
            of_predicate.chain(self.first.iter().flat_map(|first| first.key.columns())).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// What a row must fulfil, ready to be decided on batches.
pub(crate) enum RowCondition {
    Predicate(Evaluator),
    Live(LiveBound),
}

impl RowCondition {
    /// Which rows it holds for. No row of the result is NULL.
    pub(crate) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        match self {
            Self::Predicate(predicate) => predicate.matches(batch),
            Self::Live(bound) => bound.matches(batch),
        }
    }
}
