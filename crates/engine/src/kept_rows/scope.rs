//! The part of a plan in which the rows of a scan can come to their end.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

use super::KeptRows;

/// Passes rows through. Once they have ended, or nobody wants more of them, what is not all kept below never will be: an operator may
/// have left rows of the scan unread, without dropping it.
#[derive(Clone, Debug)]
pub(crate) struct KeptScopeExec {
    input: Arc<dyn ExecutionPlan>,
    kept: Arc<KeptRows>,
    /// Partitions that have not ended.
    open: Arc<AtomicUsize>,
    properties: Arc<PlanProperties>,
}

impl KeptScopeExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, kept: Arc<KeptRows>) -> Self {
        let properties = Arc::clone(input.properties());
        let open = Arc::new(AtomicUsize::new(input.output_partitioning().partition_count()));
        Self { input, kept, open, properties }
    }
}

impl DisplayAs for KeptScopeExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => write!(f, "kept=#{}", self.kept.number()),
            _ => write!(f, "KeptScopeExec: kept=#{}", self.kept.number()),
        }
    }
}

impl ExecutionPlan for KeptScopeExec {
    fn name(&self) -> &str {
        "KeptScopeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::new(input, Arc::clone(&self.kept))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> DfResult<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let open = Open { partitions: Arc::clone(&self.open), kept: Arc::clone(&self.kept) };
        Ok(Box::pin(Scope { rows: self.input.execute(partition, context)?, open: Some(open) }))
    }
}

/// A partition that has not ended. The last one to go settles what becomes of the rows.
struct Open {
    partitions: Arc<AtomicUsize>,
    kept: Arc<KeptRows>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // It does nothing to rows that are complete.
        if self.partitions.fetch_sub(1, Ordering::AcqRel) <= 1 {
            self.kept.give_up();
        }
    }
}

struct Scope {
    rows: SendableRecordBatchStream,
    open: Option<Open>,
}

impl Stream for Scope {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        if matches!(polled, Poll::Ready(None)) {
            self.open = None;
        }
        polled
    }
}

impl RecordBatchStream for Scope {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
