//! Top-k: the engine sorts what it reads (`compute`), a sample bounds what storage sends (`sampling`), or storage itself
//! sends only the first rows of each split (`storage`, on the fragment route).
//!
//! PushdownDB, Section VII. A first phase reads the sort key of a sample. The k-th of these keys is a bound: k rows
//! up to it are known, so no row beyond it is among the first k. A second phase asks storage for the rows up to the
//! bound, ties included, and the engine sorts those. The rows are right whatever the sample was; a sample with fewer
//! than k rows gives no bound, and then everything is read.
//!
//! Where the engine reads, its scans have the order and the limit, too: of most rows they decode the first key alone.
//!
//! On the fragment route no sample is needed. Storage sends at most k rows of a split, and as soon as k rows have come
//! the k-th key is a bound for the splits asked for later ([`LiveTopK`]); so it falls while the query runs. A bound
//! speaks of rows that exist, not of rows that were delivered, so it holds whatever fails afterwards.

use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use pushdown::{Capability, CompareOp, Error, Expr, Fragment, Literal, Output, Result, SortKey, limits};
use pushdowndb_scan::{Evaluator, FirstKeys};

use super::costs::{Pushed, ScanCosts};
use super::decision::{Candidates, Reason, Story};
use super::estimate::Estimate;
use super::filter::{self, Choice, Route};
use crate::convert::literal;
use crate::remote_scan::{Figures, PIECES, ScanSpec};
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

    /// The first keys of the order, as they become known.
    pub(crate) fn first_keys(&self) -> FirstKeys {
        FirstKeys::new(self.order, self.k)
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

/// What was chosen for a top-k.
pub(crate) struct Decision {
    /// How storage takes part; `None` if the engine sorts all rows.
    pub(crate) plan: Option<Plan>,
    /// For EXPLAIN: the estimate, and those of the strategies that lost.
    pub(crate) story: Story,
}

/// Whether storage takes part, and how. `fragment` yields the rows of the table, which would be scanned as `otherwise`
/// says.
pub(crate) fn choose(
    top_k: &TopK,
    spec: &ScanSpec,
    fragment: &Fragment,
    otherwise: &Choice,
    capability: &Capability,
) -> Decision {
    let options = &spec.options;
    let side = options.filter_side();
    let route = filter::route(fragment, capability, options, side);
    let costs = Costs::of(top_k, spec, fragment, route.as_ref().ok().copied());
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
        None if strategy != TopKStrategy::Sampling && costs.sample.share > LARGEST_SHARE => {
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
        // What storage cannot order it may still bound by a sample, but that was not asked for.
        Some(_) => ("compute", Reason::Because("what SET asks for will not do")),
        None => (candidates.best().unwrap_or("compute"), Reason::Estimated),
    };
    let plan = match (taken, request) {
        ("storage", Some(request)) => Some(Plan::Storage(Box::new(request))),
        ("sampling", _) => Some(Plan::Sample(costs.sample)),
        _ => None,
    };
    Decision { plan, story: candidates.story(taken, reason) }
}

/// Why a sample is of no use; `None` if storage filters by the bound that it gives, if not exactly.
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

/// What the strategies would cost.
struct Costs {
    scan: ScanCosts,
    sample: Sample,
    /// The share of the key in the bytes that storage sends.
    alpha: f64,
    k: f64,
    at_fragment: bool,
    partitions: u64,
}

impl Costs {
    fn of(top_k: &TopK, spec: &ScanSpec, fragment: &Fragment, route: Option<Route>) -> Self {
        let scan = ScanCosts::of(spec, fragment, route);
        let alpha = alpha(top_k, &Figures::of(spec, fragment), fragment);
        Self {
            sample: sample(top_k, alpha, scan.passing, spec.options.sample_rows),
            alpha,
            k: top_k.k as f64,
            at_fragment: route == Some(Route::Fragment),
            partitions: spec.partitions as u64,
            scan,
        }
    }

    /// Bytes of so many rows, as storage sends them.
    fn row_bytes(&self, rows: f64) -> f64 {
        self.scan.sent as f64 / self.scan.passing.max(1.0) * rows.min(self.scan.passing)
    }

    fn compute(&self, otherwise: &Choice) -> Estimate {
        match otherwise {
            Choice::Compute(_) => self.scan.plain_decoding(self.key_bytes(self.scan.passing) as u64),
            Choice::Storage { .. } => self.scan.filtered(),
        }
    }

    /// Bytes of the first key of so many rows. Of nearly all rows a scan decodes nothing else.
    fn key_bytes(&self, rows: f64) -> f64 {
        self.row_bytes(rows) * self.alpha
    }

    /// One scan, whose splits send k rows at first and ever fewer: with rows in no particular order, the n-th of them
    /// about k/n.
    fn storage(&self) -> Estimate {
        let requests = self.partitions.min(self.scan.splits).max(self.scan.objects.min(self.partitions)).max(1);
        let rows = self.k * (1.0 + (requests as f64).ln());
        let (scanned, returned) = (self.scan.scanned, self.row_bytes(rows) as u64);
        // To tell that a row is beyond the bound takes about what a filter takes, which rates of scans are measured by
        // (op_topk_100 on CSV: 0.22 s of storage, as Q6).
        self.scan.pushed(Pushed { requests, scanned, returned, ..Pushed::default() })
    }

    /// The keys of the sample, then the rows up to the bound: as many times k as the sample is of the rows.
    fn sampling(&self) -> Estimate {
        let keys = self.key_bytes(self.sample.rows as f64);
        let first = self.scan.one_of_phases(Pushed {
            requests: self.scan.splits.min(PIECES),
            scanned: (self.scan.scanned as f64 * self.sample.share) as u64,
            returned: keys as u64,
            ..Pushed::default()
        });
        let requests = if self.at_fragment { self.scan.splits.min(PIECES) } else { self.scan.splits };
        let returned = self.row_bytes(self.k / self.sample.share.max(f64::MIN_POSITIVE)) as u64;
        first + self.scan.pushed(Pushed { requests, scanned: self.scan.scanned, returned, ..Pushed::default() })
    }
}

/// The fragment with the order and the limit, wherever it runs; `None` if it cannot say them.
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

/// What is known of the first rows while they arrive; shared by all partitions of a scan.
#[derive(Debug)]
pub(crate) struct LiveTopK {
    top_k: TopK,
    first: Mutex<FirstKeys>,
}

impl LiveTopK {
    pub(crate) fn new(top_k: &TopK) -> Self {
        Self { first: Mutex::new(top_k.first_keys()), top_k: top_k.clone() }
    }

    /// The predicate, and the bound that is known by now. Both are over the object's columns as the table has them.
    pub(crate) fn narrow(&self, predicate: Option<Expr>) -> Result<Option<Expr>> {
        let last = kth(&mut self.first.lock().unwrap_or_else(PoisonError::into_inner))?;
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

/// α: the share of the key in the bytes of a row that storage sends.
fn alpha(top_k: &TopK, figures: &Figures<'_>, fragment: &Fragment) -> f64 {
    let sent: Vec<usize> = match &fragment.output {
        Output::Rows(columns) => columns.iter().flat_map(|column| column.expr.columns()).collect(),
        Output::Aggregate { .. } => vec![],
    };
    (figures.width(&top_k.key.columns()) / figures.width(&sent).max(1.0)).clamp(0.01, 1.0)
}

/// S = sqrt(K·N/α) rows of `rows`, which moves the fewest bytes in both phases together (PushdownDB, Section VII-B).
fn sample(top_k: &TopK, alpha: f64, rows: f64, asked: u64) -> Sample {
    let n = rows.max(1.0);
    // Fewer than k rows would be no bound at all, and the estimates are rough.
    let best = if asked == 0 { (top_k.k as f64 * n / alpha).sqrt() } else { asked as f64 };
    let rows = best.max(2.0 * top_k.k as f64).min(n);
    Sample { rows: rows as u64, share: rows / n }
}

/// The k-th of these keys, where the contract has its type; `None` if there are fewer.
pub(crate) fn kth(keys: &mut FirstKeys) -> Result<Option<Literal>> {
    let Some(kth) = keys.kth()? else { return Ok(None) };
    Ok(literal(&ScalarValue::try_from_array(&kth, 0).map_err(crate::error::from_datafusion)?))
}

#[cfg(test)]
mod tests {
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
        let zero = last(&top(1, false, false), zeros).unwrap();
        let Some(Expr::Compare(_, _, bound)) = top(1, false, false).bound(&zero) else { panic!("a comparison") };
        assert!(matches!(*bound, Expr::Literal(Literal::Float64(z)) if z.is_sign_positive()), "both zeros pass");
    }
}
