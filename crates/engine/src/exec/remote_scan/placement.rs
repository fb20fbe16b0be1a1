//! Placement of a scan: its route, its index, and the splits of each partition.

use std::sync::Arc;

use pushdowndb_contract::{Capability, Format, Fragment, Profile};
use pushdowndb_http::reads::PART_BYTES;

use crate::catalog::DataObject;
use crate::cost::plain_reads::PlainReads;
use crate::exec::adaptive::Throughput;
use crate::exec::index_state::{self, IndexState};
use crate::exec::row_groups::RowGroups;
use crate::exec::work_queue::{self, WorkStealing};
use crate::plan::explanation::Explanation;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::split_sample::SplitSample;
use crate::plan::splits::{self, MIN_RANGE_BYTES, ScanSplit};
use crate::plan::top_k::TopK;
use crate::strategies::index::IndexChoice;
use crate::strategies::top_k::{LiveTopK, Plan, Sample};
use crate::strategies::{aggregate, filter, group_by, index, top_k};

/// Reason for reading a small table plainly, for EXPLAIN.
const KEPT: &str = "small, read once and kept";

/// Placement of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) choice: Choice,
    /// Index look-up that replaces the scan, if any.
    pub(crate) index: IndexState,
    pub(crate) capability: Capability,
    /// Splits of each partition.
    pub(crate) partitions: Vec<Vec<ScanSplit>>,
    /// Work-stealing queue shared by the partitions.
    pub(crate) work_stealing: Option<Arc<WorkStealing>>,
    pub(crate) sampling: Option<Sampling>,
    /// How many splits are read plainly at a time; `None` if each partition reads one after the
    /// other.
    pub(crate) plain_reads: Option<PlainReads>,
    /// Threshold of a top-k evaluated by storage, shared by the partitions.
    pub(crate) live_top_k: Option<Arc<LiveTopK>>,
    /// Fragment that plain reads evaluate for a top-k.
    pub(crate) top_k_fragment: Option<Arc<Fragment>>,
    /// Decision about a top-k, for EXPLAIN.
    pub(crate) note: Option<Arc<Explanation>>,
}

/// Sample from which a bound on the result of a top-k is derived.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(crate) top_k: TopK,
    pub(crate) sample: Sample,
}

impl Placement {
    /// Decides the placement of a scan of `plan`, which runs `fragment` on each object.
    pub(super) fn of(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment) -> Self {
        let capability = context.capability(plan);
        let mut choice = match &plan.aggregate {
            Some(aggregate) if !aggregate.groups.is_empty() => {
                group_by::choose_states(fragment, &capability, &context.options)
            }
            Some(_) => aggregate::choose(fragment, &capability, &context.options),
            None => filter::choose(fragment, &capability, &context.options),
        };
        choice = match context.share.as_ref().and_then(|share| share.is_pushed) {
            Some(true) => choice,
            Some(false) => Choice::Compute("plain reads cost less".to_owned()),
            None if context.keeps(plan) => Choice::Compute(KEPT.to_owned()),
            None => filter::unless_plain_is_better(choice, plan, context, fragment),
        };
        let is_cut = |object: &DataObject| {
            can_be_cut(plan, &choice, &capability, object) || !plan.table.format_of(object).is_splittable()
        };
        if plan.sample.is_some() && !plan.objects.iter().all(is_cut) {
            choice = Choice::Compute("a sample takes ranges of objects, and this server's S3 Select none".to_owned());
        }
        let (mut sampling, mut live_top_k, mut top_k_fragment, mut note) = (None, None, None, None);
        // A sample has splits of its own.
        if let Some(top_k) = plan.top_k.clone().filter(|_| plan.sample.is_none()) {
            top_k_fragment = top_k::first_rows(&top_k, fragment).map(Arc::new);
            // A kept table is read plainly, so it is not sampled by storage either.
            let able = if context.keeps(plan) { Profile::Plain.capability() } else { capability.clone() };
            let decision = top_k::choose(&top_k, plan, context, fragment, &choice, &able);
            note = Some(Arc::new(decision.explanation));
            match decision.plan {
                Some(Plan::Sample(sample)) => {
                    sampling = Some(Sampling { top_k, sample });
                }
                Some(Plan::Storage(request)) => {
                    choice = Choice::Storage { request, exact: true, route: Route::Fragment };
                    live_top_k = Some(Arc::new(LiveTopK::new(&top_k)));
                }
                None => {}
            }
        }
        let index = find_index(plan, context, fragment, &choice, &capability);
        let plain_reads = match &choice {
            Choice::Compute(_) => PlainReads::of(plan, context, fragment),
            Choice::Storage { .. } => None,
        };
        let split_bytes = split_bytes(plan, context, fragment, &choice, plain_reads, live_top_k.is_some());
        let (partitions, work_stealing) = match (plan.sample, &context.share) {
            (Some(sample), None) => (sample_splits(sample, plan, self::partitions(plan, context)), None),
            _ => assign_splits(plan, context, fragment, &choice, &capability, &index, split_bytes),
        };
        Self {
            choice,
            index,
            capability,
            partitions,
            work_stealing,
            sampling,
            plain_reads,
            live_top_k,
            top_k_fragment,
            note,
        }
    }
}

impl Placement {
    /// Deals the splits of the scan to `shares` processes with `partitions` partitions each.
    /// Returns the splits of each process.
    pub(super) fn shared_out(
        &self,
        (plan, context, fragment): (&ScanPlan, &ScanContext, &Fragment),
        shares: usize,
        partitions: usize,
    ) -> Vec<Vec<ScanSplit>> {
        let all = partitions.saturating_mul(shares);
        let dealt = match plan.sample {
            Some(sample) => sample_splits(sample, plan, all),
            None => {
                let (choice, first_rows) = (&self.choice, self.live_top_k.is_some());
                let bytes = split_bytes(plan, context, fragment, choice, self.plain_reads, first_rows);
                let splittable = |object: &DataObject| can_be_cut(plan, choice, &self.capability, object);
                splits::assign_splits(&plan.objects, splittable, bytes, all)
            }
        };
        let mut shared = vec![Vec::new(); shares.max(1)];
        for (place, splits) in dealt.into_iter().enumerate() {
            let share = place % shared.len();
            shared[share].extend(splits);
        }
        shared
    }
}

/// Returns the number of partitions of a scan of `plan`, which does not depend on its placement.
pub(super) fn partitions(plan: &ScanPlan, context: &ScanContext) -> usize {
    if let Some(share) = &context.share {
        return share.partitions;
    }
    let splittable = |object: &DataObject| plan.table.format_of(object).is_splittable();
    splits::assign_splits(&plan.objects, splittable, None, plan.partitions).len()
}

/// Returns the splits of a sample of the objects, for at most `partitions` partitions.
fn sample_splits(sample: SplitSample, plan: &ScanPlan, partitions: usize) -> Vec<Vec<ScanSplit>> {
    sample.splits(&plan.objects, |object| plan.table.format_of(object).is_splittable(), partitions)
}

/// Decides whether to find the rows through indexes.
fn find_index(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    choice: &Choice,
    capability: &Capability,
) -> IndexState {
    // A node identifies an indexed column by its position, which must be the same in all objects.
    let by_node = index_state::is_left_to_node(choice, capability)
        && plan.objects.iter().all(|object| object.columns.is_none())
        && context.indexes.iter().all(|index| index.location.is_on(&context.backend));
    let verdict = match (&plan.aggregate, &plan.top_k) {
        _ if plan.sample.is_some() => IndexChoice::None,
        (None, None) => index::choose(plan, context, fragment, choice, by_node)
            .unwrap_or_else(|error| IndexChoice::Refuse(error.to_string())),
        _ => IndexChoice::None,
    };
    IndexState::new(verdict, by_node)
}

/// Returns the size of a split in bytes; `None` means as few splits as keep all partitions busy.
/// `first_rows` is whether storage evaluates a top-k.
fn split_bytes(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    choice: &Choice,
    plain_reads: Option<PlainReads>,
    first_rows: bool,
) -> Option<u64> {
    match choice {
        Choice::Compute(_) => plain_reads.filter(|_| plan.limit.is_none()).map(|_| PART_BYTES),
        Choice::Storage { .. } => pushed_bytes(plan, context, fragment, choice, first_rows),
    }
}

/// Returns the size of a split that storage scans, in bytes; `None` means as few splits as keep all
/// partitions busy. `first_rows` is whether storage evaluates a top-k.
fn pushed_bytes(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    choice: &Choice,
    first_rows: bool,
) -> Option<u64> {
    let bytes = match choice {
        // Each split returns its own first rows, so few splits are best.
        Choice::Storage { route: Route::Fragment, .. } if first_rows => None,
        Choice::Storage { route: route @ Route::Fragment, .. } if plan.aggregate.is_some() => {
            shared_piece_bytes(plan, context, fragment, *route)
        }
        _ => Some(context.options.split_bytes),
    };
    bytes.map(|bytes| bytes.max(MIN_RANGE_BYTES))
}

/// Cuts the objects into splits of about `split_bytes` bytes and assigns them to partitions. Also
/// returns the work-stealing state, if partitions steal.
fn assign_splits(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    choice: &Choice,
    capability: &Capability,
    index: &IndexState,
    split_bytes: Option<u64>,
) -> (Vec<Vec<ScanSplit>>, Option<Arc<WorkStealing>>) {
    if let Some(share) = &context.share {
        let dealt = splits::dealt(&plan.objects, share.splits.clone(), share.partitions);
        let is_shared =
            matches!(choice, Choice::Compute(_)) && work_queue::is_worth_it(plan, context, fragment, dealt.len());
        return (dealt, is_shared.then(Arc::<WorkStealing>::default));
    }
    let covered = index.covered(&plan.objects);
    let splittable =
        |object: &DataObject| !covered.contains(&object.path) && can_be_cut(plan, choice, capability, object);
    // At most the planned partitions: operators above execute no others.
    let most = self::partitions(plan, context);
    let mut partitions = splits::assign_splits(&plan.objects, splittable, split_bytes, most);
    if let Some(lookup) = index.by_node() {
        // Gathers look-ups into few requests.
        partitions = splits::gathered(partitions, |split| lookup.covers(split.object));
    }
    let is_shared =
        matches!(choice, Choice::Compute(_)) && work_queue::is_worth_it(plan, context, fragment, partitions.len());
    let work_stealing = is_shared.then(Arc::<WorkStealing>::default);
    if is_shared {
        let sharing = partitions.len();
        let groups = |object: &DataObject| RowGroups::known(plan, context, object, sharing);
        partitions = work_queue::guided_pieces(partitions, &plan.objects, splittable, groups);
    }
    (partitions, work_stealing)
}

/// Returns the bytes of a piece of an aggregate that storage and plain reads share; `None` if they
/// do not share it.
fn shared_piece_bytes(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment, route: Route) -> Option<u64> {
    let bytes = plan.objects.iter().map(|object| object.size).sum();
    Throughput::of(plan, context, fragment, route)?.piece_bytes(bytes, fragment.format == Format::Parquet)
}

/// Returns whether ranges of `object` can be scanned independently where `choice` places the scan.
pub(in crate::exec) fn can_be_cut(
    plan: &ScanPlan,
    choice: &Choice,
    capability: &Capability,
    object: &DataObject,
) -> bool {
    let ranges = match (choice, &capability.select) {
        (Choice::Storage { route: Route::Select, .. }, Some(dialect)) => dialect.scan_range,
        _ => true,
    };
    ranges && plan.table.format_of(object).is_splittable()
}
