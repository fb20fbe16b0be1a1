//! The usage of scans in other processes.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use pushdowndb_contract::Result;

use crate::context::QueryContext;
use crate::exec::remote_scan::RemoteScanExec;
use crate::exec::remote_scan::share::usages;
use crate::exec::scan_counters::ScanCounters;

/// The scans of a query, to which the counts of their shares in other processes are added.
#[derive(Debug)]
pub struct ScanUsages {
    query: Arc<QueryContext>,
    scans: Vec<Arc<ScanCounters>>,
}

impl ScanUsages {
    pub(crate) fn new(plan: &Arc<dyn ExecutionPlan>, query: &Arc<QueryContext>) -> Self {
        let mut scans = Vec::new();
        let walked = plan.apply(|node| {
            if let Some(scan) = node.downcast_ref::<RemoteScanExec>() {
                scans.push(Arc::clone(scan.shared_counters()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        // The closure never fails.
        drop(walked);
        Self { query: Arc::clone(query), scans }
    }

    /// Returns the number of `scan` among those of the query.
    pub(super) fn number_of(&self, scan: &RemoteScanExec) -> u64 {
        let place = self.scans.iter().position(|counters| Arc::ptr_eq(counters, scan.shared_counters()));
        place.map_or(u64::MAX, |place| place as u64)
    }

    /// Adds what a task in another process counted, from the metrics of its operators.
    pub fn add(&self, metrics: &[MetricsSet]) {
        for (number, usage) in metrics.iter().flat_map(usages) {
            self.query.meter.add(&usage);
            if let Some(scan) = usize::try_from(number).ok().and_then(|place| self.scans.get(place)) {
                scan.ran_elsewhere(&usage);
            }
        }
    }

    /// Fails if the query, with all that was added, has used more than the session's caps allow.
    pub fn check_caps(&self) -> Result<()> {
        self.query.check_caps()
    }

    /// Records a remark about how the query ran, for its report.
    pub fn note(&self, text: impl Into<String>) {
        self.query.meter.strategy(text);
    }
}
