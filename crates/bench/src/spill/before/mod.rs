//! The sort that Databend used before its measurement, reimplemented for comparison only.
//!
//! Rows are sorted in blocks. Once memory is short, each block is spilled immediately as an object
//! of its own, beginning with those in memory. At the end a LIST finds the blocks of a partition,
//! and they are merged 16 at a time (`--fan-in`) in as many passes as needed. The output of a pass
//! consists of blocks too, which the next LIST finds. After the query a final LIST finds all
//! blocks, and they are deleted. Blocks are in Arrow IPC format without compression.
//!
//! Databend reports as many spilled bytes as the data has, so its figures include no intermediate
//! pass. A large `--fan-in` avoids intermediate passes as well, but then a block of every run is in
//! memory at once. Memory is accounted for rows that are buffered, not for those that are merged.

mod blocks;
mod sort;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, apply_expression_roots,
};
use futures::{TryStreamExt, stream};

pub use blocks::Blocks;

use sort::PartitionSort;

/// An operator that sorts like `sort`, but by blocks.
#[derive(Debug)]
pub struct BlockSortExec {
    sort: SortExec,
    blocks: Arc<Blocks>,
    /// Maximum runs that are merged at once, at least 2.
    fan_in: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl BlockSortExec {
    /// Replaces `sort`, which must not have a limit. At most `fan_in` runs are merged at once.
    pub fn new(sort: SortExec, blocks: Arc<Blocks>, fan_in: usize) -> Self {
        Self { sort, blocks, fan_in, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for BlockSortExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockSortExec: expr=[{}]", self.sort.expr())
    }
}

impl ExecutionPlan for BlockSortExec {
    fn name(&self) -> &str {
        "BlockSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sort.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sort.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.sort.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.sort.expr().iter().map(|key| &key.expr), f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("BlockSortExec has one child");
        };
        let sort = SortExec::new(self.sort.expr().clone(), input)
            .with_preserve_partitioning(self.sort.preserve_partitioning());
        Ok(Arc::new(Self::new(sort, Arc::clone(&self.blocks), self.fan_in)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.sort.input().execute(partition, Arc::clone(&context))?;
        let consumer = MemoryConsumer::new(format!("BlockSortExec[{partition}]")).with_can_spill(true);
        let sort = PartitionSort {
            partition,
            schema: self.schema(),
            ordering: self.sort.expr().clone(),
            batch_rows: context.session_config().batch_size(),
            fan_in: self.fan_in,
            blocks: Arc::clone(&self.blocks),
            metrics: self.metrics.clone(),
            memory: consumer.register(context.memory_pool()),
            held: Vec::new(),
            is_short: false,
            spilled: 0,
        };
        let sorted = stream::once(sort.sort(input)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), sorted)))
    }
}
