//! Top-k as part of a scan: the first rows of an order.

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use pushdowndb_contract::{CompareOp, Expr, Literal};
use pushdowndb_scan::{Evaluator, FirstKeys};

use super::lower::literal;

/// The first `k` rows of an order. Only the first sort key gives a bound; the others break ties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopK {
    /// The first sort key, over the object's columns.
    pub(crate) key: Expr,
    pub(crate) order: SortOptions,
    /// The further sort keys; `None` if one of them cannot be pushed.
    pub(crate) rest: Option<Vec<(Expr, SortOptions)>>,
    pub(crate) k: usize,
}

impl TopK {
    /// Builds a predicate that passes all rows that can be in the result, given that `k` rows have
    /// keys up to `last`. Returns `None` if `last` gives no bound, for example because it is NaN.
    pub(crate) fn bound(&self, last: &Literal) -> Option<Expr> {
        let is_null = || Expr::IsNull(Box::new(self.key.clone()));
        let descending = self.order.descending;
        let last = match last {
            Literal::Null if self.order.nulls_first => return Some(is_null()),
            // The k-th row is a NULL, and NULLs come last.
            Literal::Null => return None,
            Literal::Float64(value) if value.is_nan() => return None,
            // Sorting distinguishes -0.0 from 0.0, but not every server does, so use the wider
            // bound.
            Literal::Float64(0.0) => Literal::Float64(if descending { -0.0 } else { 0.0 }),
            other => other.clone(),
        };
        let op = if descending { CompareOp::GtEq } else { CompareOp::LtEq };
        let up_to = Expr::compare(op, self.key.clone(), Expr::Literal(last));
        Some(if self.order.nulls_first { Expr::Or(vec![up_to, is_null()]) } else { up_to })
    }

    /// Returns an empty collection of the order's first keys.
    pub(crate) fn first_keys(&self) -> FirstKeys {
        FirstKeys::new(self.order, self.k)
    }

    /// Returns a bound on a typical value, to test whether storage can evaluate such bounds.
    pub(crate) fn likely_bound(&self, schema: &SchemaRef) -> Option<Expr> {
        let key = Evaluator::expr(&self.key, schema).ok()?;
        let zero = match key.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Literal::Utf8("m".to_owned()),
            other => literal(&ScalarValue::new_zero(other).ok()?)?,
        };
        self.bound(&zero)
    }
}
