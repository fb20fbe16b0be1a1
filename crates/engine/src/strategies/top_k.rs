//! Top-k: the engine sorts what it reads (`compute`), a sample bounds what storage sends
//! (`sampling`), or storage sends only the first rows of each split (`storage`, on the fragment
//! route).
//!
//! PushdownDB, Section VII. A first phase reads the sort key of a sample. The k-th of these keys is
//! a bound: k rows up to it exist, so no row beyond it is among the first k. A second phase asks
//! storage for the rows up to the bound, ties included, and the engine sorts those. The result is
//! right for any sample. One with fewer than k rows gives no bound, and then everything is read.
//!
//! In `compute`, plain reads use the order and the limit as well: they decode only the first sort
//! key of most rows.
//!
//! In `storage`, no sample is needed. Storage sends at most k rows of a split. Once k rows have
//! been returned, the k-th key bounds later splits ([`LiveTopK`]), so the bound tightens while the
//! query runs. It is based on rows that exist, not on rows that were delivered, so it holds
//! whatever fails afterwards.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use parking_lot::Mutex;
use pushdowndb_contract::{Capability, Error, Expr, Fragment, Literal, Output, Result, SortKey, limits};
use pushdowndb_scan::{Evaluator, FirstKeys};

use super::filter;
use crate::cost::candidates::{Candidates, Reason};
use crate::cost::cardinality::Cardinality;
use crate::cost::scan::{Pushed, ScanCosts};
use crate::plan::estimate::Estimate;
use crate::plan::explanation::Explanation;
use crate::plan::lower::literal;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::splits::MAX_SAMPLE_PIECES;
use crate::plan::top_k::TopK;
use crate::settings::{PushdownOptions, TopKStrategy};

/// Maximum share of the rows in a sample; a larger sample costs about as much as it saves.
const MAX_SAMPLE_SHARE: f64 = 0.25;

/// The plan of a top-k by sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The rows to sample.
    pub(crate) rows: u64,
    /// Their estimated share of the table's rows.
    pub(crate) share: f64,
}

/// What storage does for a top-k.
pub(crate) enum Plan {
    /// A sample first, then a scan that storage filters by its bound.
    Sample(Sample),
    /// A scan by this fragment, which yields the first rows of each split.
    Storage(Box<Fragment>),
}

/// The choice made for a top-k.
pub(crate) struct Decision {
    /// What storage does; `None` if the engine sorts all rows.
    pub(crate) plan: Option<Plan>,
    pub(crate) explanation: Explanation,
}

/// Chooses the strategy; `otherwise` is the placement of `fragment` without the top-k.
pub(crate) fn choose(
    top_k: &TopK,
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    otherwise: &Choice,
    capability: &Capability,
) -> Decision {
    let options = &context.options;
    let side = options.filter_side();
    let route = filter::route(fragment, capability, options, side);
    let costs = Costs::of(top_k, plan, context, fragment, route.as_ref().ok().copied());
    let mut candidates = Candidates::new("top_k", costs.scan.model());
    candidates.add("compute", costs.compute(otherwise));
    let mut request = None;
    match (&route, first_rows(top_k, fragment)) {
        (Err(why), _) => candidates.refuse("storage", why.clone()),
        (Ok(Route::Select), _) => candidates.refuse("storage", "S3 Select has no ORDER BY"),
        (Ok(Route::Fragment), None) => candidates.refuse("storage", "it cannot order by all keys, or not so many rows"),
        (Ok(Route::Fragment), Some(ordered)) => {
            candidates.add("storage", costs.storage());
            request = Some(ordered);
        }
    }
    let strategy = options.top_k;
    match not_sampled(top_k, fragment, capability, options) {
        Some(why) => candidates.refuse("sampling", why),
        None if strategy != TopKStrategy::Sampling && costs.sample.share > MAX_SAMPLE_SHARE => {
            candidates.refuse("sampling", format!("a sample would be {:.0} % of the rows", costs.sample.share * 100.0));
        }
        None => candidates.add("sampling", costs.sampling()),
    }
    let asked = match strategy {
        TopKStrategy::Auto => None,
        TopKStrategy::Compute => Some("compute"),
        TopKStrategy::Sampling => Some("sampling"),
        TopKStrategy::Storage => Some("storage"),
    };
    let (taken, reason) = match asked {
        Some(asked) if candidates.has(asked) => (asked, Reason::Asked),
        // The strategy of the setting is not possible, and no other one in storage replaces it.
        Some(_) => ("compute", Reason::Because("what SET asks for will not do")),
        None => (candidates.best().unwrap_or("compute"), Reason::Estimated),
    };
    let plan = match (taken, request) {
        ("storage", Some(request)) => Some(Plan::Storage(Box::new(request))),
        ("sampling", _) => Some(Plan::Sample(costs.sample)),
        _ => None,
    };
    Decision { plan, explanation: candidates.explanation(taken, reason) }
}

/// Returns the reason against a sample; `None` if storage can filter by its bound, exactly or
/// inexactly.
fn not_sampled(
    top_k: &TopK,
    fragment: &Fragment,
    capability: &Capability,
    options: &PushdownOptions,
) -> Option<String> {
    let Some(bound) = top_k.likely_bound(&fragment.schema) else {
        return Some("no constant is a bound of the key".to_owned());
    };
    let key = top_k.key.columns();
    match filter::choose(&with_bound(fragment, bound), capability, options) {
        Choice::Storage { request, .. } => {
            let filtered = request.predicate.map(|predicate| predicate.columns()).unwrap_or_default();
            let bounded = !key.is_empty() && key.iter().all(|column| filtered.contains(column));
            (!bounded).then(|| "storage does not filter by the key".to_owned())
        }
        Choice::Compute(why) => Some(why),
    }
}

/// The cost terms of a top-k's strategies.
struct Costs {
    pub(crate) scan: ScanCosts,
    sample: Sample,
    /// Bytes of the first sort key as a share of the bytes that storage sends.
    alpha: f64,
    k: f64,
    at_fragment: bool,
    partitions: u64,
}

impl Costs {
    fn of(top_k: &TopK, plan: &ScanPlan, context: &ScanContext, fragment: &Fragment, route: Option<Route>) -> Self {
        let scan = ScanCosts::of(plan, context, fragment, route);
        let alpha = alpha(top_k, &Cardinality::of(plan, context, fragment), fragment);
        Self {
            sample: sample(top_k, alpha, scan.passing, context.options.sample_rows),
            alpha,
            k: top_k.k as f64,
            at_fragment: route == Some(Route::Fragment),
            partitions: plan.partitions as u64,
            scan,
        }
    }

    /// Estimates the bytes of `rows` rows as storage sends them.
    fn row_bytes(&self, rows: f64) -> f64 {
        self.scan.sent as f64 / self.scan.passing.max(1.0) * rows.min(self.scan.passing)
    }

    fn compute(&self, otherwise: &Choice) -> Estimate {
        match otherwise {
            Choice::Compute(_) => self.scan.plain_decoding(self.key_bytes(self.scan.passing) as u64),
            Choice::Storage { .. } => self.scan.filtered(),
        }
    }

    /// Estimates the bytes of the first sort key of `rows` rows; a scan decodes nothing else of
    /// most rows.
    fn key_bytes(&self, rows: f64) -> f64 {
        self.row_bytes(rows) * self.alpha
    }

    /// Estimates one scan whose first split sends k rows, and later splits ever fewer: if rows are
    /// in random order, the n-th split sends about k/n.
    fn storage(&self) -> Estimate {
        let requests = self.partitions.min(self.scan.splits).max(self.scan.objects.min(self.partitions)).max(1);
        let rows = self.k * (1.0 + (requests as f64).ln());
        let (scanned, returned) = (self.scan.scanned, self.row_bytes(rows) as u64);
        // The bound costs about as much as the filters by which throughput is measured.
        self.scan.pushed(Pushed { requests, scanned, returned, ..Pushed::default() })
    }

    /// Estimates reading the keys of a sample, and then the rows up to the bound, which are about k
    /// divided by the sample's share.
    fn sampling(&self) -> Estimate {
        let keys = self.key_bytes(self.sample.rows as f64);
        let first = self.scan.one_of_phases(Pushed {
            requests: self.scan.splits.min(MAX_SAMPLE_PIECES),
            scanned: (self.scan.scanned as f64 * self.sample.share) as u64,
            returned: keys as u64,
            ..Pushed::default()
        });
        let requests = if self.at_fragment { self.scan.splits.min(MAX_SAMPLE_PIECES) } else { self.scan.splits };
        let returned = self.row_bytes(self.k / self.sample.share.max(f64::MIN_POSITIVE)) as u64;
        first + self.scan.pushed(Pushed { requests, scanned: self.scan.scanned, returned, ..Pushed::default() })
    }
}

/// Returns `fragment` with the order and the limit of `top_k`; `None` if it cannot express them.
pub(crate) fn first_rows(top_k: &TopK, fragment: &Fragment) -> Option<Fragment> {
    let Output::Rows(columns) = &fragment.output else { return None };
    let limit = u64::try_from(top_k.k).ok().filter(|k| (1..=limits::TOP_K_ROWS).contains(k))?;
    let place = |column: usize| columns.iter().position(|output| output.expr == Expr::Column(column));
    let first = (top_k.key.clone(), top_k.order);
    let keys = std::iter::once(first).chain(top_k.rest.clone()?).map(|(key, options)| {
        let expr = key.replace_columns(&mut |column| place(column).map(Expr::Column).ok_or(())).ok()?;
        Some(SortKey { expr, descending: options.descending, nulls_first: options.nulls_first })
    });
    let order: Vec<SortKey> = keys.collect::<Option<_>>()?;
    (order.len() <= limits::KEYS).then(|| Fragment { order, limit: Some(limit), ..fragment.clone() })
}

/// The first sort keys in the rows that a running scan has received, shared by its partitions. They
/// bound the rows that later requests return.
#[derive(Debug)]
pub(crate) struct LiveTopK {
    top_k: TopK,
    first: Mutex<FirstKeys>,
}

impl LiveTopK {
    pub(crate) fn new(top_k: &TopK) -> Self {
        Self { first: Mutex::new(top_k.first_keys()), top_k: top_k.clone() }
    }

    /// Adds the current bound to `predicate`, whose columns are numbered as in the table.
    pub(crate) fn narrow(&self, predicate: Option<Expr>) -> Result<Option<Expr>> {
        let last = kth(&mut self.first.lock())?;
        let bound = last.and_then(|last| self.top_k.bound(&last));
        Ok(Expr::and_opt(predicate, bound))
    }

    /// Creates a reader of the first keys in the rows of `request`.
    pub(crate) fn keys(&self, request: &Fragment) -> Result<Keys<'_>> {
        let first = request.order.first().ok_or_else(|| Error::internal("a top-k without an order"))?;
        let schema = pushdowndb_scan::output_schema(request)?;
        Ok(Keys { live: self, key: Evaluator::expr(&first.expr, &schema)? })
    }

    /// Describes the order for EXPLAIN.
    pub(crate) fn display(&self, schema: &SchemaRef) -> String {
        let first = (self.top_k.key.clone(), self.top_k.order);
        let keys = std::iter::once(first).chain(self.top_k.rest.clone().unwrap_or_default());
        let shown: Vec<String> = keys
            .map(|(key, order)| format!("{} {}", key.display(schema), if order.descending { "DESC" } else { "ASC" }))
            .collect();
        format!("{} of each split by {}", self.top_k.k, shown.join(", "))
    }
}

/// Reads sort keys from the rows of one request.
pub(crate) struct Keys<'a> {
    live: &'a LiveTopK,
    key: Evaluator,
}

impl Keys<'_> {
    pub(crate) fn learn(&self, batch: &RecordBatch) -> Result<()> {
        let keys = self.key.evaluate(batch)?;
        self.live.first.lock().push(keys)
    }
}

/// Restricts `fragment` to rows that pass `bound`.
pub(crate) fn with_bound(fragment: &Fragment, bound: Expr) -> Fragment {
    Fragment { predicate: Expr::and_opt(fragment.predicate.clone(), Some(bound)), ..fragment.clone() }
}

/// Estimates α, the share of the first sort key in the bytes of a row that storage sends.
fn alpha(top_k: &TopK, cardinality: &Cardinality<'_>, fragment: &Fragment) -> f64 {
    let sent: Vec<usize> = match &fragment.output {
        Output::Rows(columns) => columns.iter().flat_map(|column| column.expr.columns()).collect(),
        Output::Aggregate { .. } => vec![],
    };
    (cardinality.width(&top_k.key.columns()) / cardinality.width(&sent).max(1.0)).clamp(0.01, 1.0)
}

/// Returns the sample that moves the fewest bytes: S = sqrt(K·N/α) (PushdownDB, Section VII-B).
fn sample(top_k: &TopK, alpha: f64, rows: f64, asked: u64) -> Sample {
    let n = rows.max(1.0);
    // A sample of fewer than k rows gives no bound, and the estimates are rough, so sample at least
    // 2 k rows.
    let best = if asked == 0 { (top_k.k as f64 * n / alpha).sqrt() } else { asked as f64 };
    let rows = best.max(2.0 * top_k.k as f64).min(n);
    Sample { rows: rows as u64, share: rows / n }
}

/// Returns the k-th of `keys` as a literal; `None` if there are fewer keys, or if the contract has
/// no literal of the type.
pub(crate) fn kth(keys: &mut FirstKeys) -> Result<Option<Literal>> {
    let Some(kth) = keys.kth()? else { return Ok(None) };
    Ok(literal(&ScalarValue::try_from_array(&kth, 0).map_err(crate::error::from_datafusion)?))
}

#[cfg(test)]
mod tests {
    use arrow::compute::SortOptions;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array};

    use super::*;

    fn top(k: usize, descending: bool, nulls_first: bool) -> TopK {
        TopK { key: Expr::Column(0), order: SortOptions { descending, nulls_first }, rest: Some(vec![]), k }
    }

    fn last(top_k: &TopK, keys: ArrayRef) -> Option<Literal> {
        let mut first = top_k.first_keys();
        first.push(keys).unwrap();
        kth(&mut first).unwrap()
    }

    #[test]
    fn bounds_keep_the_first_rows() {
        let shown = |bound: Option<Expr>| bound.map(|b| format!("{b:?}"));
        assert!(top(2, false, false).bound(&Literal::Null).is_none(), "NULLs come last: every row may count");
        assert_eq!(
            shown(top(2, false, true).bound(&Literal::Null)),
            shown(Some(Expr::IsNull(Box::new(Expr::Column(0)))))
        );
        assert!(matches!(top(2, true, true).bound(&Literal::Int64(1)), Some(Expr::Or(parts)) if parts.len() == 2));
        assert!(top(2, true, false).bound(&Literal::Float64(f64::NAN)).is_none());
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        let zero = last(&top(1, false, false), zeros).unwrap();
        let Some(Expr::Compare(_, _, bound)) = top(1, false, false).bound(&zero) else { panic!("a comparison") };
        assert!(matches!(*bound, Expr::Literal(Literal::Float64(z)) if z.is_sign_positive()), "both zeros pass");
    }
}
