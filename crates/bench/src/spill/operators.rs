//! The physical optimizer rule that replaces the operators of a plan with those of a contestant.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use pushdowndb_spill::join::HybridHashJoinExec;
use pushdowndb_spill::sort::RangeSortExec;

use super::before::{BlockSortExec, Blocks};

/// The operators that spill.
#[derive(Clone, Debug)]
pub enum Operators {
    /// DataFusion's own.
    DataFusion,
    /// The sort by blocks, with its blocks and the maximum number of runs that are merged at once.
    Blocks(Arc<Blocks>, usize),
    /// The sort by ranges and the hybrid hash join.
    Ours,
}

/// Replaces DataFusion's operators; runs after all other rules.
#[derive(Debug)]
pub struct Replace(pub Operators);

impl PhysicalOptimizerRule for Replace {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if matches!(self.0, Operators::DataFusion) {
            return Ok(plan);
        }
        let replaced = plan.transform_up(|node| {
            if let Some(sort) = node.downcast_ref::<SortExec>()
                && sort.fetch().is_none()
            {
                let sort: Arc<dyn ExecutionPlan> = match &self.0 {
                    Operators::Blocks(blocks, fan_in) => {
                        Arc::new(BlockSortExec::new(sort.clone(), Arc::clone(blocks), *fan_in))
                    }
                    _ => Arc::new(RangeSortExec::from_sort(sort)?),
                };
                return Ok(Transformed::yes(sort));
            }
            if let Some(join) = node.downcast_ref::<HashJoinExec>()
                && matches!(self.0, Operators::Ours)
                && HybridHashJoinExec::supports(join)
                && join.properties().output_ordering().is_none()
            {
                let join = join.builder().build()?;
                return Ok(Transformed::yes(Arc::new(HybridHashJoinExec::try_new(Arc::new(join))?) as _));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "ReplaceOperators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
