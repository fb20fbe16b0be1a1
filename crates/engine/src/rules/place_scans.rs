//! PlaceScans: decides the placement of each scan, once nothing more is pushed into it.
//!
//! Earlier rules edit scans, and may ask for the placement of a variant to compare strategies; an
//! edited scan is placed anew. From here on, only dynamic filters and adaptive execution change a
//! scan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::remote_scan::RemoteScanExec;

#[derive(Debug)]
pub(super) struct PlaceScans;

impl PhysicalOptimizerRule for PlaceScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.apply(|node| {
            if let Some(scan) = node.downcast_ref::<RemoteScanExec>() {
                scan.placement();
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "PlaceScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
