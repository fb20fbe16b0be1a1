//! PushTopK: a scan below an ORDER BY with a LIMIT learns that only the first rows count.
//!
//! ```text
//! becomes   SortExec fetch=10: a DESC           SortExec fetch=10: a DESC
//!           └ RemoteScanExec                    └ RemoteScanExec top-k=[10 by a DESC]
//! stays     SortExec fetch=10: a                rows that the filter drops must not count
//!           └ FilterExec …
//! ```
//!
//! The sort stays: what the scan leaves out are rows that the sort would drop, but it keeps more than k.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, PhysicalExpr, ReplaceChildrenOptions};

use crate::convert::convert;
use crate::error::to_datafusion;
use crate::remote_scan::RemoteScanExec;
use crate::strategies::top_k::TopK;

#[derive(Debug)]
pub(super) struct PushTopK;

impl PhysicalOptimizerRule for PushTopK {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_up(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            let Some(k) = sort.fetch() else { return Ok(Transformed::no(node)) };
            let first = sort.expr().first();
            let top_k = |key| TopK { key, order: first.options, k };
            match push(sort.input(), &first.expr, &top_k)? {
                Some(input) => Ok(Transformed::yes(with_input(node, input)?)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(pushed.data)
    }

    fn name(&self) -> &str {
        "PushTopK"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with the top-k by `key` in its scan, if there is one below operators that keep every row.
fn push(
    plan: &Arc<dyn ExecutionPlan>,
    key: &Arc<dyn PhysicalExpr>,
    top_k: &dyn Fn(pushdown::Expr) -> TopK,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        let Some(key) = convert(key, &|column| scan.spec().file_column(column)) else { return Ok(None) };
        let scan = scan.with_top_k(top_k(key)).map_err(to_datafusion)?;
        return Ok(scan.map(|scan| Arc::new(scan) as _));
    }
    let below = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = |node: Arc<dyn PhysicalExpr>| {
            let computed = node.downcast_ref::<Column>().and_then(|column| projection.expr().get(column.index()));
            Ok(match computed {
                // What was computed refers to the input already.
                Some(computed) => Transformed::new(Arc::clone(&computed.expr), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        };
        push(projection.input(), &Arc::clone(key).transform_down(input)?.data, top_k)?
    } else if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        push(repartition.input(), key, top_k)?
    } else {
        None
    };
    below.map(|below| with_input(Arc::clone(plan), below)).transpose()
}

fn with_input(plan: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
