//! From the keys of build sides to the predicate of a scan: the strongest form that storage evaluates and that fits
//! into a request.

use std::sync::Arc;

use pushdown::{Capability, CompareOp, Dialect, Exactness, Expr, Fragment, NamedExpr, Output, Result, classify};

use super::bloom::{self, Bloom, Room};
use super::keys::KeySet;
use super::tuples::TupleSet;
use super::{KeyFilter, STATEMENT_BYTES, takes_sets};
use crate::key_tap::{Keys, Outcome};
use crate::settings::PushdownOptions;
use crate::strategies::filter::Route;

/// Up to so many keys a list is as short as a Bloom filter, and lets nothing else pass.
const FEW_KEYS: usize = 256;

/// Longer lists are not asked of servers other than ours, which may compare each row with each key.
const LONGEST_FOREIGN_LIST: usize = 4096;

/// Lists on the fragment route, where they are looked up by hash.
const FEW_KEYS_AT_FRAGMENT: usize = 1000;

/// A key in SQL: `CAST(NULLIF(s._12, '') AS INT)`, or the name of a column; longer ones are found when it is rendered.
const KEY_BYTES: usize = 128;

/// Combinations are worth a filter of their own where the keys alone would let so many times as many pass.
const FEW_COMBINATIONS: usize = 2;

/// What a scan learned from the joins above it.
pub(crate) enum Learned {
    /// No row can have a partner.
    Nothing,
    /// Rows with a partner fulfil this, if there is anything to fulfil.
    Keys(Option<Expr>),
}

/// Waits for the keys of these filters and makes one predicate of them.
///
/// `fragment` is what the scan means without them; with `exact` only what storage evaluates exactly is of use.
/// Without a `route` the engine reads plainly, and looks them up as our node does. The story tells how each key is looked for.
pub(crate) async fn learn(
    filters: &[Arc<KeyFilter>],
    fragment: &Fragment,
    exact: bool,
    route: Option<Route>,
    capability: &Capability,
    options: &PushdownOptions,
) -> Result<(Learned, Vec<String>)> {
    let mut outcomes = Vec::with_capacity(filters.len());
    for filter in filters {
        outcomes.push(filter.keys.outcome().await);
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
    let room = Room { bytes, key_bytes: KEY_BYTES, rate: options.false_positives };
    let takes_sets = route.is_none_or(|route| takes_sets(route, capability));
    let route = route.unwrap_or(Route::Fragment);
    let request = Request { fragment, exact, dialect: capability.select.as_ref(), route, takes_sets, room };
    let (mut all, mut stories) = (Vec::new(), Vec::new());
    for Join { filters, keys, tuples } in joins {
        let mut told = false;
        if let Some(tuples) = tuples
            && let Some(form) = request.tuples(tuples, &filters)
        {
            let shown: Vec<String> = filters.iter().map(|f| f.key.display(&fragment.schema).to_string()).collect();
            let of: Vec<&str> = filters.iter().map(|f| f.of.as_str()).collect();
            let count = tuples.distinct().unwrap_or_default();
            stories.push(format!("({}): {count} keys of ({}), {}", shown.join(", "), of.join(", "), form.story));
            all.push(form.expr);
            told = true;
        }
        for filter in filters {
            let shown = filter.key.display(&fragment.schema).to_string();
            let Some(set) = keys.and_then(|keys| keys.sets.get(filter.index)) else {
                stories.push(format!("{shown}: filtered, the keys of {} stay unknown", filter.of));
                continue;
            };
            let nulls = filter.keys.nulls_match() && set.nulls();
            if set.distinct() == Some(0) && !nulls {
                return Ok((Learned::Nothing, vec![format!("{shown}: no keys in {}, no row is read", filter.of)]));
            }
            let counted = set.distinct().map_or_else(|| format!("{} rows", set.rows()), |keys| format!("{keys} keys"));
            match request.keys(set, filter, told) {
                Some(form) => {
                    stories.push(format!("{shown}: {counted} of {}, {}", filter.of, form.story));
                    all.push(match nulls {
                        true => Expr::Or(vec![form.expr, Expr::IsNull(Box::new(filter.key.clone()))]),
                        false => form.expr,
                    });
                }
                // Their combinations say it.
                None if told => {}
                None => stories.push(format!("{shown}: filtered, {counted} of {} fit no request", filter.of)),
            }
        }
    }
    Ok((Learned::Keys((!all.is_empty()).then(|| Expr::conjunction(all))), stories))
}

/// The filters of one join.
struct Join<'a> {
    filters: Vec<&'a KeyFilter>,
    keys: Option<&'a Keys>,
    /// All keys together, where that says more than each alone.
    tuples: Option<&'a TupleSet>,
}

fn joins<'a>(filters: &'a [Arc<KeyFilter>], outcomes: &'a [Outcome]) -> Vec<Join<'a>> {
    let mut joins: Vec<Join<'a>> = Vec::new();
    for (filter, outcome) in filters.iter().zip(outcomes) {
        let same = |join: &&mut Join<'_>| join.filters.first().is_some_and(|f| Arc::ptr_eq(&f.keys, &filter.keys));
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

/// The combinations of a join's keys, if the scan has all of them and they are few among those that could be.
fn combinations<'a>(filters: &[&KeyFilter], keys: &'a Keys) -> Option<&'a TupleSet> {
    let tuples = keys.tuples.as_ref()?;
    let count = filters.first()?.keys.count();
    let each_once = filters.len() == count && filters.iter().enumerate().all(|(place, filter)| filter.index == place);
    if !each_once || !filters.iter().all(|filter| filter.shift.is_none()) {
        return None;
    }
    let of_one = keys.sets.iter().map(|set| set.distinct().unwrap_or(usize::MAX));
    let possible = of_one.fold(1usize, usize::saturating_mul);
    (tuples.distinct()?.saturating_mul(FEW_COMBINATIONS) < possible).then_some(tuples)
}

/// A way to say that a value is among the keys.
struct Form {
    /// TRUE for every key but NULL.
    expr: Expr,
    story: String,
}

impl Form {
    fn of_bloom(bloom: Bloom) -> Self {
        let Bloom { expr, bits, hashes, rate } = bloom;
        Self { expr, story: format!("Bloom filter of {bits} bits, {hashes} hashes, rate {rate:.3}") }
    }
}

/// What a form must fit into.
struct Request<'a> {
    fragment: &'a Fragment,
    exact: bool,
    dialect: Option<&'a Dialect>,
    route: Route,
    /// Whether a filter may be a set of whole numbers.
    takes_sets: bool,
    /// Of SQL, for each form.
    room: Room,
}

impl Request<'_> {
    /// The best form for the combinations of these keys.
    fn tuples(&self, tuples: &TupleSet, filters: &[&KeyFilter]) -> Option<Form> {
        let keys: Vec<Expr> = filters.iter().map(|filter| filter.key.clone()).collect();
        let bloom = match self.route {
            Route::Fragment => bloom::tuples_in_bytes(tuples, &keys, self.room.rate),
            Route::Select => bloom::tuples_in_sql(tuples, &keys, self.room),
        };
        bloom.map(Form::of_bloom).filter(|form| self.fits(form))
    }

    /// The best form for the keys of one filter; without a Bloom filter if they are looked for together.
    fn keys(&self, set: &KeySet, filter: &KeyFilter, together: bool) -> Option<Form> {
        let shifted = set.shifted(filter.shift)?;
        let (set, key) = (&shifted, &filter.key);
        let few = if self.route == Route::Fragment { FEW_KEYS_AT_FRAGMENT } else { FEW_KEYS };
        let longest = match self.dialect {
            Some(dialect) if !dialect.same_evaluator => LONGEST_FOREIGN_LIST,
            _ => usize::MAX,
        };
        let list = |most: usize| {
            let list: Vec<Expr> = set.listed(most)?.into_iter().map(Expr::Literal).collect();
            let expr = Expr::InList { expr: Box::new(key.clone()), list, negated: false };
            Some(Form { expr, story: "listed".to_owned() })
        };
        let range = || {
            let (least, greatest) = set.bounds()?;
            let compare = |op, bound| Expr::compare(op, key.clone(), Expr::Literal(bound));
            Some(compare(CompareOp::GtEq, least).and(compare(CompareOp::LtEq, greatest)))
        };
        let within = |expr: Expr| range().map_or(expr.clone(), |range| range.and(expr));
        let numbers = || {
            let (expr, bytes) = bloom::as_numbers(set, key, self.room.rate).filter(|_| self.takes_sets)?;
            Some(Form { expr: within(expr), story: format!("set of numbers in {bytes} bytes") })
        };
        let bloom = || {
            let bloom = match self.route {
                Route::Fragment => bloom::in_bytes(set, key, self.room.rate),
                Route::Select => bloom::in_sql(set, key, self.room),
            };
            let Form { expr, story } = Form::of_bloom(bloom?);
            Some(Form { expr: within(expr), story })
        };
        let fitting = |form: Option<Form>| form.filter(|form| self.fits(form));
        let few = || fitting(list(few));
        let bounds = || fitting(Some(Form { expr: range()?, story: "their range".to_owned() }));
        if together {
            return few().or_else(bounds);
        }
        few()
            .or_else(|| fitting(numbers()))
            .or_else(|| fitting(bloom()))
            .or_else(|| fitting(list(longest)))
            .or_else(bounds)
    }

    /// Whether storage can be asked for all of this form.
    fn fits(&self, form: &Form) -> bool {
        let dialect = match (self.route, self.dialect) {
            (Route::Fragment, _) => return true,
            (Route::Select, None) => return false,
            (Route::Select, Some(dialect)) => dialect,
        };
        let (schema, format) = (&self.fragment.schema, &self.fragment.format);
        let mut parts = Vec::new();
        // One by one, because what storage does not evaluate would be dropped from a conjunction.
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
