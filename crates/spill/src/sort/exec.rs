//! The sort operator that spills.

use std::fmt;
use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, Statistics, internal_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, async_try_stream};
use datafusion_physical_expr::{LexOrdering, PhysicalExpr};
use datafusion_physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion_physical_plan::limit::LimitStream;
use datafusion_physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
    apply_expression_roots,
};
use futures::StreamExt;

use super::buffer::Buffer;
use super::keys::Keys;
use super::setup::Setup;
use crate::show_expected;

/// A sort that keeps the lower range of its keys in memory and spills the higher ranges.
///
/// It has the properties and the output of a [`SortExec`] with the same arguments, except for the
/// order of rows with equal keys. For a limit of a few rows a `SortExec` is better, since it holds
/// only those rows; this operator drops rows that cannot be in the output only when memory runs
/// out.
///
/// Its metrics are `output_rows`, `elapsed_compute`, `spill_count` (files), `spilled_bytes` and
/// `spilled_rows`.
#[derive(Debug, Clone)]
pub struct RangeSortExec {
    /// A `SortExec` with the same arguments, which is used only for its properties.
    sort: SortExec,
    metrics: ExecutionPlanMetricsSet,
    /// The number of bytes of the input that are expected to be spilled.
    expected_spill: Option<usize>,
}

impl RangeSortExec {
    /// Creates a sort of `input` by `ordering` that emits the first `fetch` rows.
    ///
    /// With `preserve_partitioning`, each partition of the input is sorted separately. Otherwise
    /// the input must have a single partition.
    ///
    /// # Errors
    ///
    /// Returns an error if a sort key has a type that cannot be encoded, such as a map.
    pub fn try_new(
        ordering: LexOrdering,
        input: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        preserve_partitioning: bool,
    ) -> Result<Self> {
        Keys::try_new(&input.schema(), &ordering)?;
        let sort = SortExec::new(ordering, input).with_preserve_partitioning(preserve_partitioning).with_fetch(fetch);
        Ok(Self { sort, metrics: ExecutionPlanMetricsSet::new(), expected_spill: None })
    }

    /// Returns the operator with an estimate, shown in plans, of the `bytes` of its input that will
    /// be spilled.
    #[must_use]
    pub fn with_expected_spill(self, bytes: Option<usize>) -> Self {
        Self { expected_spill: bytes, ..self }
    }

    /// Creates the operator that replaces `sort`.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::try_new`]; `sort` must then be kept.
    pub fn from_sort(sort: &SortExec) -> Result<Self> {
        Self::try_new(sort.expr().clone(), Arc::clone(sort.input()), sort.fetch(), sort.preserve_partitioning())
    }

    /// The input.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.sort.input()
    }

    /// The sort keys.
    pub fn expr(&self) -> &LexOrdering {
        self.sort.expr()
    }

    /// Returns whether each partition of the input is sorted separately.
    pub fn preserve_partitioning(&self) -> bool {
        self.sort.preserve_partitioning()
    }
}

impl DisplayAs for RangeSortExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "RangeSortExec: expr=[{}]", self.expr())?;
                if let Some(fetch) = self.sort.fetch() {
                    write!(f, ", fetch={fetch}")?;
                }
                write!(f, ", preserve_partitioning=[{}]", self.preserve_partitioning())?;
                show_expected(self.expected_spill, f)
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "{}", self.expr())?;
                match self.sort.fetch() {
                    Some(fetch) => writeln!(f, "limit={fetch}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl ExecutionPlan for RangeSortExec {
    fn name(&self) -> &'static str {
        "RangeSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sort.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sort.input_distribution_requirements()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.expr().iter().map(|key| &key.expr), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("RangeSortExec has one child");
        };
        let mut new = Self::try_new(self.expr().clone(), input, self.sort.fetch(), self.sort.preserve_partitioning())?;
        new.metrics = self.metrics.clone();
        new.expected_spill = self.expected_spill;
        Ok(Arc::new(new))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::from_sort(&self.sort)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input().execute(partition, Arc::clone(&context))?;
        let schema = self.schema();
        if self.sort.fetch() == Some(0) {
            return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
        }
        if self.input().equivalence_properties().ordering_satisfy(self.expr().clone())? {
            return Ok(match self.sort.fetch() {
                None => input,
                fetch => Box::pin(LimitStream::new(input, 0, fetch, BaselineMetrics::new(&self.metrics, partition))),
            });
        }
        let partitions = self.properties().output_partitioning().partition_count();
        let setup = Setup::try_new(
            Arc::clone(&schema),
            self.expr().clone(),
            self.sort.fetch(),
            &self.metrics,
            (partition, partitions),
            &context,
        )?;
        let sorted = async_try_stream(move |emitter| async move {
            let mut buffer = Buffer::new(Arc::new(setup));
            while let Some(batch) = input.next().await {
                buffer.insert(batch?).await?;
            }
            drop(input);
            buffer.finish()?.emit(emitter).await
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, sorted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.sort.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.sort.statistics_from_inputs(inputs, args)
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let sort = self.sort.with_fetch(fetch);
        Some(Arc::new(Self { sort, metrics: self.metrics.clone(), expected_spill: self.expected_spill }))
    }

    fn fetch(&self) -> Option<usize> {
        self.sort.fetch()
    }

    fn cardinality_effect(&self) -> datafusion_physical_plan::execution_plan::CardinalityEffect {
        self.sort.cardinality_effect()
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // A filter below a limit would change which rows are first.
        match self.sort.fetch() {
            Some(_) => Ok(FilterDescription::all_unsupported(&filters, &self.children())),
            None => FilterDescription::from_children(filters, &self.children()),
        }
    }
}
