//! COPY to a location with endpoints of its own: one, or several over which the objects are
//! distributed.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::dml::CopyTo;
use pushdowndb_contract::{Error, Result};

use crate::access::Access;
use crate::catalog::{TableLocation, stores};
use crate::error::{from_datafusion, to_datafusion};

/// Moves the endpoints of a COPY into the URL of its store, where DataFusion finds them.
pub(crate) fn located(plan: LogicalPlan, access: &Access) -> Result<LogicalPlan> {
    let moved = plan.transform_down(|node| match node {
        LogicalPlan::Copy(copy) if stores::without_endpoint(&copy.output_url).1.is_some() => {
            let output_url = url(&copy.output_url, access).map_err(to_datafusion)?;
            Ok(Transformed::yes(LogicalPlan::Copy(CopyTo { output_url, ..copy })))
        }
        other => Ok(Transformed::no(other)),
    });
    moved.data().map_err(from_datafusion)
}

/// Returns the URL, in its store, of a location with endpoints of its own.
fn url(text: &str, access: &Access) -> Result<String> {
    let location = TableLocation::parse(text, access)?;
    let (place, _) = stores::without_endpoint(text);
    let (_, rest) = place.split_once("://").unwrap_or(("", place));
    let key = rest.split_once('/').map_or("", |(_, key)| key);
    if !(location.members().is_empty() || key.is_empty() || key.ends_with('/')) {
        return Err(Error::unsupported(format!("{text}: objects are dealt over several endpoints below a folder/")));
    }
    let store = stores::dealt(location.store())?;
    Ok(format!("{}/{key}", store.as_str().trim_end_matches('/')))
}
