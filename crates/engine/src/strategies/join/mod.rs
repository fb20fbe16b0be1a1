//! Joins: tables read plainly (`baseline`), each filtered in storage (`filtered`), or the second one also filtered by
//! the keys of the first (`bloom`).
//!
//! PushdownDB, Section V; Active Disks, Section 3.3. Once the build side of a hash join was read, its keys become a
//! predicate of the scans below the probe side: rows of no partner are not sent. The predicate may pass too much,
//! never too little, because the join itself drops the rest; so the strongest form is taken that storage evaluates
//! and that fits into a request:
//!
//! | form | where |
//! | --- | --- |
//! | a list of the keys | while they are few, or where storage has no better |
//! | a Bloom filter in bytes, and the range of the keys | on the fragment route |
//! | a Bloom filter in SQL, and the range of the keys | S3 Select with SUBSTRING, keys are integers |
//! | the range of the keys | S3 Select, too many keys |
//! | nothing: a filtered join | too many keys without an order |

mod bloom;
mod keys;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use pushdown::{
    Capability, CompareOp, Dialect, Exactness, Expr, Fragment, Function, NamedExpr, Output, Result, classify,
};
use pushdowndb_cost::{PriceBook, Requests};

use super::estimate::{Estimate, Work, best};
use super::filter::{Route, route};
use crate::key_tap::{JoinKeys, Outcome};
use crate::remote_scan::{RemoteScanExec, estimate};
use crate::settings::{JoinStrategy, PushdownOptions, Side};

pub(crate) use keys::{KeySet, is_key};

/// Up to so many keys a list is as short as a Bloom filter, and lets nothing else pass.
const FEW_KEYS: usize = 256;

/// Longer lists are not asked of servers other than ours, which may compare each row with each key.
const LONGEST_FOREIGN_LIST: usize = 4096;

/// Lists on the fragment route, where they are looked up by hash.
const FEW_KEYS_AT_FRAGMENT: usize = 1000;

/// Seconds that storage needs to look the key of one row up: in SQL some two hashes until it is dropped.
const SQL_S: f64 = 100e-9;
const BYTES_S: f64 = 20e-9;

/// A key in SQL: `CAST(NULLIF(s._12, '') AS INT)`, or the name of a column; longer ones are found when it is rendered.
const KEY_BYTES: usize = 128;

/// What a statement needs besides its predicates.
const STATEMENT_BYTES: usize = 4096;

/// A filter on the rows of one scan by the keys of a join above it.
#[derive(Clone, Debug)]
pub(crate) struct KeyFilter {
    /// The keys of the build side.
    pub(crate) keys: Arc<JoinKeys>,
    /// Which of them.
    pub(crate) index: usize,
    /// The key of the probe side, over the columns of the scan's objects.
    pub(crate) key: Expr,
    /// The key of the build side, for people.
    pub(crate) of: String,
}

/// What a scan learned from the joins above it.
pub(crate) enum Learned {
    /// No row can have a partner.
    Nothing,
    /// Rows with a partner fulfil this, if there is anything to fulfil.
    Keys(Option<Expr>),
}

/// What is known of a join before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildSide {
    /// About how many rows it has.
    pub(crate) rows: Option<usize>,
    /// Whether something below leaves rows of its tables out, so that keys are missing.
    pub(crate) reduced: bool,
}

/// Whether a scan is filtered by keys, and why.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) bloom: bool,
    /// For EXPLAIN: the estimate, and those of the strategies that lost.
    pub(crate) story: String,
}

/// Chooses for a scan of the probe side, whose key has this type.
pub(crate) fn choose(rows: &RemoteScanExec, key_type: &DataType, build: BuildSide) -> Result<Decision> {
    let options = &rows.spec().options;
    let strategy = options.join_strategy()?;
    let filtered = |why: String| Ok(Decision { bloom: false, story: format!("join=filtered ({why})") });
    if matches!(strategy, JoinStrategy::Baseline | JoinStrategy::Filtered) {
        return filtered("asked for by SET".to_owned());
    }
    let capability = rows.capability();
    let route = match route(rows.fragment(), capability, options, options.filter_side()?)? {
        Ok(route) => route,
        Err(reason) => return filtered(format!("not bloom: {reason}")),
    };
    if !is_key(key_type) {
        return filtered(format!("not bloom: keys of type {} are not collected", pushdowndb_scan::sql_type(key_type)));
    }
    let most = match (route, &capability.select) {
        (Route::Select, Some(dialect)) if dialect.string_functions && key_type.is_integer() => {
            bloom::most_keys_in_sql(dialect.expression_bytes - STATEMENT_BYTES)
        }
        (Route::Select, _) => usize::MAX,
        (Route::Fragment, _) => keys::MOST_KEYS,
    };
    let costs = Costs::of(rows, route)?;
    let (baseline, filtered, bloom) = (costs.baseline(), costs.filtered(), costs.bloom(build));
    let many = build.rows.filter(|rows| *rows > most);
    let forced = strategy == JoinStrategy::Bloom;
    let takes = forced || (many.is_none() && best(&[filtered, bloom]) == Some(1));
    let (won, lost) = match takes {
        true => (format!("bloom ({bloom}"), format!("filtered {filtered}")),
        false => (format!("filtered ({filtered}"), format!("bloom {bloom}")),
    };
    let mut story = format!("join={won}");
    if forced {
        story.push_str("; asked for by SET");
    }
    match many {
        Some(rows) if !takes => story.push_str(&format!("; not bloom: about {rows} keys are too many")),
        _ => story.push_str(&format!("; {lost}")),
    }
    story.push_str(&format!("; baseline {baseline})"));
    Ok(Decision { bloom: takes, story })
}

/// What the strategies would cost for one scan.
struct Costs {
    prices: PriceBook,
    route: Route,
    bytes: u64,
    rows: f64,
    /// Bytes of the columns and rows that storage sends without keys.
    sent: u64,
    /// Bytes that plain reads fetch.
    read: u64,
    requests: u64,
    objects: u64,
}

impl Costs {
    fn of(rows: &RemoteScanExec, route: Route) -> Result<Self> {
        let (spec, fragment, bytes) = (rows.spec(), rows.fragment(), rows.bytes());
        let objects = spec.objects.len() as u64;
        Ok(Self {
            prices: PriceBook::named_or_path(&spec.options.price_book)?,
            route,
            bytes,
            rows: estimate::rows(fragment, bytes) as f64,
            sent: estimate::network_bytes(fragment, true, bytes),
            read: estimate::network_bytes(fragment, false, bytes),
            requests: bytes.div_ceil(spec.options.split_bytes.max(1)).max(objects),
            objects,
        })
    }

    fn baseline(&self) -> Estimate {
        let requests = Requests { get: self.objects, ..Requests::default() };
        Estimate::of(&Work { bytes_network: self.read, requests, ..Work::default() }, &self.prices)
    }

    fn filtered(&self) -> Estimate {
        self.pushed(1.0, 0, 0.0)
    }

    fn bloom(&self, build: BuildSide) -> Estimate {
        // As much is taken to be missing as a filter is taken to drop.
        let share = if build.reduced { estimate::DEFAULT_SELECTIVITY } else { 1.0 };
        let keys = build.rows.unwrap_or(keys::MOST_KEYS).min(keys::MOST_KEYS) as f64;
        let (key_bytes, row_s) = match self.route {
            Route::Select => (keys * bloom::BITS_PER_KEY, SQL_S),
            Route::Fragment => (keys * bloom::BITS_PER_KEY / 8.0, BYTES_S),
        };
        self.pushed(share, key_bytes as u64, self.rows * row_s)
    }

    /// A scan that sends this share of the rows, with so many bytes of keys in each request.
    fn pushed(&self, share: f64, key_bytes: u64, storage_s: f64) -> Estimate {
        let returned = (self.sent as f64 * share) as u64;
        let requests = match self.route {
            Route::Select => Requests { select: self.requests, ..Requests::default() },
            Route::Fragment => Requests { fragment: self.requests, ..Requests::default() },
        };
        let work = Work {
            bytes_network: returned + key_bytes * self.requests,
            bytes_scanned: self.bytes,
            bytes_returned: returned,
            requests,
            storage_s,
            ..Work::default()
        };
        Estimate::of(&work, &self.prices)
    }
}

/// Waits for the keys of these filters and makes one predicate of them.
///
/// `fragment` is what the scan means without them; with `exact` only what storage evaluates exactly is of use. The
/// story tells how each key is looked for.
pub(crate) async fn learn(
    filters: &[Arc<KeyFilter>],
    fragment: &Fragment,
    exact: bool,
    capability: &Capability,
    options: &PushdownOptions,
) -> Result<(Learned, Vec<String>)> {
    let mut outcomes = Vec::with_capacity(filters.len());
    for filter in filters {
        outcomes.push(filter.keys.outcome().await);
    }
    let Ok(route) = route(fragment, capability, options, Side::Auto)? else {
        return Ok((Learned::Keys(None), vec!["filtered".to_owned()]));
    };
    let room = match (route, &capability.select) {
        (Route::Select, Some(dialect)) => {
            let own = pushdowndb_select::render(fragment, dialect).map_or(0, |sql| sql.len());
            dialect.expression_bytes.saturating_sub(own + STATEMENT_BYTES) / filters.len().max(1)
        }
        _ => 0,
    };
    let (mut all, mut stories) = (Vec::new(), Vec::new());
    for (filter, outcome) in filters.iter().zip(&outcomes) {
        let set = match outcome {
            Outcome::Known(sets) => sets.get(filter.index),
            Outcome::Pending | Outcome::Unknown => None,
        };
        let shown = filter.key.display(&fragment.schema).to_string();
        let Some(set) = set else {
            stories.push(format!("{shown}: filtered, the keys of {} stay unknown", filter.of));
            continue;
        };
        let nulls = filter.keys.nulls_match() && set.nulls();
        if set.distinct() == Some(0) && !nulls {
            return Ok((Learned::Nothing, vec![format!("{shown}: no keys in {}, no row is read", filter.of)]));
        }
        let counted = set.distinct().map_or_else(|| format!("{} rows", set.rows()), |keys| format!("{keys} keys"));
        let fits = |form: &Form| match (route, &capability.select) {
            (Route::Select, Some(dialect)) => fits(form, fragment, exact, room, dialect),
            (Route::Select, None) => false,
            (Route::Fragment, _) => true,
        };
        let longest = match &capability.select {
            Some(dialect) if !dialect.same_evaluator => LONGEST_FOREIGN_LIST,
            _ => usize::MAX,
        };
        let forms = forms(set, &filter.key, route, room, longest);
        match forms.into_iter().find_map(|form| form().filter(fits)) {
            Some(form) => {
                stories.push(format!("{shown}: {counted} of {}, {}", filter.of, form.story));
                all.push(match nulls {
                    true => Expr::Or(vec![form.expr, Expr::IsNull(Box::new(filter.key.clone()))]),
                    false => form.expr,
                });
            }
            None => stories.push(format!("{shown}: filtered, {counted} of {} fit no request", filter.of)),
        }
    }
    Ok((Learned::Keys((!all.is_empty()).then(|| Expr::conjunction(all))), stories))
}

/// A way to say that a value is among the keys.
struct Form {
    /// TRUE for every key but NULL.
    expr: Expr,
    story: String,
}

/// The forms for these keys, the best first.
fn forms<'a>(
    set: &'a KeySet,
    key: &'a Expr,
    route: Route,
    room: usize,
    longest: usize,
) -> [Box<dyn Fn() -> Option<Form> + 'a>; 4] {
    let few = if route == Route::Fragment { FEW_KEYS_AT_FRAGMENT } else { FEW_KEYS };
    let list = move |most: usize| {
        let list: Vec<Expr> = set.listed(most)?.into_iter().map(Expr::Literal).collect();
        let expr = Expr::InList { expr: Box::new(key.clone()), list, negated: false };
        Some(Form { expr, story: "listed".to_owned() })
    };
    let range = move || {
        let (least, greatest) = set.bounds()?;
        let compare = |op, bound| Expr::compare(op, key.clone(), Expr::Literal(bound));
        Some(compare(CompareOp::GtEq, least).and(compare(CompareOp::LtEq, greatest)))
    };
    let bloom = move || {
        let bloom = match route {
            Route::Fragment => bloom::in_bytes(set, key),
            Route::Select => bloom::in_sql(set, key, room, KEY_BYTES),
        }?;
        let story = format!("Bloom filter of {} bits, {} hashes, rate {:.3}", bloom.bits, bloom.hashes, bloom.rate);
        let expr = match range() {
            Some(range) => range.and(bloom.expr),
            None => bloom.expr,
        };
        Some(Form { expr, story })
    };
    [
        Box::new(move || list(few)),
        Box::new(bloom),
        Box::new(move || list(longest)),
        Box::new(move || Some(Form { expr: range()?, story: "their range".to_owned() })),
    ]
}

/// Whether S3 Select can be asked for all of this form.
fn fits(form: &Form, fragment: &Fragment, exact: bool, room: usize, dialect: &Dialect) -> bool {
    let (schema, format) = (&fragment.schema, &fragment.format);
    let mut parts = Vec::new();
    // One by one, because what storage does not evaluate would be dropped from a conjunction.
    for part in form.expr.clone().into_conjuncts() {
        match classify(&part, schema, format, dialect) {
            Exactness::Exact(part) => parts.push(part),
            Exactness::Inexact(part) if !exact => parts.push(part),
            Exactness::Inexact(_) | Exactness::Unsupported => return false,
        }
    }
    let counted = NamedExpr { expr: Expr::int(1), name: String::new() };
    let predicate = Some(Expr::conjunction(parts));
    let alone = Fragment { predicate, output: Output::Rows(vec![counted]), limit: None, ..fragment.clone() };
    pushdowndb_select::render(&alone, dialect).is_ok_and(|sql| sql.len() <= room)
}

/// The type of a key that every row has, as the join has it: a column, also in a wider type, or text made of it. `None`
/// for whatever could fail on a row that the join would never have looked at, such as arithmetic.
pub(crate) fn total(key: &Expr, schema: &Schema) -> Option<DataType> {
    match key {
        Expr::Column(index) => schema.fields().get(*index).map(|field| field.data_type().clone()),
        Expr::Cast(inner, to) => widens(&total(inner, schema)?, to).then(|| to.clone()),
        Expr::Call(
            Function::Lower | Function::Upper | Function::Trim | Function::TrimLeading | Function::TrimTrailing,
            args,
        ) => match args.as_slice() {
            [text, rest @ ..] if rest.iter().all(|arg| matches!(arg, Expr::Literal(_))) => {
                total(text, schema).filter(is_text)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether every value of `from` has one in `to`, and no two of them the same unless they are doubles.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    match (from, to) {
        (from, to) if from == to || (is_text(from) && is_text(to)) => true,
        (Int8 | UInt8, Int16 | Int32 | Int64) | (Int16 | UInt16, Int32 | Int64) | (Int32 | UInt32, Int64) => true,
        (UInt8, UInt16 | UInt32) | (UInt16, UInt32) | (Float32, Float64) => true,
        (integer, Float64) if integer.is_integer() => true,
        (Decimal128(..), Float64) => true,
        (integer, Decimal128(precision, scale)) if integer.is_integer() => digits(*precision, *scale) >= 20,
        (Decimal128(p, s), Decimal128(precision, scale)) => scale >= s && digits(*precision, *scale) >= digits(*p, *s),
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use pushdown::ArithmeticOp;

    use super::*;

    #[test]
    fn keys_that_could_fail_are_not_asked_of_storage() {
        let types = [DataType::Int32, DataType::Utf8, DataType::Decimal128(15, 2), DataType::Int64];
        let fields: Vec<Field> = types.into_iter().map(|t| Field::new("c", t, true)).collect();
        let schema = Schema::new(fields);
        let cast = |column, to| Expr::Cast(Box::new(Expr::Column(column)), to);
        let twice = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(0).into(), Expr::int(2).into());
        let lower = |inner| Expr::Call(Function::Lower, vec![inner]);
        for (key, expected) in [
            (Expr::Column(0), true),
            (cast(0, DataType::Int64), true),
            (cast(0, DataType::Int16), false),
            (cast(3, DataType::Decimal128(22, 2)), true),
            (cast(3, DataType::Decimal128(15, 2)), false),
            (cast(2, DataType::Decimal128(22, 4)), true),
            (cast(2, DataType::Decimal128(15, 4)), false),
            (cast(1, DataType::Int64), false),
            (cast(1, DataType::Utf8View), true),
            (lower(Expr::Column(1)), true),
            (lower(cast(0, DataType::Utf8)), false),
            (twice, false),
        ] {
            assert_eq!(total(&key, &schema).is_some(), expected, "{}", key.display(&schema));
        }
    }
}
