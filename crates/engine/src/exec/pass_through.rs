//! Operators that pass rows through and observe them.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};

/// Observer of the rows of a [`PassThroughExec`].
pub(crate) trait RowObserver: Clone + Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// Details for EXPLAIN.
    fn shown(&self) -> String;

    /// Expressions evaluated on the rows.
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &[]
    }

    /// Returns `rows` unchanged, and observes them as they pass. They are the rows of `partition`,
    /// one of `partitions` partitions.
    fn watch(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        partitions: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream;
}

/// Operator that passes the rows of its input through an observer.
#[derive(Clone, Debug)]
pub(crate) struct PassThroughExec<W> {
    input: Arc<dyn ExecutionPlan>,
    watcher: W,
    properties: Arc<PlanProperties>,
}

impl<W: RowObserver> PassThroughExec<W> {
    pub(crate) fn of(input: Arc<dyn ExecutionPlan>, watcher: W) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, watcher, properties }
    }

    pub(crate) fn watcher(&self) -> &W {
        &self.watcher
    }
}

impl<W: RowObserver> DisplayAs for PassThroughExec<W> {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => write!(f, "{}", self.watcher.shown()),
            _ => write!(f, "{}: {}", W::NAME, self.watcher.shown()),
        }
    }
}

impl<W: RowObserver> ExecutionPlan for PassThroughExec<W> {
    fn name(&self) -> &str {
        W::NAME
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let mut next = TreeNodeRecursion::Continue;
        for expr in self.watcher.exprs() {
            next = next.visit_sibling(|| f(expr))?;
        }
        Ok(next)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::of(input, self.watcher.clone())))
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
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        Ok(self.watcher.watch(rows, partition, self.properties.output_partitioning().partition_count(), &context))
    }
}
