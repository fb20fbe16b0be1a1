//! Filter and projection: by plain reads (`compute`), or in storage (`storage`).
//!
//! PushdownDB, Section IV. S3 Select returns the columns in use of the rows that pass the strongest
//! predicate that it can evaluate without dropping a row of the result. If that predicate is weaker
//! than the query's, the scan evaluates the query's predicate on the returned rows. The fragment
//! route evaluates the whole fragment, since nodes have the engine's own evaluator.

use std::sync::Arc;

use pushdowndb_contract::{Capability, Exactness, Expr, Format, Fragment, Level, NamedExpr, Output, classify};

use super::index::IndexChoice;
use crate::cost::candidates::{Candidates, Reason};
use crate::cost::scan::ScanCosts;
use crate::plan::explanation::Explanation;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::{Adaptivity, PushdownOptions, Side};
use crate::statistics::width;

/// Reason for plain reads that a setting asks for.
pub(crate) const ASKED: &str = "asked for by SET";

/// Chooses the placement of a fragment that yields rows, whose output is columns only.
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
        // The limit is not pushed with an inexact filter: the residual filter could drop rows
        // within it.
        order: vec![],
        limit: fragment.limit.filter(|_| exact),
        project: None,
    };
    match pushdowndb_select::render(&request, dialect) {
        Ok(_) => Choice::Storage { request: Box::new(request), exact, route: Route::Select },
        Err(error) => Choice::Compute(error.to_string()),
    }
}

/// Chooses the placement on the fragment route, where storage evaluates the whole fragment.
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
        // An Arrow batch without columns loses its row count on the wire.
        let index = narrowest(fragment);
        columns.push(NamedExpr { expr: Expr::Column(index), name: fragment.schema.field(index).name().clone() });
    }
    Choice::Storage { request: Box::new(request), exact: true, route: Route::Fragment }
}

/// Replaces `choice` by plain reads if these are estimated to be better. Leaves it unchanged
/// without statistics, or if a setting asks for storage.
pub(crate) fn unless_plain_is_better(
    choice: Choice,
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
) -> Choice {
    let Choice::Storage { route, .. } = &choice else { return choice };
    let (side, grouped) = match &fragment.output {
        Output::Rows(_) => (context.options.filter_side(), false),
        Output::Aggregate { groups, .. } => (context.options.aggregate, !groups.is_empty()),
    };
    // For groups, the operator above chooses. With a limit, either kind of scan ends early.
    if side != Side::Auto || grouped || fragment.limit.is_some() || context.statistics.is_none() {
        return choice;
    }
    let costs = ScanCosts::of(plan, context, fragment, Some(*route));
    let (plain, mut pushed) = (costs.plain(0.0), costs.filtered());
    if context.options.adaptivity() != Adaptivity::None {
        pushed.seconds = costs.shared().unwrap_or(pushed.seconds);
    }
    // Bytes decide a tie.
    match costs.model().best(&[pushed, plain]) {
        Some(1) => Choice::Compute(format!("plain reads would take {plain} instead of {pushed}")),
        _ => choice,
    }
}

/// Explains the placement of a scan's rows; `None` without a route or an index.
pub(crate) fn explanation(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    capability: &Capability,
    choice: &Choice,
    index: &IndexChoice,
) -> Option<Explanation> {
    let route = route(fragment, capability, &context.options, Side::Auto).ok();
    if route.is_none() && matches!(index, IndexChoice::None) {
        return None;
    }
    let side = context.options.filter_side();
    let costs = ScanCosts::of(plan, context, fragment, route);
    let mut candidates = Candidates::new("filter", costs.model());
    // The index gives the better estimate of the rows.
    let by_index = match index {
        IndexChoice::Use(lookup) => Some(lookup.otherwise),
        IndexChoice::None | IndexChoice::Refuse(_) => None,
    };
    let (mut taken, mut reason) = match choice {
        Choice::Storage { .. } => {
            candidates.add("compute", costs.plain(0.0));
            candidates.add("storage", by_index.unwrap_or_else(|| costs.filtered()));
            ("storage", Reason::Because("storage leaves rows or columns out"))
        }
        Choice::Compute(why) => {
            candidates.add("compute", by_index.unwrap_or_else(|| costs.plain(0.0)));
            candidates.refuse("storage", why.clone());
            ("compute", Reason::Because("storage would leave nothing out"))
        }
    };
    if side == Side::Compute || (side == Side::Storage && taken == "storage") {
        reason = Reason::Asked;
    }
    match index {
        IndexChoice::None => {}
        IndexChoice::Refuse(why) => candidates.refuse("index", why.clone()),
        IndexChoice::Use(lookup) => {
            candidates.add("index", lookup.estimate);
            taken = "index";
            reason = if lookup.always { Reason::Asked } else { Reason::Estimated };
        }
    }
    Some(candidates.explanation(taken, reason))
}

/// Returns the route to storage, or the reason for plain reads. It is the same for every operator.
pub(crate) fn route(
    fragment: &Fragment,
    capability: &Capability,
    options: &PushdownOptions,
    side: Side,
) -> Result<Route, String> {
    if side == Side::Compute {
        return Err(ASKED.to_owned());
    }
    let cap = options.level_cap();
    if cap == Some(Level::None) {
        return Err("pushdown.level is none".to_owned());
    }
    if let Format::Csv(csv) = &fragment.format
        && let Some(translation) = &csv.translation
    {
        return Err(format!("the text is translated as it is read ({})", translation.options().join(", ")));
    }
    if capability.fragment.is_some() && cap != Some(Level::Select) {
        return Ok(Route::Fragment);
    }
    if let Some(column) = fragment.mixed_column() {
        return Err(format!("column '{column}' has values of several types, which S3 Select would not convert"));
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

/// Returns the column with the fewest estimated bytes.
fn narrowest(fragment: &Fragment) -> usize {
    let width = |index: &usize| width::column_bytes(fragment.schema.field(*index).data_type());
    (0..fragment.schema.fields().len()).min_by_key(width).unwrap_or(0)
}
