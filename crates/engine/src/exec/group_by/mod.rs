//! Two-phase group-by on S3 Select: phase 1 finds the groups; in phase 2, storage aggregates some
//! of them and the engine the others.

pub(crate) mod cases;
pub(crate) mod hybrid;
pub(crate) mod keys;
pub(crate) mod storage;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use pushdowndb_contract::{Error, Expr, Output, Result};
use tokio::sync::OnceCell;

use super::remote_scan::RemoteScanExec;
use crate::context::QueryContext;
use crate::error::to_datafusion;
use crate::plan::explanation::Explanation;
use crate::plan::partial_aggregate::PartialAggregate;
use crate::plan::placement::Choice;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::GroupByStrategy;
use crate::strategies::group_by::{self, Decision, GroupByScans, MAX_CASE_GROUPS, MAX_FREE_MERGE_GROUPS, Strategy};
use cases::CaseScan;

/// Operator that yields partial aggregate states, possibly several per group.
#[derive(Clone, Debug)]
pub(crate) struct GroupByExec {
    /// The partial aggregate over the scan, for rows that storage does not aggregate.
    engine: Arc<dyn ExecutionPlan>,
    rows: RemoteScanExec,
    wanted: PartialAggregate,
    decision: Decision,
    /// Plan of the second phase, made by the first and shared by all partitions.
    phases: Arc<OnceCell<Phases>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Plan of the second phase.
#[derive(Debug)]
struct Phases {
    cases: Vec<CaseScan>,
    /// Partial aggregate of the engine over the rows that storage does not aggregate; `None` if
    /// there are no such rows.
    engine: Option<Arc<dyn ExecutionPlan>>,
}

impl GroupByExec {
    /// Creates the operator. `engine` must be a partial aggregate over `rows`.
    pub(crate) fn new(
        engine: Arc<dyn ExecutionPlan>,
        rows: RemoteScanExec,
        wanted: PartialAggregate,
        decision: Decision,
    ) -> Self {
        // No scan of the second phase has more partitions than planned.
        let partitions = rows.plan().partitions.max(1);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&wanted.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { engine, rows, wanted, decision, phases: Arc::default(), properties: Arc::new(properties), metrics }
    }

    pub(crate) fn explanation(&self) -> &Explanation {
        &self.decision.explanation
    }

    async fn plan_phases(&self, query: &Arc<QueryContext>, context: &Arc<TaskContext>) -> Result<Phases> {
        let (asked, mut complete, seen) = match self.decision.strategy {
            Strategy::Storage => {
                let counted = storage::groups(&self.rows, &self.wanted, context).await?;
                let rows = counted.rows;
                match counted.groups.len() <= MAX_CASE_GROUPS {
                    true => (counted.groups, counted.complete, rows),
                    false => (hybrid::large(counted, &self.rows, &self.wanted), false, rows),
                }
            }
            _ => {
                let counted = hybrid::groups(&self.rows, &self.wanted, query, context).await?;
                let rows = counted.rows;
                (hybrid::large(counted, &self.rows, &self.wanted), false, rows)
            }
        };
        let (cases, others) = cases::case_scans(&self.rows, &self.wanted, &asked)?;
        complete &= others.is_empty();
        let in_storage: Vec<keys::Group> = cases.iter().flat_map(CaseScan::groups).cloned().collect();
        let engine = if complete { None } else { Some(self.engine_without(&in_storage)?) };
        query.meter.strategy(format!(
            "{}: group-by by {}: {} groups in storage by {} scans, {}, after {seen} rows",
            self.rows.plan().name,
            self.decision.strategy.name(),
            in_storage.len(),
            cases.len(),
            if engine.is_some() { "the others in the engine" } else { "no others" },
        ));
        Ok(Phases { cases, engine })
    }

    /// Returns the engine's partial aggregate over the rows outside of `groups`.
    fn engine_without(&self, groups: &[keys::Group]) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.rows.plan();
        let predicate = match (&plan.predicate, groups.is_empty()) {
            (predicate, true) => predicate.clone(),
            (None, false) => Some(keys::is_in_none(&self.wanted.groups, groups)),
            (Some(predicate), false) => Some(predicate.clone().and(keys::is_in_none(&self.wanted.groups, groups))),
        };
        let rows = self.rows.with_plan(ScanPlan { predicate, ..plan.clone() })?.without_note();
        with_scan(&self.engine, &rows).map_err(crate::error::from_datafusion)
    }

    /// Returns the state streams of `partition`, from storage and from the engine.
    fn states(
        &self,
        phases: &Phases,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> DfResult<Vec<SendableRecordBatchStream>> {
        let mut streams = Vec::new();
        for cases in &phases.cases {
            if partition >= cases.scan.properties().output_partitioning().partition_count() {
                continue;
            }
            let splits = cases.scan.execute(partition, Arc::clone(context))?;
            let cases = cases.clone();
            let states = splits.and_then(move |batch| {
                let states = cases.states(&batch).map_err(to_datafusion);
                async move { states }
            });
            streams.push(Box::pin(RecordBatchStreamAdapter::new(self.schema(), states)) as SendableRecordBatchStream);
        }
        if let Some(engine) = &phases.engine
            && partition < engine.output_partitioning().partition_count()
        {
            streams.push(engine.execute(partition, Arc::clone(context))?);
        }
        Ok(streams)
    }
}

/// Returns `plan` with its [`RemoteScanExec`] replaced by `scan`.
pub(crate) fn with_scan(plan: &Arc<dyn ExecutionPlan>, scan: &RemoteScanExec) -> DfResult<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_up(|node| {
        Ok(match node.is::<RemoteScanExec>() {
            true => Transformed::yes(Arc::new(scan.clone()) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}

impl DisplayAs for GroupByExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupByExec: {}, {}", display(&self.wanted, &self.rows), self.decision.explanation)
    }
}

impl ExecutionPlan for GroupByExec {
    fn name(&self) -> &str {
        "GroupByExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.engine]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Ok([engine]) = <[_; 1]>::try_from(children) else {
            return Err(DataFusionError::Internal("a group-by has one child".to_owned()));
        };
        Ok(Arc::new(Self { engine, ..Self::clone(&self) }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let query = context
            .session_config()
            .get_extension::<QueryContext>()
            .ok_or_else(|| DataFusionError::Internal("a group-by outside of a query".to_owned()))?;
        let this = self.clone();
        let states = async move {
            let phases = this.phases.get_or_try_init(|| this.plan_phases(&query, &context)).await;
            let phases = phases.map_err(|error: Error| to_datafusion(error))?;
            let streams = this.states(phases, partition, &context)?;
            Ok::<_, DataFusionError>(stream::select_all(streams))
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let states =
            stream::once(states).try_flatten().inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), states.boxed())))
    }
}

/// Alternatives to the wrapped scan, which yields the rows that a group-by reads.
pub(crate) struct Scans<'a>(pub(crate) &'a RemoteScanExec);

impl GroupByScans for Scans<'_> {
    fn filtered(&self) -> Result<Choice> {
        let rows = self.0.with_options(|options| group_by::fix_filter(options, Strategy::Filtered))?;
        Ok(rows.choice().clone())
    }

    fn cases_refused(&self, wanted: &PartialAggregate) -> Result<Option<String>> {
        cases::refusal(self.0, wanted)
    }
}

/// Returns a plain scan that replaces `rows` and yields the aggregate states of few groups, which
/// lets it skip decoding of pages or text. Returns `None` if the operator above should aggregate.
pub(crate) fn in_engine(rows: &RemoteScanExec, wanted: &PartialAggregate) -> Result<Option<RemoteScanExec>> {
    if rows.context().options.group_by != GroupByStrategy::Auto || !matches!(rows.choice(), Choice::Compute(_)) {
        return Ok(None);
    }
    let keys: Vec<Expr> = wanted.groups.iter().map(|key| key.expr.clone()).collect();
    if rows.cardinality().groups(&keys).is_none_or(|groups| groups > MAX_FREE_MERGE_GROUPS) {
        return Ok(None);
    }
    let plan = ScanPlan { aggregate: Some(wanted.clone()), ..rows.plan().clone() };
    rows.with_options(|options| options.group_by = GroupByStrategy::Compute)?.with_plan(plan).map(Some)
}

/// Formats keys, aggregates and filter for EXPLAIN.
pub(crate) fn display(wanted: &PartialAggregate, rows: &RemoteScanExec) -> String {
    let schema = &rows.fragment().schema;
    let keys: Vec<String> = wanted.groups.iter().map(|key| key.expr.display(schema).to_string()).collect();
    let calls: Vec<&str> = wanted.calls.iter().map(|call| call.name.as_str()).collect();
    let filter = match (&rows.fragment().predicate, &rows.fragment().output) {
        (Some(predicate), Output::Rows(_)) => predicate.display(schema).to_string(),
        _ => "none".to_owned(),
    };
    format!("groups=[{}], aggregates=[{}], filter=[{filter}]", keys.join(", "), calls.join(", "))
}
