//! Leaf operator of every plan: scans the objects of one table, plainly or by storage.
//!
//! [`RemoteScanExec`] collects what the optimizer pushes down (filters, a limit, aggregates) as a
//! [`pushdowndb_contract::Fragment`] over one object, and lets the strategies place it. The
//! placement changes the cost, never the rows.
//!
//! ```text
//! FilterExec a > 1              RemoteScanExec  filter: a > 1
//!   RemoteScanExec      becomes   (FilterExec is gone: the scan filters exactly, wherever it runs)
//! ```

pub(crate) mod dynamic_filter;
pub(crate) mod explain;
pub(crate) mod lookup;
pub(crate) mod operator;
pub(crate) mod phases;
pub(crate) mod placement;
pub(crate) mod sample;
pub(crate) mod share;
pub(crate) mod shared_scan;
pub(crate) mod workers;

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use pushdowndb_contract::{Fragment, Result};
use pushdowndb_cost::{Requests, Usage};
use pushdowndb_scan::ScanCaches;
use tokio::sync::OnceCell;

use super::scan_progress::ScanProgress;
use super::shared_rows::{SharedRows, SharedRowsReader};
use crate::catalog::DataObject;
use crate::cost::cardinality::Cardinality;
use crate::exec::scan_counters::ScanCounters;
use crate::plan::explanation::Explanation;
use crate::plan::partial_aggregate::PartialAggregate;
use crate::plan::placement::{Choice, PlacedScan, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::top_k::TopK;
use crate::settings::PushdownOptions;
use placement::Placement;

/// Scan of one table's objects.
#[derive(Clone, Debug)]
pub(crate) struct RemoteScanExec {
    pub(in crate::exec) plan: ScanPlan,
    pub(in crate::exec) context: ScanContext,
    pub(in crate::exec) decisions: Decisions,
    /// Computation that the scan runs on each object.
    pub(in crate::exec) fragment: Arc<Fragment>,
    /// Placement, decided on first use, at the latest by the rule `PlaceScans`. Clones share it,
    /// since their partitions divide the splits among them. A scan of another plan gets a new
    /// placement.
    placement: Arc<OnceLock<Placement>>,
    /// Scan that the next phase returned, shared by all partitions. It is set once the phase has
    /// run; the inner value is `None` if no row can match.
    next: Arc<OnceCell<Option<Arc<RemoteScanExec>>>>,
    pub(in crate::exec) schema: SchemaRef,
    pub(in crate::exec) properties: Arc<PlanProperties>,
    pub(in crate::exec) metrics: ExecutionPlanMetricsSet,
    /// Counters shared by all copies.
    pub(in crate::exec) counters: Arc<ScanCounters>,
    /// Progress of all partitions.
    pub(in crate::exec) progress: Arc<ScanProgress>,
    /// Caches of plain reads, shared by all partitions.
    pub(in crate::exec) caches: Arc<ScanCaches>,
    /// Whether the rows go to the operator above, rather than to a preparatory phase of a strategy.
    pub(in crate::exec) feeds_plan: bool,
    /// Rows that this scan shares with other scans of the query.
    pub(in crate::exec) shared_rows: Option<Arc<SharedRows>>,
    /// Rows of another scan that this scan reuses.
    pub(in crate::exec) reuse: Option<Reuse>,
}

/// Decisions of operators above a scan, for EXPLAIN.
#[derive(Clone, Debug, Default)]
pub(in crate::exec) struct Decisions {
    /// Decisions of joins.
    pub(in crate::exec) joins: Vec<Arc<Explanation>>,
    /// Decision of the aggregate or sort directly above.
    pub(in crate::exec) above: Option<Arc<Explanation>>,
    /// Reason why an operator above made the scan read plainly, unless a setting did.
    pub(in crate::exec) reads_plainly: Option<&'static str>,
}

/// Rows to reuse from another scan of the query, if that scan completes them.
#[derive(Clone, Debug)]
pub(crate) struct Reuse {
    pub(crate) rows: SharedRowsReader,
    pub(crate) rewrite: Rewrite,
}

/// Rewrite of another scan's rows into those of this one.
#[derive(Clone, Debug)]
pub(crate) enum Rewrite {
    /// The rows are identical.
    Same,
    /// The fragment is evaluated over the rows.
    By(Arc<Fragment>),
}

impl RemoteScanExec {
    /// Creates a scan of `plan` in `context`. It has at most as many partitions as pieces that its
    /// objects can be cut into.
    pub(crate) fn new(plan: ScanPlan, context: ScanContext) -> Result<Self> {
        let schema = plan.output_schema()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(placement::partitions(&plan, &context)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            fragment: Arc::new(plan.fragment()),
            placement: Arc::default(),
            next: Arc::default(),
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            counters: Arc::default(),
            progress: Arc::default(),
            caches: Arc::default(),
            feeds_plan: true,
            shared_rows: None,
            reuse: None,
            plan,
            context,
            decisions: Decisions::default(),
        })
    }

    pub(crate) fn placement(&self) -> &Placement {
        self.placement.get_or_init(|| Placement::of(&self.plan, &self.context, &self.fragment))
    }

    /// The same scan with another placement.
    pub(in crate::exec) fn with_placement(&self, placement: Placement) -> Self {
        Self { placement: Arc::new(OnceLock::from(placement)), next: Arc::default(), ..self.clone() }
    }

    /// The number of partitions. Some may turn out empty.
    pub(in crate::exec) fn partition_count(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    pub(crate) fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    pub(crate) fn context(&self) -> &ScanContext {
        &self.context
    }

    /// Returns a scan of another plan in another context, with the same decisions.
    fn replaced(&self, plan: ScanPlan, context: ScanContext) -> Result<Self> {
        Ok(Self { decisions: self.decisions.clone(), ..Self::new(plan, context)? })
    }

    /// Returns a scan of another plan in the same context, with the same decisions.
    pub(in crate::exec) fn planned(&self, plan: ScanPlan) -> Result<Self> {
        self.replaced(plan, self.context.clone())
    }

    /// Returns a scan of another plan with the decisions and counters of this one.
    pub(crate) fn with_plan(&self, plan: ScanPlan) -> Result<Self> {
        Ok(self.counting(self.planned(plan)?))
    }

    /// Returns the same scan with other options, to be placed anew.
    pub(crate) fn with_options(&self, edit: impl FnOnce(&mut PushdownOptions)) -> Result<Self> {
        let mut context = self.context.clone();
        edit(&mut context.options);
        Ok(self.counting(self.replaced(self.plan.clone(), context)?))
    }

    /// Returns a scan of another plan that can replace this one in the query plan. It has at most
    /// as many partitions, which operators above rely on.
    pub(crate) fn in_place(&self, plan: ScanPlan) -> Result<Self> {
        self.in_place_with(plan, self.context.clone())
    }

    /// [`Self::in_place`] in another context.
    pub(in crate::exec) fn in_place_with(&self, plan: ScanPlan, context: ScanContext) -> Result<Self> {
        self.replaced(ScanPlan { partitions: self.partition_count(), ..plan }, context)
    }

    /// Returns `scan` with the counters and metrics of this scan.
    pub(crate) fn counting(&self, scan: Self) -> Self {
        let (metrics, counters) = (self.metrics.clone(), Arc::clone(&self.counters));
        Self { metrics, counters, feeds_plan: self.feeds_plan, ..scan }
    }

    /// Returns the same scan as a preparatory phase: its rows go to a strategy, not to the operator
    /// above.
    pub(crate) fn first_phase(self) -> Self {
        Self { feeds_plan: false, ..self }
    }

    /// The counters that all copies of the scan share.
    pub(crate) fn shared_counters(&self) -> &Arc<ScanCounters> {
        &self.counters
    }

    pub(crate) fn counters(&self) -> &ScanCounters {
        &self.counters
    }

    /// Returns the computation that the scan runs on each object.
    pub(crate) fn fragment(&self) -> &Fragment {
        &self.fragment
    }

    /// Estimated cardinality.
    pub(crate) fn cardinality(&self) -> Cardinality<'_> {
        Cardinality::of(&self.plan, &self.context, &self.fragment)
    }

    pub(crate) fn choice(&self) -> &Choice {
        &self.placement().choice
    }

    /// Returns whether the rows are found through an index.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.placement().index.lookup().is_some()
    }

    /// Returns whether the scan yields all rows of its table.
    pub(crate) fn is_whole(&self) -> bool {
        let ScanPlan { predicate, limit, aggregate, top_k, sample, .. } = &self.plan;
        predicate.is_none() && limit.is_none() && aggregate.is_none() && top_k.is_none() && sample.is_none()
    }

    /// Returns a view of the scan for the strategies of operators above.
    pub(crate) fn placed(&self) -> PlacedScan<'_> {
        PlacedScan {
            plan: &self.plan,
            context: &self.context,
            fragment: &self.fragment,
            choice: &self.placement().choice,
            capability: &self.placement().capability,
            splits: self.splits(),
        }
    }

    /// The number of splits.
    pub(crate) fn splits(&self) -> u64 {
        self.placement().partitions.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// Returns the same scan with a partial aggregate as its output. Storage computes it if it is
    /// exact there, otherwise the engine does.
    pub(crate) fn with_aggregate(&self, aggregate: PartialAggregate) -> Result<Self> {
        Ok(self.planned(ScanPlan { aggregate: Some(aggregate), ..self.plan.clone() })?.without_note())
    }

    /// Returns the same scan with the decision of the operator above, for EXPLAIN.
    pub(crate) fn with_note(&self, note: Option<Explanation>) -> Self {
        let mut scan = self.clone();
        scan.decisions.above = note.map(Arc::new);
        scan
    }

    /// The same scan without the decision of the operator above.
    pub(in crate::exec) fn without_note(self) -> Self {
        Self { decisions: Decisions { above: None, ..self.decisions }, ..self }
    }

    /// Returns the same scan with `why`, the reason why an operator above made it read plainly, for
    /// EXPLAIN.
    pub(crate) fn reading_plainly(mut self, why: &'static str) -> Self {
        self.decisions.reads_plainly = Some(why);
        self
    }

    /// Returns the same scan with `top_k` pushed into it, if storage evaluates it or a sample can
    /// bound it. Otherwise only the explanation and the fragment of plain reads change. Returns
    /// `None` if the scan aggregates, has a limit or uses an index.
    pub(crate) fn with_top_k(&self, top_k: TopK) -> Result<Option<Self>> {
        if self.plan.aggregate.is_some() || self.plan.limit.is_some() || self.is_looked_up() {
            return Ok(None);
        }
        let scan = self.in_place(ScanPlan { top_k: Some(top_k), ..self.plan.clone() })?;
        let Placement { sampling, live_top_k, top_k_fragment, note, .. } = scan.placement();
        if sampling.is_some() || live_top_k.is_some() {
            return Ok(Some(scan));
        }
        // Unchanged but for the reason and the fragment of plain reads.
        let (top_k_fragment, note) = (top_k_fragment.clone(), note.clone());
        let same = self.with_placement(Placement { top_k_fragment, note, ..self.placement().clone() });
        Ok(Some(Self { caches: Arc::default(), ..same }))
    }

    fn stream(
        &self,
        rows: impl Future<Output = DfResult<SendableRecordBatchStream>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let rows = futures::stream::once(rows).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed()))
    }

    /// Returns the same scan, ready for its next run, with new work-stealing queues.
    fn reset(&self) -> Self {
        let placement = self.placement();
        let work_stealing = placement.work_stealing.as_ref().map(|_| Arc::default());
        let scan = self.with_placement(Placement { work_stealing, ..placement.clone() });
        let next = match self.next.get() {
            Some(next) => OnceCell::new_with(Some(next.as_ref().map(|next| Arc::new(next.reset())))),
            None => OnceCell::new(),
        };
        Self { next: Arc::new(next), ..scan }
    }

    pub(crate) fn can_be_cut(&self, object: &DataObject) -> bool {
        placement::can_be_cut(&self.plan, &self.placement().choice, &self.placement().capability, object)
    }

    /// Estimates the bytes and requests of the scan.
    pub(crate) fn estimate(&self) -> Usage {
        if self.reuses() {
            return Usage::default();
        }
        let bytes = self.bytes();
        let pushed = matches!(self.placement().choice, Choice::Storage { .. });
        let by_fragments = matches!(self.placement().choice, Choice::Storage { route: Route::Fragment, .. });
        let cardinality = self.cardinality();
        let network = if pushed { self.sent_bytes() } else { cardinality.read_bytes() };
        let requests = if by_fragments { self.fragment_requests() } else { self.splits() };
        let local = self.context.is_local();
        if let Some(lookup) = self.placement().index.lookup() {
            let count = lookup.estimate.requests;
            let requests = match self.placement().index.by_node() {
                Some(_) => Requests { fragment: count, ..Requests::default() },
                None => Requests { get: count, ..Requests::default() },
            };
            let bytes_network = if local { 0 } else { lookup.estimate.bytes };
            return Usage { bytes_network, requests, ..Usage::default() };
        }
        Usage {
            bytes_network: if local { 0 } else { network },
            bytes_scanned: if pushed { bytes } else { 0 },
            bytes_returned: if pushed { network } else { 0 },
            bytes_scanned_by_fragments: if by_fragments { bytes } else { 0 },
            bytes_returned_by_fragments: if by_fragments { network } else { 0 },
            requests: match (local, pushed) {
                (true, _) => Requests::default(),
                (_, true) if by_fragments => Requests { fragment: requests, ..Requests::default() },
                (_, true) => Requests { select: requests, ..Requests::default() },
                (_, false) => Requests { get: requests, ..Requests::default() },
            },
            ..Usage::default()
        }
    }

    /// Estimates the bytes of the rows that storage sends. A limit or a top-k caps the rows of each
    /// split.
    fn sent_bytes(&self) -> u64 {
        let cardinality = self.cardinality();
        let k = self.plan.top_k.as_ref().filter(|_| self.placement().live_top_k.is_some()).map(|top_k| top_k.k);
        let Some(most) = self.plan.limit.or(k) else { return cardinality.sent_bytes() };
        let share = most as f64 * self.splits() as f64 / cardinality.rows().max(1.0);
        (cardinality.sent_bytes() as f64 * share.min(1.0)) as u64
    }

    /// Bytes of all objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.plan.bytes()
    }
}
