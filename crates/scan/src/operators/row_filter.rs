//! The selection of rows of a scan, in the form that decoders use.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use pushdowndb_contract::{Expr, Fragment, Output, Result};

use crate::error::from_arrow;
use crate::expr::columns::{map_output, renumber};
use crate::expr::evaluator::Evaluator;
use crate::expr::lower::check_depth;
use crate::operators::top_k::live::{FirstRows, LiveBound};
use crate::operators::top_k::threshold::Threshold;

/// The conditions for rows to be selected, over the columns that are read.
#[derive(Debug, Default)]
pub(crate) struct RowFilter {
    /// If given, only rows for which this is TRUE are selected.
    pub(crate) predicate: Option<Expr>,
    /// If given, only the first rows in this order are selected.
    pub(crate) first: Option<FirstRows>,
}

impl RowFilter {
    /// Returns the columns that decide whether a row is selected.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let of_predicate = self.predicate.iter().flat_map(Expr::columns);
        let mut columns: Vec<usize> =
            of_predicate.chain(self.first.iter().flat_map(|first| first.key.columns())).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

pub(crate) enum RowCondition {
    Predicate(Evaluator),
    Live(LiveBound),
}

impl RowCondition {
    /// Returns for each row whether the condition holds. The result has no NULLs.
    pub(crate) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        match self {
            Self::Predicate(predicate) => predicate.matches(batch),
            Self::Live(bound) => bound.matches(batch),
        }
    }
}

/// Narrows the fragment to the columns that it reads. Returns their schema, the selection of rows,
/// and the output.
pub(crate) fn narrow(fragment: &Fragment, threshold: &Arc<Threshold>) -> Result<(SchemaRef, RowFilter, Output)> {
    if let Some(predicate) = &fragment.predicate {
        check_depth(predicate)?;
    }
    let columns = fragment.columns();
    let schema = fragment.schema.project(&columns).map_err(from_arrow)?;
    let schema = Schema::new(schema.fields().clone());
    let output = map_output(&fragment.output, &mut |expr| Ok(renumber(expr, &columns)))?;
    let predicate = fragment.predicate.as_ref().map(|expr| renumber(expr, &columns));
    let first = FirstRows::of(fragment, threshold);
    let first = first.map(|first| first.with_key(|key| Ok(renumber(key, &columns)))).transpose()?;
    Ok((Arc::new(schema), RowFilter { predicate, first }, output))
}
