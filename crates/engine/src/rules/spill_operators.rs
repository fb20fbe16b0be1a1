//! SpillOperators: replaces sorts and hash joins by operators that spill what does not fit into
//! memory.
//!
//! ```text
//! SortExec                  RangeSortExec
//! HashJoinExec              HybridHashJoinExec
//! ```
//!
//! DataFusion's other operators spill by themselves, or hold little. The exception is a window over
//! whole partitions, which holds all rows without accounting for them, so an operator that does is
//! added to its input. A sort for a LIMIT of few rows holds only these and is not replaced. The
//! rule runs after those rules that look for the operators which it replaces.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::windows::WindowAggExec;
use pushdowndb_spill::join::HybridHashJoinExec;
use pushdowndb_spill::sort::RangeSortExec;

use crate::exec::held_rows::with_held_rows;
use crate::settings::PushdownOptions;

/// Maximum LIMIT for which a sort keeps its rows in memory.
const MAX_TOP_ROWS: usize = 100_000;

#[derive(Debug)]
pub(super) struct SpillOperators;

impl PhysicalOptimizerRule for SpillOperators {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let memory = PushdownOptions::of(config).memory_bytes();
        let replaced = plan.transform_up(|node| {
            if let Some(sort) = node.downcast_ref::<SortExec>()
                && sort.fetch().is_none_or(|rows| rows > MAX_TOP_ROWS)
                // Some types, such as maps, have no keys that can be compared as bytes.
                && let Ok(sort) = RangeSortExec::from_sort(sort)
            {
                let expected = expected_spill(sort.input(), memory);
                return Ok(Transformed::yes(Arc::new(sort.with_expected_spill(expected)) as _));
            }
            if let Some(join) = node.downcast_ref::<HashJoinExec>()
                && HybridHashJoinExec::supports(join)
                // Spilled rows come last, but operators above may rely on the join's output order.
                && join.properties().output_ordering().is_none()
            {
                let expected = expected_spill(join.left(), memory);
                let join = HybridHashJoinExec::try_new(Arc::new(join.builder().build()?))?;
                return Ok(Transformed::yes(Arc::new(join.with_expected_spill(expected)) as _));
            }
            if node.is::<WindowAggExec>() {
                return Ok(Transformed::yes(with_held_rows("WindowAggExec", node)?));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "SpillOperators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the bytes of `input` that an operator is expected to spill if it has two thirds of
/// `memory`, the most that one operator gets. Returns `None` if all bytes fit, or if the size is
/// unknown.
fn expected_spill(input: &Arc<dyn ExecutionPlan>, memory: Option<usize>) -> Option<usize> {
    let statistics = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new()).ok()?;
    let bytes = *statistics.total_byte_size.get_value()?;
    bytes.checked_sub(memory? / 3 * 2).filter(|over| *over > 0)
}
