//! The bytes that a plan is expected to read or receive, in one process and in stages.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::exec::build_keys::BuildKeysExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::join_keys::JoinId;
use crate::plan::placement::Choice;

/// Returns the bytes of a scan that pass through the engine, without filters by the keys of joins.
pub(super) fn of_scan(scan: &RemoteScanExec) -> u64 {
    match scan.choice() {
        _ if scan.reuses() => 0,
        Choice::Compute(_) => scan.bytes(),
        Choice::Storage { .. } => scan.estimate().bytes_network,
    }
}

/// Returns the bytes that the engine reads for a scan that does not run in storage; 0 for others.
pub(super) fn read_by(scan: &RemoteScanExec) -> u64 {
    match scan.choice() {
        Choice::Compute(_) => scan.estimate().bytes_network,
        Choice::Storage { .. } => 0,
    }
}

/// Access to the nodes of a plan in stages.
pub trait StageNodes {
    /// Returns the number of tasks of the stage below `node`, if a stage ends there.
    fn tasks_below(&self, node: &Arc<dyn ExecutionPlan>) -> Option<usize>;

    /// Returns whether `node` sends each row of the stage below it to all tasks of its own stage.
    fn is_broadcast(&self, node: &Arc<dyn ExecutionPlan>) -> bool;

    /// Returns the scan that `node` runs in shares, if it does.
    fn shared<'a>(&self, node: &'a Arc<dyn ExecutionPlan>) -> Option<&'a Arc<dyn ExecutionPlan>>;
}

/// Returns the bytes that the scans of `plan` are expected to take. The keys of a join filter a
/// scan only if they are collected in its stage, by a task that has all of them.
pub fn expected_bytes(plan: &Arc<dyn ExecutionPlan>, nodes: &dyn StageNodes) -> u64 {
    of_stage(plan, 1, nodes)
}

/// Like [`expected_bytes`], for a plan of one process.
pub(crate) fn of_whole(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    struct Whole;
    impl StageNodes for Whole {
        fn tasks_below(&self, _: &Arc<dyn ExecutionPlan>) -> Option<usize> {
            None
        }

        fn is_broadcast(&self, _: &Arc<dyn ExecutionPlan>) -> bool {
            false
        }

        fn shared<'a>(&self, _: &'a Arc<dyn ExecutionPlan>) -> Option<&'a Arc<dyn ExecutionPlan>> {
            None
        }
    }
    expected_bytes(plan, &Whole)
}

fn of_stage(root: &Arc<dyn ExecutionPlan>, tasks: usize, nodes: &dyn StageNodes) -> u64 {
    let (mut joins, mut scans, mut below) = (HashSet::new(), Vec::new(), Vec::new());
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        if let Some(collector) = node.downcast_ref::<BuildKeysExec>()
            && (collector.is_over_whole() || tasks == 1)
        {
            joins.insert(collector.keys().id());
        }
        let scan = nodes.shared(node).unwrap_or(node);
        if let Some(scan) = scan.downcast_ref::<RemoteScanExec>() {
            scans.push(scan);
        }
        match nodes.tasks_below(node) {
            Some(tasks) => below.extend(node.children().into_iter().map(|stage| (stage, tasks))),
            None => open.extend(node.children()),
        }
    }
    let own = scans.into_iter().map(|scan| filtered(scan, &joins)).fold(0, u64::saturating_add);
    below.into_iter().map(|(stage, tasks)| of_stage(stage, tasks, nodes)).fold(own, u64::saturating_add)
}

/// Stands for the bytes of a scan that loses keys of a join. The number of rows that the keys would
/// have excluded is too uncertain to take the risk.
const LOST_KEYS: u64 = u64::MAX / 2;

/// Returns the bytes of `scan`, filtered by its keys if `joins` has all of them.
fn filtered(scan: &RemoteScanExec, joins: &HashSet<JoinId>) -> u64 {
    let filters = &scan.plan().key_filters;
    if filters.is_empty() {
        return of_scan(scan);
    }
    match filters.iter().all(|filter| joins.contains(&filter.join)) {
        true => (of_scan(scan) as f64 * scan.keyed_share()) as u64,
        false => LOST_KEYS,
    }
}
