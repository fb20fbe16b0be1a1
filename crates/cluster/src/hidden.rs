//! Hides a part of a plan from optimizer rules.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};

/// Runs `rule` on `plan` while the nodes that satisfy `is_hidden`, and everything below them, are
/// hidden from it.
pub(crate) fn outside_of(
    plan: Arc<dyn ExecutionPlan>,
    is_hidden: impl Fn(&Arc<dyn ExecutionPlan>) -> bool,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let hide = |node: Arc<dyn ExecutionPlan>| {
        Ok(match is_hidden(&node) {
            true => Transformed::new(Arc::new(HiddenExec(node)) as _, true, TreeNodeRecursion::Jump),
            false => Transformed::no(node),
        })
    };
    let show = |node: Arc<dyn ExecutionPlan>| {
        Ok(match node.downcast_ref::<HiddenExec>() {
            Some(hidden) => Transformed::new(Arc::clone(&hidden.0), true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    };
    Ok(rule(plan.transform_down(hide)?.data)?.transform_down(show)?.data)
}

/// A placeholder for a hidden part of a plan; it is never executed.
#[derive(Debug)]
struct HiddenExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for HiddenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HiddenExec")
    }
}

impl ExecutionPlan for HiddenExec {
    fn name(&self) -> &str {
        "HiddenExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a part of a plan was left hidden")
    }
}
