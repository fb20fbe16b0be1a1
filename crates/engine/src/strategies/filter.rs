//! Filter and projection: on plainly read bytes (`compute`), or in storage (`storage`).
//!
//! PushdownDB, Section IV. With S3 Select, storage is asked for the columns the plan reads and for the rows that pass
//! the strongest predicate it evaluates without ever dropping a row that counts. Where that predicate is weaker
//! than the query's, the scan evaluates the query's again on what comes back. On the fragment route storage is asked
//! for the very fragment: it has the engine's own evaluator.

use std::sync::Arc;

use pushdown::{Capability, Exactness, Expr, Format, Fragment, Level, NamedExpr, Output, classify};

use super::costs::ScanCosts;
use super::decision::{Candidates, Reason, Story};
use super::index::Verdict;
use crate::remote_scan::{ScanSpec, estimate};
use crate::settings::{Adaptivity, PushdownOptions, Side};

/// What storage is asked to do, or why it is asked for plain bytes.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Plain reads; the text says why.
    Compute(String),
    /// Storage.
    Storage {
        /// What is sent.
        request: Box<Fragment>,
        /// Whether what comes back needs no further filter.
        exact: bool,
        /// How it is sent.
        route: Route,
    },
}

/// How storage is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    /// S3 Select: one object or range a request, rows as text.
    Select,
    /// The fragment route of our own node: exact whatever the contract's language can say.
    Fragment,
}

impl Route {
    /// The level that it is part of.
    pub(crate) fn level(self) -> Level {
        match self {
            Self::Select => Level::Select,
            Self::Fragment => Level::Fragment,
        }
    }
}

/// The conditions that hold where both of these do.
pub(crate) fn both(one: Option<Expr>, other: Option<Expr>) -> Option<Expr> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

/// Chooses for a fragment that yields rows. Its output is columns only.
pub(crate) fn choose(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Choice {
    let Output::Rows(outputs) = &fragment.output else {
        return Choice::Compute("aggregates are chosen elsewhere".to_owned());
    };
    match route(fragment, capability, options, options.filter_side()) {
        Err(reason) => return Choice::Compute(reason),
        Ok(Route::Fragment) => return at_fragment(fragment, options),
        Ok(Route::Select) => {}
    }
    let Some(dialect) = &capability.select else { return Choice::Compute(no_select(capability)) };

    let (predicate, exact) = match &fragment.predicate {
        None => (None, true),
        Some(asked) => match classify(asked, &fragment.schema, &fragment.format, dialect) {
            Exactness::Exact(predicate) => (Some(predicate), true),
            Exactness::Inexact(weaker) => (Some(weaker), false),
            Exactness::Unsupported => (None, false),
        },
    };

    let mut columns: Vec<usize> = outputs.iter().flat_map(|output| output.expr.columns()).collect();
    if !exact {
        columns.extend(fragment.predicate.iter().flat_map(Expr::columns));
    }
    columns.sort_unstable();
    columns.dedup();
    if columns.is_empty() {
        // S3 Select cannot return rows without columns, and the rows must be counted.
        columns.push(narrowest(fragment));
    }

    if predicate.is_none() {
        if options.filter_side() == Side::Auto && matches!(fragment.format, Format::Parquet) {
            return Choice::Compute("nothing to filter, and Parquet columns are read on their own".to_owned());
        }
        if columns.len() == fragment.schema.fields().len() && fragment.limit.is_none() {
            return Choice::Compute("every column of every row is needed".to_owned());
        }
    }

    let name = |index: &usize| fragment.schema.field(*index).name().clone();
    let output = columns.iter().map(|i| NamedExpr { expr: Expr::Column(*i), name: name(i) }).collect();
    let request = Fragment {
        format: fragment.format.clone(),
        schema: Arc::clone(&fragment.schema),
        predicate,
        output: Output::Rows(output),
        // The residual filter could drop the very rows that storage picked.
        order: vec![],
        limit: fragment.limit.filter(|_| exact),
        project: None,
    };
    match pushdowndb_select::render(&request, dialect) {
        Ok(_) => Choice::Storage { request: Box::new(request), exact, route: Route::Select },
        Err(error) => Choice::Compute(error.to_string()),
    }
}

/// The same on the fragment route, where storage evaluates all of it.
fn at_fragment(fragment: &Fragment, options: &PushdownOptions) -> Choice {
    if fragment.predicate.is_none() && fragment.limit.is_none() && options.filter_side() == Side::Auto {
        if matches!(fragment.format, Format::Parquet) {
            return Choice::Compute("nothing to filter, and Parquet columns are read on their own".to_owned());
        }
        if fragment.columns().len() == fragment.schema.fields().len() {
            return Choice::Compute("every column of every row is needed".to_owned());
        }
    }
    let mut request = fragment.clone();
    if let Output::Rows(columns) = &mut request.output
        && columns.is_empty()
    {
        // Arrow does not tell an empty batch of many rows from one that has not come yet.
        let index = narrowest(fragment);
        columns.push(NamedExpr { expr: Expr::Column(index), name: fragment.schema.field(index).name().clone() });
    }
    Choice::Storage { request: Box::new(request), exact: true, route: Route::Fragment }
}

/// The choice, or plain reads where these are estimated to be better: storage that is slower than the link, or answers
/// that are longer than the columns. Only where something is known of the table, and no setting asked for storage.
pub(crate) fn unless_plain_is_better(choice: Choice, spec: &ScanSpec, fragment: &Fragment) -> Choice {
    let Choice::Storage { route, .. } = &choice else { return choice };
    let (side, grouped) = match &fragment.output {
        Output::Rows(_) => (spec.options.filter_side(), false),
        Output::Aggregate { groups, .. } => (spec.options.aggregate, !groups.is_empty()),
    };
    // Groups are chosen for by the operator, and a limit ends either kind of scan early.
    if side != Side::Auto || grouped || fragment.limit.is_some() || spec.statistics.is_none() {
        return choice;
    }
    let costs = ScanCosts::of(spec, fragment, Some(*route));
    let (plain, mut pushed) = (costs.plain(0.0), costs.filtered());
    if spec.options.adaptivity() != Adaptivity::None {
        pushed.seconds = costs.shared().unwrap_or(pushed.seconds);
    }
    // Where they are nearly the same, bytes decide: by what the link's time is worth.
    match costs.model().best(&[pushed, plain]) {
        Some(1) => Choice::Compute(format!("plain reads would take {plain} instead of {pushed}")),
        _ => choice,
    }
}

/// What EXPLAIN says of the choice for the rows of a scan; `None` where storage cannot be asked and no index was looked
/// at, so that there was nothing to choose.
pub(crate) fn story(
    spec: &ScanSpec,
    fragment: &Fragment,
    capability: &Capability,
    choice: &Choice,
    index: &Verdict,
) -> Option<Story> {
    let route = route(fragment, capability, &spec.options, Side::Auto).ok();
    if route.is_none() && matches!(index, Verdict::None) {
        return None;
    }
    let side = spec.options.filter_side();
    let costs = ScanCosts::of(spec, fragment, route);
    let mut candidates = Candidates::new("filter", costs.model());
    // An index knows better how many rows pass.
    let known = match index {
        Verdict::Use(lookup) => Some(lookup.otherwise),
        Verdict::None | Verdict::Refuse(_) => None,
    };
    let (mut taken, mut reason) = match choice {
        Choice::Storage { .. } => {
            candidates.add("compute", costs.plain(0.0));
            candidates.add("storage", known.unwrap_or_else(|| costs.filtered()));
            ("storage", Reason::Because("storage leaves rows or columns out"))
        }
        Choice::Compute(why) => {
            candidates.add("compute", known.unwrap_or_else(|| costs.plain(0.0)));
            candidates.refuse("storage", why.clone());
            ("compute", Reason::Because("storage would leave nothing out"))
        }
    };
    if side == Side::Compute || (side == Side::Storage && taken == "storage") {
        reason = Reason::Asked;
    }
    match index {
        Verdict::None => {}
        Verdict::Refuse(why) => candidates.refuse("index", why.clone()),
        Verdict::Use(lookup) => {
            candidates.add("index", lookup.estimate);
            taken = "index";
            reason = if lookup.always { Reason::Asked } else { Reason::Estimated };
        }
    }
    Some(candidates.story(taken, reason))
}

/// How storage may be asked, or the reason for plain reads; the same for every operator.
pub(crate) fn route(
    fragment: &Fragment,
    capability: &Capability,
    options: &PushdownOptions,
    side: Side,
) -> Result<Route, String> {
    if side == Side::Compute {
        return Err("asked for by SET".to_owned());
    }
    let cap = options.level_cap();
    if cap == Some(Level::None) {
        return Err("pushdown.level is none".to_owned());
    }
    if capability.fragment.is_some() && cap != Some(Level::Select) {
        return Ok(Route::Fragment);
    }
    match &capability.select {
        None => Err(no_select(capability)),
        Some(dialect) if dialect.reads(&fragment.format) => Ok(Route::Select),
        Some(_) => {
            let (backend, format) = (capability.profile.name(), fragment.format.name());
            Err(format!("the S3 Select of backend {backend} is not used on {format}"))
        }
    }
}

fn no_select(capability: &Capability) -> String {
    format!("backend {} has no S3 Select", capability.profile.name())
}

/// The column that probably takes the fewest bytes.
fn narrowest(fragment: &Fragment) -> usize {
    let width = |index: &usize| estimate::column_bytes(fragment.schema.field(*index).data_type());
    (0..fragment.schema.fields().len()).min_by_key(width).unwrap_or(0)
}
