//! The hash join operator that spills.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, Statistics};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion_physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion_physical_plan::joins::HashJoinExec;
use datafusion_physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    StatisticsArgs,
};
use parking_lot::Mutex;

use super::run::{Run, check};
use crate::show_expected;

/// A hash join that spills. While the build side (left) fits into memory, it is the `HashJoinExec`
/// that it wraps; otherwise it joins partitions of both sides from files.
///
/// It has the same children, output partitions and metrics, and in addition `spill_count`,
/// `spilled_bytes` and `spilled_rows`. Unlike a `HashJoinExec`, its output has no ordering, since
/// rows of spilled partitions come last. So it must replace a `HashJoinExec` before orderings are
/// enforced, or where no ordering is required.
///
/// A dynamic filter is built as in the `HashJoinExec`, but it passes all rows for output partitions
/// whose build side has spilled. If a shared build side (`PartitionMode::CollectLeft`) has spilled,
/// joins that emit rows of the build side emit their whole output in partition 0.
///
/// All memory beyond a few batches is reserved from the task's pool. If the pool grants nothing at
/// all, rows are spilled at once and joined in small chunks, so that no join fails for lack of
/// memory.
#[derive(Debug)]
pub struct HybridHashJoinExec {
    join: Arc<HashJoinExec>,
    properties: Arc<PlanProperties>,
    current: Mutex<Option<Current>>,
    /// The metrics of the joins in memory, for each run.
    in_memory: Mutex<Vec<MetricsSet>>,
    /// The metrics of spilling.
    metrics: ExecutionPlanMetricsSet,
    /// The number of bytes of the build side that are expected to be spilled.
    expected_spill: Option<usize>,
}

/// The run whose remaining partitions are executed next.
struct Current {
    run: Arc<Run>,
    executed: Vec<bool>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("executed", &self.executed).finish_non_exhaustive()
    }
}

impl HybridHashJoinExec {
    /// Creates an operator that computes `join`, with its dynamic filter.
    ///
    /// # Errors
    ///
    /// Returns an error for a null-aware anti join (`NOT IN`), whose result depends on the whole
    /// probe side, and for `PartitionMode::Auto`, which does not occur after planning. See
    /// [`Self::supports`].
    pub fn try_new(join: Arc<HashJoinExec>) -> Result<Self> {
        check(&join)?;
        let properties = join.properties();
        let mut equivalences = properties.equivalence_properties().clone();
        equivalences.clear_orderings();
        let properties = PlanProperties::clone(properties).with_eq_properties(equivalences);
        Ok(Self {
            join,
            properties: Arc::new(properties),
            current: Mutex::default(),
            in_memory: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            expected_spill: None,
        })
    }

    /// Returns the operator with an estimate, shown in plans, of the `bytes` of its build side that
    /// will be spilled.
    #[must_use]
    pub fn with_expected_spill(self, bytes: Option<usize>) -> Self {
        Self { expected_spill: bytes, ..self }
    }

    /// Returns whether [`Self::try_new`] accepts `join`.
    pub fn supports(join: &HashJoinExec) -> bool {
        check(join).is_ok()
    }

    /// Returns the wrapped join.
    pub fn hash_join(&self) -> &Arc<HashJoinExec> {
        &self.join
    }

    fn over(join: HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(Arc::new(join))?))
    }

    /// Replaces a `HashJoinExec` at the top of `plan`, or directly below it, by this operator.
    fn in_place(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Self::over(join.builder().build()?);
        }
        let join = match plan.children().as_slice() {
            [child] => child.downcast_ref::<HashJoinExec>().map(|join| join.builder().build()),
            _ => None,
        };
        match join {
            Some(join) => {
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                plan.replace_children(vec![Self::over(join?)?], options)
            }
            None => Ok(plan),
        }
    }

    /// Returns the run in which to execute `partition`, and the run's number.
    ///
    /// A run is held here until all of its partitions were executed. After that only their streams
    /// hold it, so its memory is freed when they end.
    fn run_for(&self, partition: usize, context: &Arc<TaskContext>) -> Result<(Arc<Run>, usize)> {
        let mut current = self.current.lock();
        let mut in_memory = self.in_memory.lock();
        let mut now = match current.take() {
            Some(now) if now.executed.get(partition) == Some(&false) => now,
            _ => {
                in_memory.push(MetricsSet::new());
                let executed = vec![false; self.properties.partitioning.partition_count()];
                Current { run: Arc::new(Run::begin(&self.join, context, &self.metrics)?), executed }
            }
        };
        if let Some(executed) = now.executed.get_mut(partition) {
            *executed = true;
        }
        let run = Arc::clone(&now.run);
        if now.executed.contains(&false) {
            *current = Some(now);
        }
        Ok((run, in_memory.len() - 1))
    }
}

/// Displays a `HashJoinExec` as that displays itself.
struct Shown<'a>(&'a HashJoinExec, DisplayFormatType);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(self.1, f)
    }
}

impl DisplayAs for HybridHashJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = Shown(&self.join, format).to_string();
        f.write_str(&match shown.strip_prefix("HashJoinExec") {
            Some(rest) => format!("HybridHashJoinExec{rest}"),
            None => shown,
        })?;
        show_expected(self.expected_spill, f)
    }
}

impl ExecutionPlan for HybridHashJoinExec {
    fn name(&self) -> &str {
        "HybridHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut builder = self.join.builder();
        if options.children_properties == ChildrenPropertiesMode::Recompute {
            builder = builder.recompute_properties();
        }
        Self::over(builder.with_new_children(children)?.build()?)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::over(self.join.builder().reset_state().build()?)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (run, number) = self.run_for(partition, &context)?;
        let stream = run.execute(partition, &self.metrics);
        if let Some(metrics) = self.in_memory.lock().get_mut(number) {
            *metrics = run.metrics();
        }
        stream
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        for metrics in self.in_memory.lock().iter() {
            metrics.iter().for_each(|metric| all.push(Arc::clone(metric)));
        }
        Some(all)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.join.supports_limit_pushdown()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.join.cardinality_effect()
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().with_fetch(limit).build().ok()?;
        Self::over(join).ok()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let swapped = self.join.try_swapping_with_projection(projection)?;
        swapped.map(Self::in_place).transpose()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.join.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut propagation = self.join.handle_child_pushdown_result(phase, result, config)?;
        propagation.updated_node = propagation.updated_node.map(Self::in_place).transpose()?;
        Ok(propagation)
    }
}
