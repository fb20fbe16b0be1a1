//! Top-k: the engine sorts everything (`compute`), a sample bounds what storage sends (`sampling`), or storage itself
//! sends only the first rows of each split (`storage`, on the fragment route).
//!
//! PushdownDB, Section VII. A first phase reads the sort key of a sample. The k-th of these keys is a bound: k rows
//! up to it are known, so no row beyond it is among the first k. A second phase asks storage for the rows up to the
//! bound, ties included, and the engine sorts those. The rows are right whatever the sample was; a sample with fewer
//! than k rows gives no bound, and then everything is read.
//!
//! On the fragment route no sample is needed. Storage sends at most k rows of a split, and as soon as k rows have come
//! the k-th key is a bound for the splits asked for later ([`LiveTopK`]); so it falls while the query runs. A bound
//! speaks of rows that exist, not of rows that were delivered, so it holds whatever fails afterwards.

use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, concat, sort_to_indices, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use pushdown::{Capability, CompareOp, Error, Expr, Fragment, Literal, Output, Result, SortKey, limits};
use pushdowndb_scan::Evaluator;

use super::filter::{self, Choice, Route};
use crate::convert::literal;
use crate::remote_scan::{estimate, moved};
use crate::settings::{PushdownOptions, TopKStrategy};

/// A sample of more than this share of the rows costs about what it saves.
const LARGEST_SHARE: f64 = 0.25;

/// The first `k` rows by some keys. The first key alone gives a bound: further ones only order rows that tie on it.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    /// Over the object's columns.
    pub(crate) key: Expr,
    pub(crate) order: SortOptions,
    /// The keys after it; `None` if one of them cannot be told to storage.
    pub(crate) rest: Option<Vec<(Expr, SortOptions)>>,
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

/// How storage takes part in a top-k.
pub(crate) enum Plan {
    /// A sample first, then storage filters by its bound.
    Sample(Sample),
    /// Storage sends the first rows of each split: this fragment.
    Storage(Box<Fragment>),
}

/// Whether storage takes part, and how. `fragment` yields the rows of the table, `bytes` long.
pub(crate) fn choose(
    top_k: &TopK,
    fragment: &Fragment,
    bytes: u64,
    capability: &Capability,
    options: &PushdownOptions,
) -> Result<Option<Plan>> {
    let strategy = options.top_k_strategy()?;
    if matches!(strategy, TopKStrategy::Auto | TopKStrategy::Storage)
        && let Ok(Route::Fragment) = filter::route(fragment, capability, options, options.filter_side()?)?
        && let Some(request) = in_storage(top_k, fragment)
    {
        return Ok(Some(Plan::Storage(Box::new(request))));
    }
    let sampled = matches!(strategy, TopKStrategy::Auto | TopKStrategy::Sampling);
    let Some(bound) = top_k.likely_bound(&fragment.schema).filter(|_| sampled) else { return Ok(None) };
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
    let worth_it = strategy == TopKStrategy::Sampling || sample.share <= LARGEST_SHARE;
    Ok(worth_it.then_some(Plan::Sample(sample)))
}

/// The fragment with the order and the limit; `None` if it cannot say them.
fn in_storage(top_k: &TopK, fragment: &Fragment) -> Option<Fragment> {
    let Output::Rows(columns) = &fragment.output else { return None };
    let limit = u64::try_from(top_k.k).ok().filter(|k| (1..=limits::TOP_K_ROWS).contains(k))?;
    let place = |column: usize| columns.iter().position(|output| output.expr == Expr::Column(column));
    let first = (top_k.key.clone(), top_k.order);
    let keys = std::iter::once(first).chain(top_k.rest.clone()?).map(|(key, options)| {
        let missing = || Error::internal("a key that is no output");
        let expr = moved(key, &|column| place(column).ok_or_else(missing)).ok()?;
        Some(SortKey { expr, descending: options.descending, nulls_first: options.nulls_first })
    });
    let order: Vec<SortKey> = keys.collect::<Option<_>>()?;
    (order.len() <= limits::KEYS).then(|| Fragment { order, limit: Some(limit), ..fragment.clone() })
}

/// What is known of the first rows while they arrive; shared by all partitions of a scan.
#[derive(Debug)]
pub(crate) struct LiveTopK {
    top_k: TopK,
    first: Mutex<FirstKeys>,
}

impl LiveTopK {
    pub(crate) fn new(top_k: &TopK) -> Self {
        Self { first: Mutex::new(FirstKeys::new(top_k)), top_k: top_k.clone() }
    }

    /// The predicate, and the bound that is known by now. Both are over the object's columns as the table has them.
    pub(crate) fn narrow(&self, predicate: Option<Expr>) -> Result<Option<Expr>> {
        let last = self.first.lock().unwrap_or_else(PoisonError::into_inner).kth()?;
        let bound = last.and_then(|last| self.top_k.bound(&last));
        Ok(filter::both(predicate, bound))
    }

    /// Reads the first keys of the rows that a request gives.
    pub(crate) fn keys(&self, request: &Fragment) -> Result<Keys<'_>> {
        let first = request.order.first().ok_or_else(|| Error::internal("a top-k without an order"))?;
        let schema = pushdowndb_scan::output_schema(request)?;
        Ok(Keys { live: self, key: Evaluator::expr(&first.expr, &schema)? })
    }

    /// The order in words.
    pub(crate) fn display(&self, schema: &SchemaRef) -> String {
        let first = (self.top_k.key.clone(), self.top_k.order);
        let keys = std::iter::once(first).chain(self.top_k.rest.clone().unwrap_or_default());
        let shown: Vec<String> = keys
            .map(|(key, order)| format!("{} {}", key.display(schema), if order.descending { "DESC" } else { "ASC" }))
            .collect();
        format!("{} of each split by {}", self.top_k.k, shown.join(", "))
    }
}

/// Learns from the rows of one request.
pub(crate) struct Keys<'a> {
    live: &'a LiveTopK,
    key: Evaluator,
}

impl Keys<'_> {
    /// Takes the keys of some rows in.
    pub(crate) fn learn(&self, batch: &RecordBatch) -> Result<()> {
        let keys = self.key.evaluate(batch)?;
        self.live.first.lock().unwrap_or_else(PoisonError::into_inner).push(keys)
    }
}

/// The fragment over only the rows that the bound lets pass.
pub(crate) fn with_bound(fragment: &Fragment, bound: Expr) -> Fragment {
    Fragment { predicate: filter::both(fragment.predicate.clone(), Some(bound)), ..fragment.clone() }
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
#[derive(Debug)]
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
    pub(crate) fn kth(&mut self) -> Result<Option<Literal>> {
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
        TopK { key: Expr::Column(0), order: SortOptions { descending, nulls_first }, rest: Some(vec![]), k }
    }

    fn last(top_k: &TopK, pieces: &[ArrayRef]) -> Option<Literal> {
        let mut keys = FirstKeys::new(top_k);
        pieces.iter().for_each(|piece| keys.push(Arc::clone(piece)).unwrap());
        keys.kth().unwrap()
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
