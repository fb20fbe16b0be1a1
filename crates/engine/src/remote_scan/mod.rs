//! The leaf of every plan: one table's objects, scanned plainly or by storage.
//!
//! [`RemoteScanExec`] collects what the optimizer pushes down (filters, a limit, aggregates) as a
//! [`pushdown::Fragment`] over one object, and asks the strategies where to run it. Whatever they answer,
//! the rows are those of the fragment: storage only changes what it costs.
//!
//! ```text
//! FilterExec a > 1              RemoteScanExec  filter: a > 1
//!   RemoteScanExec      becomes   (FilterExec is gone: the scan filters exactly, wherever it runs)
//! ```

mod balance;
pub(crate) mod estimate;
mod fragment;
mod keyed;
mod lookup;
mod metrics;
mod operator;
mod partial;
mod ranges;
mod reuse;
mod row_groups;
mod run;
mod sample;
mod scanned;
mod select;
mod shares;
mod spec;
mod splits;
mod story;
mod task;
mod wire;

pub(crate) use estimate::Figures;
pub(crate) use fragment::count_requests;
pub(crate) use partial::{PartialAggregate, State};
pub(crate) use reuse::Derivation;
pub(crate) use sample::{PIECES, among};
pub(crate) use spec::{GROUP_BYTES, ScanSpec};

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use pushdown::{Capability, Expr, Format, Fragment, Result};
use pushdowndb_cost::{Requests, Usage};
use pushdowndb_scan::Learned;
use tokio::sync::OnceCell;

use crate::error::to_datafusion;
use crate::kept_rows::KeptRows;
use crate::profile::Tally;
use crate::query::QueryContext;
use crate::strategies::decision::Story;
use crate::strategies::filter::{Choice, Route};
use crate::strategies::index::Verdict;
use crate::strategies::top_k::{LiveTopK, Plan, Sample, TopK};
use crate::strategies::{aggregate, filter, group_by, index, top_k};
use crate::table::DataObject;
use balance::Paces;
use lookup::IndexState;
use reuse::Reuse;
use row_groups::RowGroups;
use scanned::Scanned;
use shares::Shares;
use splits::ScanSplit;

/// Scans one table's objects.
#[derive(Clone, Debug)]
pub(crate) struct RemoteScanExec {
    spec: ScanSpec,
    /// What the scan means.
    fragment: Arc<Fragment>,
    /// Where it runs.
    choice: Choice,
    /// Which rows an index finds instead.
    index: IndexState,
    capability: Capability,
    partitions: Vec<Vec<ScanSplit>>,
    /// What is left of them while they run, where those that are done go on with the splits of others.
    shares: Option<Arc<Shares>>,
    sampling: Option<Sampling>,
    /// Where storage sends only the first rows: what all partitions know of these.
    live: Option<Arc<LiveTopK>>,
    /// What the scan means where only the first rows count, for plain reads.
    first: Option<Arc<Fragment>>,
    /// The scan with the keys of its key filters; all partitions share it.
    keyed: Arc<OnceCell<Option<Arc<RemoteScanExec>>>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What it did so far; all copies of it count here.
    tally: Arc<Tally>,
    /// Of all its partitions.
    scanned: Arc<Scanned>,
    /// What plain reads have learned, of all its partitions, too.
    learned: Arc<Learned>,
    /// Whether its rows are for the plan above, and not for what a strategy learns first.
    delivers: bool,
    /// Where its rows are kept, and where it finds those of another scan.
    kept: Option<Arc<KeptRows>>,
    reuse: Option<Reuse>,
}

/// The first phase of a top-k, and what it found out; all partitions share it.
#[derive(Clone, Debug)]
struct Sampling {
    top_k: TopK,
    sample: Sample,
    bound: Arc<OnceCell<Option<Expr>>>,
}

impl RemoteScanExec {
    pub(crate) fn new(mut spec: ScanSpec) -> Result<Self> {
        let fragment = spec.fragment();
        let capability = spec.backend.capability(spec.table.backend);
        let Chosen { choice, sampling, live, first } = choose(&mut spec, &fragment, &capability);
        let index = find_index(&spec, &fragment, &choice, &capability)?;
        let (partitions, shares) = deal(&spec, &fragment, &choice, &capability, &index, live.is_some());
        let schema = spec.output_schema()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            fragment: Arc::new(fragment),
            choice,
            index,
            capability,
            partitions,
            shares,
            sampling,
            live,
            first,
            keyed: Arc::default(),
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            tally: Arc::default(),
            scanned: Arc::default(),
            learned: Arc::default(),
            delivers: true,
            kept: None,
            reuse: None,
            spec,
        })
    }

    pub(crate) fn spec(&self) -> &ScanSpec {
        &self.spec
    }

    /// The scan of another spec that counts as this one.
    pub(crate) fn with_spec(&self, spec: ScanSpec) -> Result<Self> {
        Ok(self.counting(Self::new(spec)?))
    }

    /// A scan in the place of this one. Operators above were planned by how many partitions it has: there are no more of them.
    fn in_place(&self, spec: ScanSpec) -> Result<Self> {
        Self::new(ScanSpec { partitions: self.partitions.len(), ..spec })
    }

    /// Another scan that counts as this one.
    fn counting(&self, scan: Self) -> Self {
        let (metrics, tally) = (self.metrics.clone(), Arc::clone(&self.tally));
        Self { metrics, tally, delivers: self.delivers, ..scan }
    }

    /// The same scan as a first phase: a strategy reads its rows, not the plan above.
    pub(crate) fn first_phase(self) -> Self {
        Self { delivers: false, ..self }
    }

    /// What it did so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the scan means, over one object.
    pub(crate) fn fragment(&self) -> &Fragment {
        &self.fragment
    }

    /// What it will probably find.
    pub(crate) fn figures(&self) -> Figures<'_> {
        Figures::of(&self.spec, &self.fragment)
    }

    /// Where it runs.
    pub(crate) fn choice(&self) -> &Choice {
        &self.choice
    }

    pub(crate) fn capability(&self) -> &Capability {
        &self.capability
    }

    /// Whether an index finds its rows.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.index.lookup().is_some()
    }

    /// In how many pieces it reads its objects.
    pub(crate) fn splits(&self) -> u64 {
        self.partitions.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// The same scan with partial aggregates for output: of storage if that computes them exactly, or of the engine.
    pub(crate) fn with_aggregate(&self, aggregate: PartialAggregate) -> Result<Self> {
        Self::new(ScanSpec { aggregate: Some(aggregate), note: None, ..self.spec.clone() })
    }

    /// The same scan with what the operator above it chose, for EXPLAIN.
    pub(crate) fn with_note(&self, note: Option<Story>) -> Self {
        let mut scan = self.clone();
        scan.spec.note = note.map(Arc::new);
        scan
    }

    /// The same scan leaving out what cannot be among the first k, if storage orders rows or a sample can tell it what
    /// that is.
    pub(crate) fn with_top_k(&self, top_k: TopK) -> Result<Option<Self>> {
        if self.spec.aggregate.is_some() || self.spec.limit.is_some() || self.index.lookup().is_some() {
            return Ok(None);
        }
        let scan = self.in_place(ScanSpec { top_k: Some(top_k), ..self.spec.clone() })?;
        if scan.sampling.is_some() || scan.live.is_some() {
            return Ok(Some(scan));
        }
        // As it was, but for the reason and what plain reads leave out.
        let spec = ScanSpec { note: scan.spec.note, ..self.spec.clone() };
        Ok(Some(Self { spec, first: scan.first, learned: Arc::default(), ..self.clone() }))
    }

    /// The second phase of a top-k: the scan without its top-k, up to the bound.
    async fn bounded(&self, sampling: &Sampling, query: &Arc<QueryContext>, context: &TaskContext) -> Result<Self> {
        let learn = || self.learn_bound(&sampling.top_k, sampling.sample, query, context);
        let bound = sampling.bound.get_or_try_init(learn).await?.clone();
        let predicate = filter::both(self.spec.predicate.clone(), bound);
        Ok(self.counting(self.in_place(ScanSpec { predicate, top_k: None, ..self.spec.clone() })?))
    }

    /// One partition of the scan that this one becomes once something was learned; `None` if that has no rows.
    fn execute_learned(
        &self,
        learned: impl Future<Output = Result<Option<Arc<Self>>>> + Send + 'static,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = async move {
            match learned.await.map_err(to_datafusion)? {
                // As many partitions as promised, or fewer.
                Some(scan) if partition < scan.partitions.len() => scan.execute(partition, context),
                _ => Ok(Box::pin(EmptyRecordBatchStream::new(schema)) as SendableRecordBatchStream),
            }
        };
        let rows = futures::stream::once(rows).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed()))
    }

    fn can_be_cut(&self, object: &DataObject) -> bool {
        can_be_cut(&self.spec, &self.choice, &self.capability, object)
    }

    /// What the scan will probably use, before it runs.
    pub(crate) fn estimate(&self) -> Usage {
        if self.reuses() {
            return Usage::default();
        }
        let bytes = self.bytes();
        let pushed = matches!(self.choice, Choice::Storage { .. });
        let by_fragments = matches!(self.choice, Choice::Storage { route: Route::Fragment, .. });
        let figures = self.figures();
        let network = if pushed { self.sent_bytes() } else { figures.read_bytes() };
        let requests = self.splits();
        let local = self.spec.is_local();
        if let Some(lookup) = self.index.lookup() {
            let count = lookup.estimate.requests;
            let requests = match self.index.by_node() {
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

    /// Bytes of the rows that storage will probably send: of each split, where there is a limit, no more rows than that.
    fn sent_bytes(&self) -> u64 {
        let figures = self.figures();
        let first = self.spec.top_k.as_ref().filter(|_| self.live.is_some()).map(|top_k| top_k.k);
        let Some(most) = self.spec.limit.or(first) else { return figures.sent_bytes() };
        let share = most as f64 * self.splits() as f64 / figures.rows().max(1.0);
        (figures.sent_bytes() as f64 * share.min(1.0)) as u64
    }

    /// Of all its objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.spec.objects.iter().map(|object| object.size).sum()
    }
}

/// Where a scan runs.
struct Chosen {
    choice: Choice,
    sampling: Option<Sampling>,
    live: Option<Arc<LiveTopK>>,
    first: Option<Arc<Fragment>>,
}

/// Chooses that, and leaves a note of the reasons where only the first rows count.
fn choose(spec: &mut ScanSpec, fragment: &Fragment, capability: &Capability) -> Chosen {
    let mut choice = match &spec.aggregate {
        Some(aggregate) if !aggregate.groups.is_empty() => group_by::choose_states(fragment, capability, &spec.options),
        Some(_) => aggregate::choose(fragment, capability, &spec.options),
        None => filter::choose(fragment, capability, &spec.options),
    };
    choice = filter::unless_plain_is_better(choice, spec, fragment);
    let (mut sampling, mut live, mut first) = (None, None, None);
    if let Some(top_k) = spec.top_k.clone() {
        first = top_k::first_rows(&top_k, fragment).map(Arc::new);
        let decision = top_k::choose(&top_k, spec, fragment, &choice, capability);
        spec.note = Some(Arc::new(decision.story));
        match decision.plan {
            Some(Plan::Sample(sample)) => {
                sampling = Some(Sampling { top_k, sample, bound: Arc::default() });
            }
            Some(Plan::Storage(request)) => {
                choice = Choice::Storage { request, exact: true, route: Route::Fragment };
                live = Some(Arc::new(LiveTopK::new(&top_k)));
            }
            None => {}
        }
    }
    Chosen { choice, sampling, live, first }
}

/// The indexes that may find the rows.
fn find_index(spec: &ScanSpec, fragment: &Fragment, choice: &Choice, capability: &Capability) -> Result<IndexState> {
    // An index is read by the place of its column, of which the node knows the object's.
    let by_node = lookup::is_left_to_node(choice, capability)
        && spec.objects.iter().all(|object| object.columns.is_none())
        && spec.indexes.iter().all(|index| index.home.is_on(&spec.backend));
    let verdict = match (&spec.aggregate, &spec.top_k) {
        (None, None) => index::choose(spec, fragment, choice, by_node)?,
        _ => Verdict::None,
    };
    Ok(IndexState::new(verdict, by_node))
}

/// The splits of each partition, and what partitions share while they run; whether storage gives `first_rows` alone.
fn deal(
    spec: &ScanSpec,
    fragment: &Fragment,
    choice: &Choice,
    capability: &Capability,
    index: &IndexState,
    first_rows: bool,
) -> (Vec<Vec<ScanSplit>>, Option<Arc<Shares>>) {
    let split_bytes = match choice {
        Choice::Compute(_) => None,
        // What is returned once per split is asked of few splits.
        Choice::Storage { route: Route::Fragment, .. } if first_rows => None,
        Choice::Storage { route: route @ Route::Fragment, .. } if spec.aggregate.is_some() => {
            shared_piece_bytes(spec, fragment, *route)
        }
        Choice::Storage { .. } => Some(spec.options.split_bytes),
    };
    let covered = index.covered(&spec.objects);
    let splittable =
        |object: &DataObject| !covered.contains(&object.path) && can_be_cut(spec, choice, capability, object);
    let mut partitions = splits::deal(&spec.objects, splittable, split_bytes, spec.partitions);
    if let Some(lookup) = index.by_node() {
        // As few requests as can be.
        partitions = splits::gathered(partitions, |split| lookup.is_of(split.object));
    }
    let is_shared = matches!(choice, Choice::Compute(_)) && shares::is_worth_it(spec, fragment, partitions.len());
    let shares = is_shared.then(Arc::<Shares>::default);
    if is_shared {
        let sharing = partitions.len();
        let groups = |object: &DataObject| RowGroups::known(spec, object, sharing);
        partitions = shares::tapered(partitions, &spec.objects, splittable, groups);
    }
    (partitions, shares)
}

/// The size of the pieces of an aggregate, if storage and plain reads are to share it.
fn shared_piece_bytes(spec: &ScanSpec, fragment: &Fragment, route: Route) -> Option<u64> {
    let bytes = spec.objects.iter().map(|object| object.size).sum();
    Paces::of(spec, fragment, route)?.piece_bytes(bytes, fragment.format == Format::Parquet)
}

/// Whether ranges of the object can be scanned on their own, where the scan runs.
fn can_be_cut(spec: &ScanSpec, choice: &Choice, capability: &Capability, object: &DataObject) -> bool {
    let ranges = match (choice, &capability.select) {
        (Choice::Storage { route: Route::Select, .. }, Some(dialect)) => dialect.scan_range,
        _ => true,
    };
    ranges && spec.table.format_of(object).is_splittable()
}
