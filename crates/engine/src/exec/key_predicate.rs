//! Builds predicates from the build-side keys of joins, in the most selective form that storage
//! evaluates and that fits into a request.

use std::sync::Arc;

use pushdowndb_contract::{
    Capability, CompareOp, Dialect, Exactness, Expr, Fragment, NamedExpr, Output, Result, classify,
};

use crate::plan::join_keys::filters::{Bloom, Room};
use crate::plan::join_keys::{BuildKeys, KeyFilter, KeySet, Keys, Outcome, TupleSet, filters};
use crate::plan::placement::Route;
use crate::settings::PushdownOptions;
use crate::strategies::join::{STATEMENT_BYTES, takes_sets};

/// Maximum keys for which a list is preferred to a Bloom filter: it is about as short, and has no
/// false positives.
const MAX_LISTED_KEYS: usize = 256;

/// Maximum keys of a list sent to foreign S3 Select servers, which may compare each row with each
/// key.
const MAX_FOREIGN_LIST_KEYS: usize = 4096;

/// Maximum keys for which a list is preferred on the fragment route, where nodes look keys up by
/// hash.
const MAX_FRAGMENT_LIST_KEYS: usize = 1000;

/// Assumed length of a key expression in SQL, such as `CAST(NULLIF(s._12, '') AS INT)`, in bytes.
/// The SQL is checked for its actual length after rendering.
const KEY_SQL_BYTES: usize = 128;

/// Minimum ratio of possible to actual key tuples for which a filter on whole tuples is built.
const MIN_TUPLE_GAIN: usize = 2;

/// Result of waiting for the keys of the joins above a scan.
pub(crate) enum KeyFilterOutcome {
    /// A build side has no keys, so no row of the scan has a join partner.
    NoRows,
    /// Predicate that all rows with a join partner fulfill; `None` if no key filter could be built.
    Predicate(Option<Expr>),
}

/// Waits for the keys of `filters` and combines them into one predicate.
///
/// `fragment` is the scan without this predicate. `exact` excludes forms that storage evaluates
/// inexactly. If `route` is `None`, the engine reads plainly, and gets the same forms as a node on
/// the fragment route. Also returns an explanation of each key's form.
pub(crate) async fn resolve(
    filters: &[KeyFilter],
    keys: &[Arc<BuildKeys>],
    fragment: &Fragment,
    exact: bool,
    route: Option<Route>,
    capability: &Capability,
    options: &PushdownOptions,
) -> Result<(KeyFilterOutcome, Vec<String>)> {
    let mut outcomes = Vec::with_capacity(filters.len());
    for keys in keys {
        outcomes.push(keys.outcome().await);
    }
    let joins = joins(filters, &outcomes);
    let together = joins.iter().filter(|join| join.tuples.is_some()).count();
    let bytes = match (route, &capability.select) {
        (Some(Route::Select), Some(dialect)) => {
            let own = pushdowndb_select::render(fragment, dialect).map_or(0, |sql| sql.len());
            dialect.expression_bytes.saturating_sub(own + STATEMENT_BYTES) / (filters.len() + together).max(1)
        }
        _ => 0,
    };
    let room = Room { bytes, key_bytes: KEY_SQL_BYTES, rate: options.false_positives };
    let takes_sets = route.is_none_or(|route| takes_sets(route, capability));
    let route = route.unwrap_or(Route::Fragment);
    let request = Request { fragment, exact, dialect: capability.select.as_ref(), route, takes_sets, room };
    let (mut all, mut explanations) = (Vec::new(), Vec::new());
    for Join { filters, keys, tuples } in joins {
        let mut has_tuples = false;
        if let Some(tuples) = tuples
            && let Some(form) = request.tuples(tuples, &filters)
        {
            let shown: Vec<String> = filters.iter().map(|f| f.key.display(&fragment.schema).to_string()).collect();
            let of: Vec<&str> = filters.iter().map(|f| f.of.as_str()).collect();
            let count = tuples.distinct().unwrap_or_default();
            explanations.push(format!(
                "({}): {count} keys of ({}), {}",
                shown.join(", "),
                of.join(", "),
                form.explanation
            ));
            all.push(form.expr);
            has_tuples = true;
        }
        for filter in filters {
            let shown = filter.key.display(&fragment.schema).to_string();
            let Some(set) = keys.and_then(|keys| keys.sets.get(filter.index)) else {
                explanations.push(format!("{shown}: filtered, the keys of {} stay unknown", filter.of));
                continue;
            };
            let nulls = filter.nulls_match && set.nulls();
            if set.distinct() == Some(0) && !nulls {
                return Ok((
                    KeyFilterOutcome::NoRows,
                    vec![format!("{shown}: no keys in {}, no row is read", filter.of)],
                ));
            }
            let counted = set.distinct().map_or_else(|| format!("{} rows", set.rows()), |keys| format!("{keys} keys"));
            match request.keys(set, filter, has_tuples) {
                Some(form) => {
                    explanations.push(format!("{shown}: {counted} of {}, {}", filter.of, form.explanation));
                    all.push(match nulls {
                        true => Expr::Or(vec![form.expr, Expr::IsNull(Box::new(filter.key.clone()))]),
                        false => form.expr,
                    });
                }
                // The filter on key tuples covers this key.
                None if has_tuples => {}
                None => explanations.push(format!("{shown}: filtered, {counted} of {} fit no request", filter.of)),
            }
        }
    }
    Ok((KeyFilterOutcome::Predicate((!all.is_empty()).then(|| Expr::conjunction(all))), explanations))
}

struct Join<'a> {
    filters: Vec<&'a KeyFilter>,
    keys: Option<&'a Keys>,
    /// Tuples of all keys, if they are more selective than the keys one by one.
    tuples: Option<&'a TupleSet>,
}

fn joins<'a>(filters: &'a [KeyFilter], outcomes: &'a [Outcome]) -> Vec<Join<'a>> {
    let mut joins: Vec<Join<'a>> = Vec::new();
    for (filter, outcome) in filters.iter().zip(outcomes) {
        let same = |join: &&mut Join<'_>| join.filters.first().is_some_and(|f| f.join == filter.join);
        if let Some(join) = joins.iter_mut().find(same) {
            join.filters.push(filter);
            continue;
        }
        let keys = match outcome {
            Outcome::Known(keys) => Some(&**keys),
            Outcome::Pending | Outcome::Unknown => None,
        };
        joins.push(Join { filters: vec![filter], keys, tuples: None });
    }
    for join in &mut joins {
        join.filters.sort_by_key(|filter| filter.index);
        join.tuples = join.keys.and_then(|keys| combinations(&join.filters, keys));
    }
    joins
}

/// Returns the key tuples of a join, if the scan has all key columns and few of the possible tuples
/// occur.
fn combinations<'a>(filters: &[&KeyFilter], keys: &'a Keys) -> Option<&'a TupleSet> {
    let tuples = keys.tuples.as_ref()?;
    let count = filters.first()?.join_keys;
    let each_once = filters.len() == count && filters.iter().enumerate().all(|(place, filter)| filter.index == place);
    if !each_once || !filters.iter().all(|filter| filter.shift.is_none()) {
        return None;
    }
    let of_one = keys.sets.iter().map(|set| set.distinct().unwrap_or(usize::MAX));
    let possible = of_one.fold(1usize, usize::saturating_mul);
    (tuples.distinct()?.saturating_mul(MIN_TUPLE_GAIN) < possible).then_some(tuples)
}

/// Form of a membership test.
struct Form {
    /// Predicate that is TRUE for every non-NULL key of the set.
    expr: Expr,
    explanation: String,
}

impl Form {
    fn of_bloom(bloom: Bloom) -> Self {
        let Bloom { expr, bits, hashes, rate } = bloom;
        Self { expr, explanation: format!("Bloom filter of {bits} bits, {hashes} hashes, rate {rate:.3}") }
    }
}

/// Constraints on the forms of one request.
struct Request<'a> {
    fragment: &'a Fragment,
    exact: bool,
    dialect: Option<&'a Dialect>,
    route: Route,
    /// Whether storage evaluates sets of integers.
    takes_sets: bool,
    /// Limits on the SQL of each form.
    room: Room,
}

impl Request<'_> {
    /// Returns the best form for `tuples`, or `None` if no form fits.
    fn tuples(&self, tuples: &TupleSet, filters: &[&KeyFilter]) -> Option<Form> {
        let keys: Vec<Expr> = filters.iter().map(|filter| filter.key.clone()).collect();
        let bloom = match self.route {
            Route::Fragment => filters::tuples_in_bytes(tuples, &keys, self.room.rate),
            Route::Select => filters::tuples_in_sql(tuples, &keys, self.room),
        };
        bloom.map(Form::of_bloom).filter(|form| self.fits(form))
    }

    /// Returns the best form for `set`, the keys of `filter`, or `None` if no form fits. `together`
    /// is whether a filter on key tuples exists; the keys then get no filter of their own but a
    /// short list or their range.
    fn keys(&self, set: &KeySet, filter: &KeyFilter, together: bool) -> Option<Form> {
        let shifted = set.shifted(filter.shift)?;
        let (set, key) = (&shifted, &filter.key);
        let few = if self.route == Route::Fragment { MAX_FRAGMENT_LIST_KEYS } else { MAX_LISTED_KEYS };
        let longest = match self.dialect {
            Some(dialect) if !dialect.same_evaluator => MAX_FOREIGN_LIST_KEYS,
            _ => usize::MAX,
        };
        let list = |most: usize| {
            let list: Vec<Expr> = set.listed(most)?.into_iter().map(Expr::Literal).collect();
            let expr = Expr::InList { expr: Box::new(key.clone()), list, negated: false };
            Some(Form { expr, explanation: "listed".to_owned() })
        };
        let range = || {
            let (least, greatest) = set.bounds()?;
            let compare = |op, bound| Expr::compare(op, key.clone(), Expr::Literal(bound));
            Some(compare(CompareOp::GtEq, least).and(compare(CompareOp::LtEq, greatest)))
        };
        let within = |expr: Expr| range().map_or(expr.clone(), |range| range.and(expr));
        let numbers = || {
            let (expr, bytes) = filters::as_numbers(set, key, self.room.rate).filter(|_| self.takes_sets)?;
            Some(Form { expr: within(expr), explanation: format!("set of numbers in {bytes} bytes") })
        };
        let bloom = || {
            let bloom = match self.route {
                Route::Fragment => filters::in_bytes(set, key, self.room.rate),
                Route::Select => filters::in_sql(set, key, self.room),
            };
            let Form { expr, explanation } = Form::of_bloom(bloom?);
            Some(Form { expr: within(expr), explanation })
        };
        let fitting = |form: Option<Form>| form.filter(|form| self.fits(form));
        let few = || fitting(list(few));
        let bounds = || fitting(Some(Form { expr: range()?, explanation: "their range".to_owned() }));
        if together {
            return few().or_else(bounds);
        }
        few()
            .or_else(|| fitting(numbers()))
            .or_else(|| fitting(bloom()))
            .or_else(|| fitting(list(longest)))
            .or_else(bounds)
    }

    /// Returns whether storage evaluates all of `form` and the SQL fits into a request.
    fn fits(&self, form: &Form) -> bool {
        let dialect = match (self.route, self.dialect) {
            (Route::Fragment, _) => return true,
            (Route::Select, None) => return false,
            (Route::Select, Some(dialect)) => dialect,
        };
        let (schema, format) = (&self.fragment.schema, &self.fragment.format);
        let mut parts = Vec::new();
        // Classify each conjunct separately: in a conjunction, an unsupported conjunct would be
        // dropped.
        for part in form.expr.clone().into_conjuncts() {
            match classify(&part, schema, format, dialect) {
                Exactness::Exact(part) => parts.push(part),
                Exactness::Inexact(part) if !self.exact => parts.push(part),
                Exactness::Inexact(_) | Exactness::Unsupported => return false,
            }
        }
        let counted = NamedExpr { expr: Expr::int(1), name: String::new() };
        let predicate = Some(Expr::conjunction(parts));
        let alone = Fragment { predicate, output: Output::Rows(vec![counted]), limit: None, ..self.fragment.clone() };
        pushdowndb_select::render(&alone, dialect).is_ok_and(|sql| sql.len() <= self.room.bytes)
    }
}
