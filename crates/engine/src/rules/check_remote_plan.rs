//! CheckRemotePlan: refuses plans that would give wrong rows. It is the last rule and rewrites
//! nothing.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

use crate::exec::group_by::GroupByExec;
use crate::exec::remote_scan::RemoteScanExec;

#[derive(Debug)]
pub(super) struct CheckRemotePlan;

impl PhysicalOptimizerRule for CheckRemotePlan {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        plan.apply(|node| {
            if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
                && aggregate.mode().input_mode() == AggregateInputMode::Raw
                && yields_states(aggregate.input())
            {
                return Err(DataFusionError::Internal(
                    "partial results of storage are aggregated as if they were rows".to_owned(),
                ));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "CheckRemotePlan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether `plan` yields partial aggregate states, directly or through operators that pass
/// rows on.
fn yields_states(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        return scan.plan().aggregate.is_some();
    }
    if plan.is::<GroupByExec>() {
        return true;
    }
    match plan.children().as_slice() {
        [only] if !plan.is::<AggregateExec>() => yields_states(only),
        _ => false,
    }
}
