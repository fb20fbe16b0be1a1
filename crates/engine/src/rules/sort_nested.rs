//! SortNested: makes an ORDER BY with a LIMIT sort all rows if a sort key is a struct or a list.
//!
//! ```text
//! becomes   SortExec fetch=10: s            LocalLimitExec fetch=10
//!                                           └ SortExec: s
//! ```
//!
//! DataFusion 55.2 drops rows beyond the current limit by a comparison that sorts a NULL inside of
//! a struct first, whereas the sort itself follows the ORDER BY. The result would depend on the
//! order in which rows arrive.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

#[derive(Debug)]
pub(super) struct SortNested;

impl PhysicalOptimizerRule for SortNested {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let sorted = plan.transform_up(|node| {
            let Some((sort, fetch)) = node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)))
            else {
                return Ok(Transformed::no(node));
            };
            let schema = sort.input().schema();
            if !sort.expr().iter().any(|key| key.expr.data_type(&schema).is_ok_and(|key| key.is_nested())) {
                return Ok(Transformed::no(node));
            }
            let whole = Arc::new(sort.with_fetch(None));
            Ok(Transformed::yes(match sort.preserve_partitioning() {
                true => Arc::new(LocalLimitExec::new(whole, fetch)),
                false => Arc::new(GlobalLimitExec::new(whole, 0, Some(fetch))),
            }))
        })?;
        Ok(sorted.data)
    }

    fn name(&self) -> &str {
        "SortNested"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
