//! Scalar aggregates: in the engine (`compute`), or in storage (`storage`).
//!
//! PushdownDB, Sections III and VI. Storage computes one partial result per object or range, the engine
//! merges them; asked of S3 Select only where its arithmetic is provably the engine's and its filter exact,
//! because a sum over the wrong rows cannot be mended afterwards.

use pushdown::{Capability, Exactness, Fragment, Output, Result, classify, classify_aggregate};

use super::filter::{Choice, Route, route};
use crate::settings::PushdownOptions;

/// Chooses for a fragment that yields aggregates.
pub(crate) fn choose(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Result<Choice> {
    let Output::Aggregate { calls, .. } = &fragment.output else {
        return Ok(Choice::Compute("rows are chosen elsewhere".to_owned()));
    };
    match route(fragment, capability, options, options.aggregate_side()?)? {
        Err(reason) => return Ok(Choice::Compute(reason)),
        Ok(Route::Fragment) => {
            return Ok(Choice::Storage { request: Box::new(fragment.clone()), exact: true, route: Route::Fragment });
        }
        Ok(Route::Select) => {}
    }
    let Some(dialect) = &capability.select else {
        return Ok(Choice::Compute("the backend has no S3 Select".to_owned()));
    };
    for call in calls {
        if !classify_aggregate(call, &fragment.schema, &fragment.format, dialect) {
            let backend = capability.profile.name();
            return Ok(Choice::Compute(format!("{} is not exact on backend {backend}", call.name)));
        }
    }
    let predicate = match &fragment.predicate {
        None => None,
        Some(asked) => match classify(asked, &fragment.schema, &fragment.format, dialect) {
            Exactness::Exact(predicate) => Some(predicate),
            Exactness::Inexact(_) | Exactness::Unsupported => {
                return Ok(Choice::Compute("the filter is not exact in storage".to_owned()));
            }
        },
    };
    let request = Fragment { predicate, ..fragment.clone() };
    Ok(match pushdowndb_select::render(&request, dialect) {
        Ok(_) => Choice::Storage { request: Box::new(request), exact: true, route: Route::Select },
        Err(error) => Choice::Compute(error.to_string()),
    })
}
