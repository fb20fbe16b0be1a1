//! Execution of the splits of a partition, in storage or by plain reads, with retries and
//! fall-back. On the fragment route ([`fragment`]) a request covers several splits.
//!
//! **No row twice, no row lost.** The rows of a pushed split are buffered until the response's End
//! frame has arrived and the object is verified to be unchanged. After a failure before that, the
//! whole split is run again, by another request or by plain reads. A split too large to buffer is
//! released early, and a failure after that is an error.
//!
//! The source is chosen anew for each split ([`AdaptiveScheduler`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::TryStreamExt;
use parking_lot::Mutex;
use pushdowndb_contract::wire::INDEX_VERSION;
use pushdowndb_contract::{Error, Level, Result};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, Semaphore};

use super::RemoteScanExec;
use crate::catalog::DataObject;
use crate::context::QueryContext;
use crate::cost::cardinality::Cardinality;
use crate::endpoints::Meters;
use crate::error::to_datafusion;
use crate::exec::adaptive::{AdaptiveScheduler, ScanSource, Throughput};
use crate::exec::index_state::LookupOutcomes;
use crate::exec::metrics::ScanMetrics;
use crate::exec::partition_scan::{FallBacks, PartitionScan, ReusedBuffers};
use crate::exec::split::{SplitTask, fragment};
use crate::exec::work_queue::WorkStealing;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::Held;
use crate::plan::splits::ScanSplit;

/// Maximum bytes that storage is estimated to send for a scan whose neighboring splits are joined.
/// For so few bytes, the fixed cost per split dominates.
const MAX_JOINED_BYTES: u64 = 8 * 1024 * 1024;

/// Minimum splits per core of storage after joining, since splits take different times.
const SPLITS_PER_CORE: usize = 2;

/// Interval at which an idle stealing worker checks the scheduler.
const STEAL_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl PartitionScan {
    pub(crate) fn start(
        scan: &RemoteScanExec,
        query: Arc<QueryContext>,
        splits: Vec<ScanSplit>,
        partition: usize,
    ) -> Result<SendableRecordBatchStream> {
        let locations = scan.placement().index.locations();
        let lookup = scan.placement().index.by_node();
        let looks_up = |split: &ScanSplit| lookup.is_some_and(|lookup| lookup.covers(split.object));
        let any_looked_up = splits.iter().any(looks_up);
        let pushed = matches!(scan.placement().choice, Choice::Storage { .. }) || locations.is_some();
        let stores = scan.context.backend.stores();
        let at_stores = match &scan.placement().choice {
            _ if is_in_order(scan) => vec![1; stores],
            Choice::Storage { route: Route::Fragment, .. } if locations.is_none() => {
                scan.context.fragments_at_once(&scan.plan)
            }
            _ if pushed => vec![scan.context.options.requests(); stores],
            _ => {
                let partitions = scan.placement().partitions.len();
                let reads = scan.placement().plain_reads.map_or(1, |reads| reads.of_each(partitions));
                vec![reads.div_ceil(stores); stores]
            }
        };
        let requests: usize = at_stores.iter().sum();
        let cap = scan.context.options.level_cap();
        let has_fragments =
            scan.placement().capability.fragment.is_some() && cap.is_none_or(|cap| cap == Level::Fragment);
        let throughput = throughput(scan);
        let read_before = Cardinality::of(&scan.plan, &scan.context, &scan.fragment).scanned_before();
        let splits = in_requests(scan, splits, requests, throughput.as_ref(), read_before.unwrap_or(1.0));
        let all = || splits.iter().flatten();
        query.progress.expect(all().count() as u64, all().map(|split| split.bytes(&scan.plan.objects)).sum());
        let workers = at_stores_of(scan, &splits, &at_stores);
        let count: usize = workers.iter().sum();
        let join =
            |stealing: &Arc<WorkStealing>| stealing.join(partition, &scan.placement().partitions, &scan.plan.objects);
        let work_queue = scan.placement().work_stealing.as_ref().map(|stealing| (join(stealing), partition));
        let splits = if work_queue.is_some() { VecDeque::new() } else { splits };
        let scheduler = throughput.map(|throughput| AdaptiveScheduler::new(&throughput, count.max(1)));
        let stealers = usize::from(scheduler.is_some() && splits.iter().map(Vec::len).sum::<usize>() > count);
        let run = Arc::new(Self {
            plan: scan.plan.clone(),
            context: scan.context.clone(),
            fragment: Arc::clone(&scan.fragment),
            choice: scan.placement().choice.clone(),
            dialect: scan.placement().capability.select.clone(),
            takes_dictionaries: scan.placement().capability.fragment.is_some_and(|version| version >= INDEX_VERSION),
            has_fragments,
            schema: Arc::clone(&scan.schema),
            query,
            meter: Arc::default(),
            counters: Arc::clone(&scan.counters),
            feeds_plan: scan.feeds_plan,
            splits: Mutex::new(splits),
            work_queue,
            drained: Notify::new(),
            live_top_k: scan.placement().live_top_k.clone(),
            top_k_fragment: scan.placement().top_k_fragment.clone(),
            threshold: Arc::default(),
            locations,
            lookup: lookup.cloned(),
            lookup_outcomes: LookupOutcomes::default(),
            looks_up: any_looked_up,
            buffers: ReusedBuffers { decoding: decoding(scan), ..ReusedBuffers::default() },
            caches: Arc::clone(&scan.caches),
            scheduler,
            progress: Arc::clone(&scan.progress),
            read_before,
            ambiguous_nulls: AtomicBool::new(false),
        });
        run.counters.busy();
        let metrics = ScanMetrics::new(&scan.metrics, partition);
        let running = Arc::new(RunningPartition { run: Arc::clone(&run), metrics });
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&scan.schema), 2);
        for (store, count) in workers.iter().enumerate() {
            for _ in 0..*count {
                let (running, sender) = (Arc::clone(&running), builder.tx());
                builder.spawn(async move { running.run.work(store, &sender).await.map_err(to_datafusion) });
            }
        }
        for _ in 0..stealers {
            let (running, sender) = (Arc::clone(&running), builder.tx());
            builder.spawn(async move { running.run.steal(&sender).await.map_err(to_datafusion) });
        }
        drop(running);
        let stream = builder.build();
        let baseline = BaselineMetrics::new(&scan.metrics, partition);
        // Without a limit this only counts rows.
        let limit = scan.plan.limit.or(Some(usize::MAX));
        let rows = LimitStream::new(stream, 0, limit, baseline).inspect_ok(move |batch| {
            run.counters.busy();
            if run.feeds_plan {
                run.counters.rows(batch.num_rows() as u64);
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&scan.schema), rows)))
    }

    /// Runs splits on `store` until it has no more.
    async fn work(&self, store: usize, out: &Sender<datafusion::common::Result<RecordBatch>>) -> Result<()> {
        loop {
            let Some(splits) = self.take(store) else { return Ok(()) };
            let wanted = tokio::select! {
                done = self.run_splits(&splits, store, out) => done?,
                error = self.query.exceeded() => return Err(error),
            };
            if !wanted {
                return Ok(());
            }
        }
    }

    /// Removes the next splits for a worker of `store` from the queue: splits of objects that lie
    /// there, or else splits of objects of which it has replicas, so that slow stores get less
    /// work.
    fn take(&self, store: usize) -> Option<Vec<ScanSplit>> {
        if let Some((queue, partition)) = &self.work_queue {
            return queue.next(*partition).map(|split| vec![split]);
        }
        let (next, is_last) = {
            let mut splits = self.splits.lock();
            let next = match self.context.backend.stores() {
                1 => splits.pop_front(),
                _ => {
                    let held =
                        |how| splits.iter().position(|splits| how == self.context.held(&self.plan, splits, store));
                    let place = held(Held::AtHome).or_else(|| held(Held::AsReplica));
                    place.and_then(|place| splits.remove(place))
                }
            };
            (next, splits.is_empty())
        };
        if is_last {
            self.drained.notify_waiters();
        }
        next
    }

    /// Runs the splits of one queue entry, from the source that the scheduler chooses.
    async fn run_splits(
        &self,
        splits: &[ScanSplit],
        store: usize,
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let began = Instant::now();
        let source = self.scheduler.as_ref().map_or(ScanSource::Storage, |scheduler| scheduler.next_source(began));
        if source == ScanSource::PlainReads {
            for split in splits {
                if !self.read_plainly(split, Some(store), out).await? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let bytes = splits.iter().map(|split| split.bytes(&self.plan.objects)).sum();
        if let Some(scheduler) = &self.scheduler {
            scheduler.begin(ScanSource::Storage, bytes, began);
        }
        let wanted = match &self.choice {
            Choice::Storage { request, route: Route::Fragment, .. }
                if !splits.iter().any(|s| self.is_located(s)) && self.runs_fragments(splits) =>
            {
                self.run_fragment(request, splits, Some(store), out).await
            }
            _ => self.run_one_by_one(splits, store, out).await,
        };
        if let Some(scheduler) = &self.scheduler {
            scheduler.end(ScanSource::Storage, bytes, began, Instant::now());
        }
        wanted
    }

    /// Returns whether the stores of `splits` run fragments. All `splits` lie in the same stores.
    fn runs_fragments(&self, splits: &[ScanSplit]) -> bool {
        let first = splits.first().and_then(|split| self.plan.objects.get(split.object));
        first.is_some_and(|object| self.context.backend.runs_fragments(object, self.plan.table.profile))
    }

    /// Returns whether an index gave the locations of the rows of `split`.
    fn is_located(&self, split: &ScanSplit) -> bool {
        self.locations.as_ref().is_some_and(|locations| locations.of(split.object).is_some())
    }

    /// Runs each of `splits` by a request of its own.
    async fn run_one_by_one(
        &self,
        splits: &[ScanSplit],
        store: usize,
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        for split in splits {
            if !SplitTask::new(self, split, Some(store), out)?.run().await? {
                return Ok(false);
            }
            self.finished(split.bytes(&self.plan.objects));
        }
        Ok(true)
    }

    async fn read_plainly(
        &self,
        split: &ScanSplit,
        store: Option<usize>,
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let (began, bytes) = (Instant::now(), split.bytes(&self.plan.objects));
        if let Some(scheduler) = &self.scheduler {
            scheduler.begin(ScanSource::PlainReads, bytes, began);
        }
        let task = SplitTask::new(self, split, store, out)?;
        let wanted = if task.is_empty() { Ok(true) } else { task.plain().await };
        if let Some(scheduler) = &self.scheduler {
            scheduler.end(ScanSource::PlainReads, bytes, began, Instant::now());
        }
        if matches!(wanted, Ok(true)) {
            self.finished(bytes);
        }
        wanted
    }

    /// Counts a finished split of `bytes` bytes.
    pub(crate) fn finished(&self, bytes: u64) {
        self.query.progress.finish(bytes);
        self.progress.done(bytes);
    }

    /// Steals splits from the end of the queue while that speeds up the scan.
    async fn steal(&self, out: &Sender<datafusion::common::Result<RecordBatch>>) -> Result<()> {
        let Some(scheduler) = &self.scheduler else { return Ok(()) };
        loop {
            // Registered before the check, so that no notification is missed.
            let drained = self.drained.notified();
            let taken = {
                let mut splits = self.splits.lock();
                let waiting: u64 = splits.iter().flatten().map(|split| split.bytes(&self.plan.objects)).sum();
                let Some(last) = splits.back_mut() else { return Ok(()) };
                let bytes = last.last().map_or(0, |split| split.bytes(&self.plan.objects));
                let taken = match scheduler.should_steal(bytes, waiting.saturating_sub(bytes), Instant::now()) {
                    true => last.pop(),
                    false => None,
                };
                if last.is_empty() {
                    splits.pop_back();
                }
                taken
            };
            match taken {
                Some(split) => {
                    self.query.meter.strategy(format!("{}: some splits are read plainly meanwhile", self.plan.name));
                    let wanted = tokio::select! {
                        done = self.read_plainly(&split, None, out) => done?,
                        error = self.query.exceeded() => return Err(error),
                    };
                    if !wanted {
                        return Ok(());
                    }
                }
                None => tokio::select! {
                    () = tokio::time::sleep(STEAL_POLL_INTERVAL) => {}
                    () = drained => return Ok(()),
                    () = out.closed() => return Ok(()),
                },
            }
        }
    }

    /// Records throttling: splits are read plainly for a while.
    pub(crate) fn throttled(&self, error: &Error) {
        tracing::debug!(%error, table = self.plan.name, "storage is busy");
        self.query.meter.strategy(format!("{}: storage was busy, some splits were read plainly", self.plan.name));
        if let Some(scheduler) = &self.scheduler {
            scheduler.throttled(Instant::now());
        }
    }

    pub(crate) fn meters(&self) -> Meters {
        Meters(vec![Arc::clone(&self.query.meter), Arc::clone(&self.meter), Arc::clone(self.counters.meter())])
    }

    pub(crate) fn fall_backs(&self) -> FallBacks {
        let (query, counters) = (Arc::clone(&self.query), Arc::clone(&self.counters));
        FallBacks { query, counters, table: self.plan.name.clone() }
    }
}

/// Returns the number of workers of each store for the `splits` of a partition: as many as
/// `at_once` allows, but no more than there are queue entries for the store. A single store gets at
/// least one worker.
fn at_stores_of(scan: &RemoteScanExec, splits: &VecDeque<Vec<ScanSplit>>, at_once: &[usize]) -> Vec<usize> {
    if let [one] = at_once {
        return vec![(*one).min(splits.len()).max(1)];
    }
    let held =
        |store| splits.iter().filter(|splits| scan.context.held(&scan.plan, splits, store) != Held::Nowhere).count();
    at_once.iter().enumerate().map(|(store, most)| (*most).min(held(store))).collect()
}

/// Returns the permits of the row groups that a partition decodes at a time if it reads many: as
/// many as it has threads.
fn decoding(scan: &RemoteScanExec) -> Option<Arc<Semaphore>> {
    let placement = scan.placement();
    let threads = scan.plan.partitions.div_ceil(placement.partitions.len().max(1));
    placement.plain_reads.map(|_| Arc::new(Semaphore::new(threads.max(1))))
}

/// Returns whether the scan yields the first rows of a single object in order, and so must run one
/// split after the other.
fn is_in_order(scan: &RemoteScanExec) -> bool {
    scan.plan.limit.is_some() && scan.plan.partitions == 1 && scan.plan.objects.len() == 1
}

/// Returns the estimated throughput of storage and plain reads, if they may share the scan. Returns
/// `None` if they may not, for example because rows must come in order or an index locates them.
fn throughput(scan: &RemoteScanExec) -> Option<Throughput> {
    let placement = scan.placement();
    match &placement.choice {
        Choice::Storage { route, .. }
            if placement.index.locations().is_none()
                && placement.live_top_k.is_none()
                && !scan.is_looked_up()
                && !is_in_order(scan) =>
        {
            Throughput::of(&scan.plan, &scan.context, &scan.fragment, *route)
        }
        _ => None,
    }
}

impl RemoteScanExec {
    /// Estimates the number of fragment requests of the scan, if no split is read plainly or
    /// retried.
    pub(super) fn fragment_requests(&self) -> u64 {
        let requests: usize = self.context.fragments_at_once(&self.plan).iter().sum();
        let throughput = throughput(self);
        let read = Cardinality::of(&self.plan, &self.context, &self.fragment).scanned_before().unwrap_or(1.0);
        let of = |splits: &Vec<ScanSplit>| in_requests(self, splits.clone(), requests, throughput.as_ref(), read).len();
        self.placement().partitions.iter().map(of).sum::<usize>() as u64
    }
}

/// Groups the splits of a partition into queue entries: on the fragment route, the splits of one
/// request each, otherwise single splits. `requests` is the number of requests that run at a time,
/// and `read` the share of bytes that storage reads.
fn in_requests(
    scan: &RemoteScanExec,
    splits: Vec<ScanSplit>,
    requests: usize,
    throughput: Option<&Throughput>,
    read: f64,
) -> VecDeque<Vec<ScanSplit>> {
    let (plan, context) = (&scan.plan, &scan.context);
    if !matches!(scan.placement().choice, Choice::Storage { route: Route::Fragment, .. })
        || scan.placement().index.locations().is_some()
        || is_in_order(scan)
    {
        return splits.into_iter().map(|split| vec![split]).collect();
    }
    let format = |object: &DataObject| plan.table.format_of(object);
    let fits = |a: &ScanSplit, b: &ScanSplit| {
        let objects = plan.objects.get(a.object).zip(plan.objects.get(b.object));
        objects.is_some_and(|(of_a, of_b)| {
            let is_same_fragment = of_a.columns == of_b.columns && format(of_a) == format(of_b);
            let is_same_node = context.node_of(of_a, a) == context.node_of(of_b, b);
            is_same_fragment && is_same_node && context.same_stores(of_a, of_b)
        })
    };
    let lookup = scan.placement().index.by_node();
    // A look-up reads hardly any bytes of the object.
    let bytes = |split: &ScanSplit| match lookup.is_some_and(|lookup| lookup.covers(split.object)) {
        true => 1,
        false => (split.bytes(&plan.objects) as f64 * read) as u64,
    };
    let all = splits.iter().map(|split| split.bytes(&plan.objects)).sum();
    let most = throughput.map_or(requests, |throughput| throughput.requests(requests, all));
    let replicated = plan.objects.iter().any(|object| !object.replicas.is_empty());
    let requests = fragment::requests(splits, most, context.options.objective, replicated, bytes, fits);
    // Join splits only if few rows are buffered per split, and plain reads do not share the scan.
    let joins = Cardinality::of(plan, context, &scan.fragment).sent_bytes() <= MAX_JOINED_BYTES
        && !throughput.is_some_and(|throughput| throughput.together());
    match context.rates(plan).advertised_cores() {
        // A single core runs splits in sequence anyway; several cores each get some.
        Some(cores) if joins => {
            let least = if cores == 1 { 1 } else { (SPLITS_PER_CORE * cores).div_ceil(requests.len().max(1)) };
            requests.into_iter().map(|splits| fragment::joined(splits, least)).collect()
        }
        _ => requests.into(),
    }
}

/// Running partition, shared by its workers. When the last worker drops it, its counts are added to
/// the operator's metrics.
struct RunningPartition {
    run: Arc<PartitionScan>,
    metrics: ScanMetrics,
}

impl Drop for RunningPartition {
    fn drop(&mut self) {
        self.run.counters.busy();
        self.run.report_lookups();
        self.run.note_scanned();
        self.metrics.record(&self.run.meter, &self.run.lookup_outcomes);
    }
}
