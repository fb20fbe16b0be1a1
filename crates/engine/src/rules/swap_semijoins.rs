//! SwapSemijoins: builds a semijoin's hash table from the subquery if its other side joins whole
//! tables of more rows.
//!
//! ```text
//! orders ⋈ lineitem WHERE o_orderkey IN (SELECT l_orderkey … HAVING sum(l_quantity) > 300)
//!
//! HashJoinExec LeftSemi             becomes   HashJoinExec RightSemi
//! ├ HashJoinExec Inner, 60 M rows             ├ FilterExec …, 624 rows
//! └ FilterExec …, 624 rows                     └ HashJoinExec Inner, 60 M rows
//! ```
//!
//! DataFusion 55.2 chooses the side by estimates, and takes an inner join of unknown keys to have as
//! few rows as its smallest input. Most inner joins follow a foreign key: without filters they have
//! as many rows as their largest input, which is assumed here. With a filter below the join nothing
//! is changed, since how many partners it leaves is not known.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result as DfResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::exec::remote_scan::RemoteScanExec;

/// Minimum ratio of the rows of the two sides, since both are estimates.
const MIN_RATIO: usize = 2;

#[derive(Debug)]
pub(super) struct SwapSemijoins;

impl PhysicalOptimizerRule for SwapSemijoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        let swapped = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            if *join.join_type() != JoinType::LeftSemi || join.null_aware {
                return Ok(Transformed::no(node));
            }
            let (Some(kept), Some(wanted)) = (joined_rows(join.left())?, rows(join.right())?) else {
                return Ok(Transformed::no(node));
            };
            // Where the estimates agree, DataFusion has chosen already.
            let is_larger = rows(join.left())?.is_none_or(|estimated| estimated < kept);
            if !is_larger || wanted.saturating_mul(MIN_RATIO) > kept {
                return Ok(Transformed::no(node));
            }
            // The new build side may be so small that each task of the join can have all of it.
            let mode = match fits(join.right(), config)? {
                true => PartitionMode::CollectLeft,
                false => *join.partition_mode(),
            };
            Ok(Transformed::yes(join.swap_inputs(mode)?))
        })?;
        Ok(swapped.data)
    }

    fn name(&self) -> &str {
        "SwapSemijoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the number of rows of inner joins of whole tables, which is that of the largest table;
/// `None` for other plans.
fn joined_rows(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<usize>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && *join.join_type() == JoinType::Inner
    {
        return Ok(joined_rows(join.left())?.zip(joined_rows(join.right())?).map(|(left, right)| left.max(right)));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return joined_rows(projection.input());
    }
    match plan.downcast_ref::<RemoteScanExec>() {
        Some(scan) if scan.is_whole() => rows(plan),
        _ => Ok(None),
    }
}

/// Returns whether DataFusion would build one hash table from all rows of `plan`.
fn fits(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<bool> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    let most = &config.optimizer;
    Ok(match (statistics.total_byte_size.get_value(), statistics.num_rows.get_value()) {
        (Some(bytes), _) => *bytes < most.hash_join_single_partition_threshold,
        (None, Some(rows)) => *rows < most.hash_join_single_partition_threshold_rows,
        (None, None) => false,
    })
}

/// Returns DataFusion's estimate of the number of rows of `plan`.
fn rows(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<usize>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    Ok(statistics.num_rows.get_value().copied())
}
