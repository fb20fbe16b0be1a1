//! Which plans are cut into stages, and how many processes run a scan together.

use std::sync::Arc;

use datafusion::common::config::ConfigExtension;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use pushdowndb_contract::{Format, Result};

use super::bytes;
use super::nodes::is_scope;
use super::scan;
use super::usages::ScanUsages;
use crate::exec::group_by::GroupByExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::settings::{Distribution, PushdownOptions};

/// Minimum bytes that the engine reads or receives for a query to be worth exchanging its rows
/// between processes. Below, one process takes less than a second.
const MIN_BYTES: u64 = 64 << 20;

/// Operators that run in one process: those that write, and those that run a part of their plan
/// repeatedly.
const ONE_PROCESS: [&str; 4] = ["DataSinkExec", "RecursiveQueryExec", "WorkTableExec", "ScalarSubqueryExec"];

/// Returns the settings `pushdown.*` that differ from the defaults and concern every process, by
/// their full names.
pub(crate) fn changed_settings(options: &PushdownOptions) -> Vec<(String, String)> {
    let full = |(name, value): (String, String)| (format!("{}.{name}", PushdownOptions::PREFIX), value);
    scan::changed(options).into_iter().map(full).collect()
}

/// Returns why a plan is not cut into stages; `None` if it may be.
pub(crate) fn refusal(plan: &Arc<dyn ExecutionPlan>, mode: Distribution) -> Option<String> {
    let (mut why, mut all, mut scans) = (None, 0u64, 0);
    let walked = plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<RemoteScanExec>() {
            why = why.take().or_else(|| refused(scan, mode));
            all = all.saturating_add(bytes::of_scan(scan));
            scans += 1;
        } else if node.is::<GroupByExec>() {
            why = Some("a group-by in phases".to_owned());
        } else if ONE_PROCESS.contains(&node.name()) || is_scope(node) {
            why = Some(format!("{} runs in one process", node.name()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // The closure never fails.
    drop(walked);
    why.or_else(|| (scans == 0).then(|| "no table is scanned".to_owned())).or_else(|| {
        let is_small = mode == Distribution::Auto && all < MIN_BYTES;
        is_small.then(|| format!("{all} bytes are few"))
    })
}

/// Returns why workers cannot run `scan`; `None` if they can.
fn refused(scan: &RemoteScanExec, mode: Distribution) -> Option<String> {
    let name = &scan.plan().name;
    if mode == Distribution::Auto && scan.context().is_local() {
        return Some(format!("{name} is on the disk of this machine"));
    }
    if scan.is_looked_up() {
        return Some(format!("an index finds the rows of {name}"));
    }
    if scan.is_selected() {
        return Some(format!("{name} is read by S3 Select"));
    }
    if let Format::Csv(csv) = &scan.plan().table.format
        && csv.translation.as_ref().is_some_and(|translation| translation.ignores_errors)
    {
        return Some(format!("the records that are left out of {name} are told in one process"));
    }
    None
}

/// Returns the maximum number of tasks, up to `wanted`, that can run the scan `node` together;
/// `None` if it is not a scan of the engine.
pub fn most_tasks(node: &Arc<dyn ExecutionPlan>, wanted: usize) -> Option<usize> {
    Some(node.downcast_ref::<RemoteScanExec>()?.most_shares(wanted))
}

/// Divides `node` into `tasks` scans that together read each record once; `None` if it is not a
/// scan of the engine.
///
/// # Errors
///
/// Returns an error if a type of the scan is unknown to the engine.
pub fn shares(
    node: &Arc<dyn ExecutionPlan>,
    tasks: usize,
    usages: &ScanUsages,
) -> Option<Result<Vec<Arc<dyn ExecutionPlan>>>> {
    let scan = node.downcast_ref::<RemoteScanExec>()?;
    let shares = scan.shares(tasks, usages.number_of(scan));
    Some(shares.map(|shares| shares.into_iter().map(|share| Arc::new(share) as _).collect()))
}
