//! A group-by in two phases by S3 Select: learn groups, then ask storage for them and group other rows here.

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
use pushdown::{Error, Result};
use tokio::sync::OnceCell;

use super::cases::{self, CaseScan};
use super::{Decision, Strategy, hybrid, keys, storage};
use crate::error::to_datafusion;
use crate::query::QueryContext;
use crate::remote_scan::{PartialAggregate, RemoteScanExec, ScanSpec};
use crate::strategies::decision::Story;

/// Yields partial states of groups: what `AggregateExec Partial` over the scan would yield, though perhaps several
/// states of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupByExec {
    /// The partial aggregate over the scan, which runs over the rows that storage does not aggregate.
    engine: Arc<dyn ExecutionPlan>,
    rows: RemoteScanExec,
    wanted: PartialAggregate,
    decision: Decision,
    /// What the first phase found out; all partitions share it.
    phases: Arc<OnceCell<Phases>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The second phase.
#[derive(Debug)]
struct Phases {
    cases: Vec<CaseScan>,
    /// The engine's part, over the other rows; `None` if there are none.
    engine: Option<Arc<dyn ExecutionPlan>>,
}

impl GroupByExec {
    /// `engine` is a partial aggregate over `rows`.
    pub(crate) fn new(
        engine: Arc<dyn ExecutionPlan>,
        rows: RemoteScanExec,
        wanted: PartialAggregate,
        decision: Decision,
    ) -> Self {
        // Both kinds of scan deal their splits to no more partitions than the plan wants.
        let partitions = rows.spec().partitions.max(1);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&wanted.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { engine, rows, wanted, decision, phases: Arc::default(), properties: Arc::new(properties), metrics }
    }

    /// Why it was chosen.
    pub(crate) fn story(&self) -> &Story {
        &self.decision.story
    }

    async fn learn(&self, query: &Arc<QueryContext>, context: &Arc<TaskContext>) -> Result<Phases> {
        let (asked, mut complete, seen) = match self.decision.strategy {
            Strategy::Storage => {
                let seen = storage::groups(&self.rows, &self.wanted, context).await?;
                let rows = seen.rows;
                match seen.groups.len() <= storage::MOST_GROUPS {
                    true => (seen.groups, seen.complete, rows),
                    false => (hybrid::large(seen, &self.rows, &self.wanted), false, rows),
                }
            }
            _ => {
                let seen = hybrid::groups(&self.rows, &self.wanted, query, context).await?;
                let rows = seen.rows;
                (hybrid::large(seen, &self.rows, &self.wanted), false, rows)
            }
        };
        let (cases, others) = cases::case_scans(&self.rows, &self.wanted, &asked)?;
        complete &= others.is_empty();
        let in_storage: Vec<keys::Group> = cases.iter().flat_map(CaseScan::groups).cloned().collect();
        let engine = if complete { None } else { Some(self.engine_without(&in_storage)?) };
        query.meter.strategy(format!(
            "{}: group-by by {}: {} groups in storage by {} scans, {}, after {seen} rows",
            self.rows.spec().name,
            self.decision.strategy.name(),
            in_storage.len(),
            cases.len(),
            if engine.is_some() { "the others in the engine" } else { "no others" },
        ));
        Ok(Phases { cases, engine })
    }

    /// The engine's part over the rows of all groups but these.
    fn engine_without(&self, groups: &[keys::Group]) -> Result<Arc<dyn ExecutionPlan>> {
        let spec = self.rows.spec();
        let predicate = match (&spec.predicate, groups.is_empty()) {
            (predicate, true) => predicate.clone(),
            (None, false) => Some(keys::is_in_none(&self.wanted.groups, groups)),
            (Some(predicate), false) => Some(predicate.clone().and(keys::is_in_none(&self.wanted.groups, groups))),
        };
        let rows = self.rows.with_spec(ScanSpec { predicate, note: None, ..spec.clone() })?;
        with_scan(&self.engine, &rows).map_err(crate::error::from_datafusion)
    }

    /// The states of one partition, from both sides.
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

/// The plan over another scan.
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
        write!(f, "GroupByExec: {}, {}", super::display(&self.wanted, &self.rows), self.decision.story)
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
            let phases = this.phases.get_or_try_init(|| this.learn(&query, &context)).await;
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
