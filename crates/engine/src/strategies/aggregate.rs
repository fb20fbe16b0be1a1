//! Scalar aggregates: in the engine (`compute`), or in storage (`storage`).
//!
//! PushdownDB, Sections III and VI. Storage computes one partial result per object or range, and
//! the engine merges them. S3 Select is used only if its arithmetic is provably equal to the
//! engine's and its filter exact, because a sum over the wrong rows cannot be corrected afterwards.

use pushdowndb_contract::{Capability, Exactness, Fragment, Output, classify, classify_aggregate};

use super::filter::route;
use crate::cost::candidates::{Candidates, Reason};
use crate::cost::scan::{Pushed, ScanCosts};
use crate::plan::explanation::Explanation;
use crate::plan::placement::{Choice, PlacedScan, Route};
use crate::settings::{PushdownOptions, Side};

/// Estimated bytes of the aggregates of a split.
const ROW_BYTES: u64 = 128;

/// Chooses the placement of a fragment that yields aggregates.
pub(crate) fn choose(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Choice {
    let Output::Aggregate { calls, .. } = &fragment.output else {
        return Choice::Compute("rows are chosen elsewhere".to_owned());
    };
    match route(fragment, capability, options, options.aggregate) {
        Err(reason) => return Choice::Compute(reason),
        Ok(Route::Fragment) => {
            return Choice::Storage { request: Box::new(fragment.clone()), exact: true, route: Route::Fragment };
        }
        Ok(Route::Select) => {}
    }
    let Some(dialect) = &capability.select else {
        return Choice::Compute("the backend has no S3 Select".to_owned());
    };
    for call in calls {
        if !classify_aggregate(call, &fragment.schema, &fragment.format, dialect) {
            let backend = capability.profile.name();
            let argument = call.argument.as_ref().map(|argument| argument.display(&fragment.schema).to_string());
            let (function, argument) = (call.function.sql(), argument.unwrap_or("*".to_owned()));
            return Choice::Compute(format!("{function}({argument}) is not exact on backend {backend}"));
        }
    }
    let predicate = match &fragment.predicate {
        None => None,
        Some(asked) => match classify(asked, &fragment.schema, &fragment.format, dialect) {
            Exactness::Exact(predicate) => Some(predicate),
            Exactness::Inexact(_) | Exactness::Unsupported => {
                return Choice::Compute("the filter is not exact in storage".to_owned());
            }
        },
    };
    let request = Fragment { predicate, ..fragment.clone() };
    match pushdowndb_select::render(&request, dialect) {
        Ok(_) => Choice::Storage { request: Box::new(request), exact: true, route: Route::Select },
        Err(error) => Choice::Compute(error.to_string()),
    }
}

/// Explains the placement of an aggregate. Returns `None` if there is no route to storage.
/// `refused` is the reason against an aggregate in storage, if there is one.
pub(crate) fn explanation(rows: PlacedScan<'_>, refused: Option<&str>) -> Option<Explanation> {
    let PlacedScan { plan, context, fragment, capability, .. } = rows;
    let Ok(route) = route(fragment, capability, &context.options, Side::Auto) else { return None };
    let costs = ScanCosts::of(plan, context, fragment, Some(route));
    let mut candidates = Candidates::new("aggregate", costs.model());
    candidates.add(
        "compute",
        match rows.choice {
            Choice::Compute(_) => costs.plain(0.0),
            Choice::Storage { .. } => costs.filtered(),
        },
    );
    let side = context.options.aggregate;
    let (taken, reason) = match refused {
        Some(why) => {
            candidates.refuse("storage", why);
            ("compute", if side == Side::Compute { Reason::Asked } else { Reason::Estimated })
        }
        None => {
            let (requests, answers) = match route {
                Route::Select => (costs.splits, costs.splits),
                Route::Fragment => (costs.requests, costs.objects.max(plan.partitions as u64).min(costs.splits.max(1))),
            };
            let (scanned, returned, decoded) = (costs.scanned, answers * ROW_BYTES, costs.sent);
            let storage = costs.pushed(Pushed { requests, scanned, returned, decoded, ..Pushed::default() });
            candidates.add("storage", storage);
            (
                "storage",
                if side == Side::Storage { Reason::Asked } else { Reason::Because("storage sends a row a split") },
            )
        }
    };
    Some(candidates.explanation(taken, reason))
}
