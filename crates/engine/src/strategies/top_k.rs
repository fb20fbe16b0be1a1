//! Top-k: the engine sorts everything (`compute`), or a sample bounds what storage sends (`sampling`).
//!
//! PushdownDB, Section VII. A first phase reads the sort key of a sample. The k-th of these keys is a bound: k rows
//! up to it are known, so no row beyond it is among the first k. A second phase asks storage for the rows up to the
//! bound, ties included, and the engine sorts those. The rows are right whatever the sample was; a sample with fewer
//! than k rows gives no bound, and then everything is read.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{SortOptions, concat, sort_to_indices, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use pushdown::{Capability, CompareOp, Error, Expr, Fragment, Literal, Output, Result};
use pushdowndb_scan::Evaluator;

use super::filter::{self, Choice};
use crate::convert::literal;
use crate::remote_scan::estimate;
use crate::settings::{PushdownOptions, TopKStrategy};

/// A sample of more than this share of the rows costs about what it saves.
const LARGEST_SHARE: f64 = 0.25;

/// The first `k` rows by a key. Further sort keys only order rows that tie on this one, so they do not matter here.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    /// Over the object's columns.
    pub(crate) key: Expr,
    pub(crate) order: SortOptions,
    pub(crate) k: usize,
}

impl TopK {
    /// Holds for every row that can be among the first k, if k rows up to `last` exist. `None` if that is every row.
    pub(crate) fn bound(&self, last: &Literal) -> Option<Expr> {
        let is_null = || Expr::IsNull(Box::new(self.key.clone()));
        let descending = self.order.descending;
        let last = match last {
            Literal::Null if self.order.nulls_first => return Some(is_null()),
            // The k-th row is a NULL, and those come last.
            Literal::Null => return None,
            Literal::Float64(value) if value.is_nan() => return None,
            // Sorting tells the zeros apart, not every server does: the wider of the two bounds.
            Literal::Float64(0.0) => Literal::Float64(if descending { -0.0 } else { 0.0 }),
            other => other.clone(),
        };
        let op = if descending { CompareOp::GtEq } else { CompareOp::LtEq };
        let up_to = Expr::compare(op, self.key.clone(), Expr::Literal(last));
        Some(if self.order.nulls_first { Expr::Or(vec![up_to, is_null()]) } else { up_to })
    }

    /// A bound like those to come, to ask what storage would make of it.
    fn likely_bound(&self, schema: &SchemaRef) -> Option<Expr> {
        let key = Evaluator::expr(&self.key, schema).ok()?;
        let zero = match key.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Literal::Utf8("m".to_owned()),
            other => literal(&ScalarValue::new_zero(other).ok()?)?,
        };
        self.bound(&zero)
    }
}

/// The plan of a top-k by sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// How many rows to sample.
    pub(crate) rows: u64,
    /// Which share of the table's rows that probably is.
    pub(crate) share: f64,
}

/// Whether to sample first, and how much. `fragment` yields the rows of the table, `bytes` long.
pub(crate) fn choose(
    top_k: &TopK,
    fragment: &Fragment,
    bytes: u64,
    capability: &Capability,
    options: &PushdownOptions,
) -> Result<Option<Sample>> {
    let strategy = options.top_k_strategy()?;
    let Some(bound) = top_k.likely_bound(&fragment.schema).filter(|_| strategy != TopKStrategy::Compute) else {
        return Ok(None);
    };
    // Storage must filter by the bound, if not exactly.
    let key = top_k.key.columns();
    match filter::choose(&with_bound(fragment, bound), capability, options)? {
        Choice::Storage { request, .. } => {
            let filtered = request.predicate.map(|predicate| predicate.columns()).unwrap_or_default();
            if key.is_empty() || !key.iter().all(|column| filtered.contains(column)) {
                return Ok(None);
            }
        }
        Choice::Compute(_) => return Ok(None),
    }
    let sample = sample(top_k, fragment, bytes);
    Ok((strategy == TopKStrategy::Sampling || sample.share <= LARGEST_SHARE).then_some(sample))
}

/// The fragment over only the rows that the bound lets pass.
pub(crate) fn with_bound(fragment: &Fragment, bound: Expr) -> Fragment {
    let predicate = match &fragment.predicate {
        Some(predicate) => predicate.clone().and(bound),
        None => bound,
    };
    Fragment { predicate: Some(predicate), ..fragment.clone() }
}

/// S = sqrt(K·N/α) rows, which moves the fewest bytes in both phases together; α is the key's share of a row's bytes
/// (PushdownDB, Section VII-B).
fn sample(top_k: &TopK, fragment: &Fragment, bytes: u64) -> Sample {
    let width = |columns: &[usize]| -> f64 {
        let width = |index: &usize| estimate::column_bytes(fragment.schema.field(*index).data_type());
        columns.iter().map(width).sum::<u64>() as f64
    };
    let sent: Vec<usize> = match &fragment.output {
        Output::Rows(columns) => columns.iter().flat_map(|column| column.expr.columns()).collect(),
        Output::Aggregate { .. } => vec![],
    };
    let alpha = (width(&top_k.key.columns()) / width(&sent).max(1.0)).clamp(0.01, 1.0);
    let n = (estimate::rows(fragment, bytes) as f64 * estimate::selectivity(fragment)).max(1.0);
    // Fewer than k rows would be no bound at all, and the estimates are rough.
    let rows = (top_k.k as f64 * n / alpha).sqrt().max(2.0 * top_k.k as f64).min(n);
    Sample { rows: rows as u64, share: rows / n }
}

/// The first k keys of those seen so far.
pub(crate) struct FirstKeys {
    order: SortOptions,
    k: usize,
    keys: Vec<ArrayRef>,
    held: usize,
}

impl FirstKeys {
    pub(crate) fn new(top_k: &TopK) -> Self {
        Self { order: top_k.order, k: top_k.k, keys: Vec::new(), held: 0 }
    }

    /// Takes the keys of some rows in.
    pub(crate) fn push(&mut self, keys: ArrayRef) -> Result<()> {
        self.held += keys.len();
        self.keys.push(keys);
        if self.held > self.k.saturating_mul(2).max(65_536) {
            self.sort()?;
        }
        Ok(())
    }

    /// The k-th key; `None` if fewer were seen.
    pub(crate) fn last(mut self) -> Result<Option<Literal>> {
        self.sort()?;
        match self.keys.first() {
            Some(keys) if keys.len() == self.k && self.k > 0 => {
                let last = ScalarValue::try_from_array(keys, self.k - 1).map_err(crate::error::from_datafusion)?;
                Ok(literal(&last))
            }
            _ => Ok(None),
        }
    }

    fn sort(&mut self) -> Result<()> {
        let internal = |error| Error::internal("keys that cannot be sorted").with_source(error);
        let keys: Vec<&dyn Array> = self.keys.iter().map(AsRef::as_ref).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let keys = concat(&keys).map_err(internal)?;
        let first = sort_to_indices(&keys, Some(self.order), Some(self.k)).map_err(internal)?;
        let first = take(&keys, &first, None).map_err(internal)?;
        self.held = first.len();
        self.keys = vec![first];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    fn top(k: usize, descending: bool, nulls_first: bool) -> TopK {
        TopK { key: Expr::Column(0), order: SortOptions { descending, nulls_first }, k }
    }

    fn last(top_k: &TopK, pieces: &[ArrayRef]) -> Option<Literal> {
        let mut keys = FirstKeys::new(top_k);
        pieces.iter().for_each(|piece| keys.push(Arc::clone(piece)).unwrap());
        keys.last().unwrap()
    }

    #[test]
    fn the_kth_key_bounds_the_first_k() {
        let pieces: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(5), None, Some(1)])),
            Arc::new(Int64Array::from(vec![Some(3), Some(3), None])),
        ];
        assert_eq!(last(&top(2, false, false), &pieces), Some(Literal::Int64(3)));
        assert_eq!(last(&top(1, true, false), &pieces), Some(Literal::Int64(5)));
        assert_eq!(last(&top(3, false, true), &pieces), Some(Literal::Int64(1)));
        assert_eq!(last(&top(2, false, true), &pieces), Some(Literal::Null));
        assert_eq!(last(&top(5, false, false), &pieces), Some(Literal::Null));
        assert_eq!(last(&top(7, false, false), &pieces), None, "fewer than k");
    }

    #[test]
    fn keys_beyond_the_first_k_are_let_go() {
        let top_k = top(3, false, false);
        let pieces: Vec<ArrayRef> =
            (0..40i64).map(|i| Arc::new(Int64Array::from_iter_values((0..5000).map(|j| j * 40 + i))) as _).collect();
        assert_eq!(last(&top_k, &pieces), Some(Literal::Int64(2)));
    }

    #[test]
    fn bounds_keep_what_sorts_first() {
        let shown = |bound: Option<Expr>| bound.map(|b| format!("{b:?}"));
        assert!(top(2, false, false).bound(&Literal::Null).is_none(), "NULLs come last: every row may count");
        assert_eq!(
            shown(top(2, false, true).bound(&Literal::Null)),
            shown(Some(Expr::IsNull(Box::new(Expr::Column(0)))))
        );
        assert!(matches!(top(2, true, true).bound(&Literal::Int64(1)), Some(Expr::Or(parts)) if parts.len() == 2));
        assert!(top(2, true, false).bound(&Literal::Float64(f64::NAN)).is_none());
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        let zero = last(&top(1, false, false), &[zeros]).unwrap();
        let Some(Expr::Compare(_, _, bound)) = top(1, false, false).bound(&zero) else { panic!("a comparison") };
        assert!(matches!(*bound, Expr::Literal(Literal::Float64(z)) if z.is_sign_positive()), "both zeros pass");
    }
}
