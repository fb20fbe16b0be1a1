//! PushTopK: restricts a scan below an ORDER BY with a LIMIT to rows that can be among the first.
//!
//! ```text
//! becomes   SortExec fetch=10: a DESC           SortExec fetch=10: a DESC
//!           └ RemoteScanExec                    └ RemoteScanExec top-k=[10 by a DESC]
//! stays     SortExec fetch=10: a                rows that the filter drops must not count
//!           └ FilterExec …
//! ```
//!
//! The sort stays, because a scan may yield more than k rows.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, PhysicalExpr, ReplaceChildrenOptions};

use crate::error::to_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::lower::convert;
use crate::plan::top_k::TopK;

#[derive(Debug)]
pub(super) struct PushTopK;

impl PhysicalOptimizerRule for PushTopK {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_up(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            let Some(k) = sort.fetch() else { return Ok(Transformed::no(node)) };
            let keys: Vec<_> = sort.expr().iter().map(|key| (Arc::clone(&key.expr), key.options)).collect();
            match push(sort.input(), &keys, k)? {
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

/// A sort key over the columns of a plan.
type Key = (Arc<dyn PhysicalExpr>, SortOptions);

/// Adds the top-k to the scan below `plan`, if every operator in between keeps all rows.
fn push(plan: &Arc<dyn ExecutionPlan>, keys: &[Key], k: usize) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        let mut converted = keys.iter().map(|(key, order)| {
            let key = convert(key, &|column| scan.plan().file_column(column))?;
            Some((key, *order))
        });
        let Some(Some((key, order))) = converted.next() else { return Ok(None) };
        let scan = scan.with_top_k(TopK { key, order, rest: converted.collect(), k }).map_err(to_datafusion)?;
        return Ok(scan.map(|scan| Arc::new(scan) as _));
    }
    let below = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = |node: Arc<dyn PhysicalExpr>| {
            let computed = node.downcast_ref::<Column>().and_then(|column| projection.expr().get(column.index()));
            Ok(match computed {
                // Computed columns already refer to the input.
                Some(computed) => Transformed::new(Arc::clone(&computed.expr), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        };
        let below = keys.iter().map(|(key, order)| Ok((Arc::clone(key).transform_down(input)?.data, *order)));
        push(projection.input(), &below.collect::<DfResult<Vec<_>>>()?, k)?
    } else if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        push(repartition.input(), keys, k)?
    } else {
        None
    };
    below.map(|below| with_input(Arc::clone(plan), below)).transpose()
}

fn with_input(plan: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
