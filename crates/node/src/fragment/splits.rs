//! Scans the splits of a request in parallel.
//!
//! One worker uses the permit of the request. More join while permits are free, at the start and
//! whenever a split ends: an idle node uses all cores for one request, and on a busy node a request
//! with many splits does not overtake those with few.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::RecordBatch;
use futures::StreamExt;
use parking_lot::Mutex;
use pushdowndb_contract::wire::{Failure, FragmentRequest, IndexOutcome, RouteStats, SplitStats};
use pushdowndb_contract::{Fragment, Output, Result, Split};
use pushdowndb_scan::{
    ObjectReader, ScanCounters, ScanOptions, ScanRange, Task, Threshold, bytes_ruled_out, can_be_zoned, scan,
};
use tokio::sync::mpsc::{Receiver, Sender, WeakSender, channel};

use super::context::{Objects, RequestContext, failure};
use super::lookup::{Indexes, LookupContext, LookupResult};
use crate::admission::Requester;
use crate::scans::{CpuAccount, ScanPermit, ScanScheduler};
use crate::telemetry::{LiveCounters, RequestRecord};

/// Batches buffered between the scans and the response.
const BATCHES_AHEAD: usize = 2;

/// An event of a split, with its number in the request.
pub(super) enum SplitEvent {
    Batch(u32, RecordBatch),
    End(u32, SplitStats),
    Failed(u32, Failure),
}

/// The splits of a request that are being scanned.
pub(super) struct SplitScanner {
    work: Arc<ScanWork>,
    workers: Vec<(Task<()>, Option<ScanPermit>)>,
    /// Maximum workers.
    max_workers: usize,
    events: Receiver<SplitEvent>,
    /// Creates senders for workers that join later.
    sender: WeakSender<SplitEvent>,
    /// Splits that have neither ended nor failed yet.
    pub open: usize,
}

/// The state shared by the workers.
struct ScanWork {
    objects: Objects,
    requester: Requester,
    fragment: Arc<Fragment>,
    options: ScanOptions,
    indexes: Indexes,
    /// Whether rows carry the positions of their records.
    positions: bool,
    splits: Mutex<VecDeque<(u32, Split)>>,
    /// Rows that a LIMIT without ORDER BY still allows, over all splits; `None` without such a
    /// LIMIT.
    remaining: Option<AtomicU64>,
    totals: Totals,
    counting: Arc<LiveCounters>,
    record: Arc<RequestRecord>,
    scans: Arc<ScanScheduler>,
    account: CpuAccount,
}

#[derive(Default)]
struct Totals {
    bytes_scanned: AtomicU64,
    rows_scanned: AtomicU64,
    row_groups_scanned: AtomicU64,
    row_groups_pruned: AtomicU64,
    bytes_pruned: AtomicU64,
}

impl SplitScanner {
    pub fn new(request: FragmentRequest, context: &RequestContext) -> Result<Self> {
        let limits = &context.limits;
        let FragmentRequest { fragment, splits, partial_group_bytes, lookups, positions, .. } = request;
        let limited = fragment.order.is_empty() && matches!(fragment.output, Output::Rows(_));
        let asked = partial_group_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let options = ScanOptions {
            record_bytes: limits.fragment_record_bytes,
            row_group_bytes: limits.row_group_bytes,
            partial_group_bytes: asked.map(|bytes| bytes.min(limits.fragment_group_bytes)),
            threshold: Arc::new(Threshold::default()),
            memory: context.permit.memory().clone(),
            spawner: context.permit.spawner(),
            fetches_beside: false,
            ..ScanOptions::default()
        };
        let (count, open) = (u32::try_from(splits.len()).unwrap_or(u32::MAX), splits.len());
        let work = Arc::new(ScanWork {
            objects: context.objects.clone(),
            requester: context.requester.clone(),
            remaining: fragment.limit.filter(|_| limited).map(AtomicU64::new),
            indexes: Indexes::new(lookups, &fragment.schema)?,
            positions,
            fragment: Arc::new(fragment),
            options,
            splits: Mutex::new((0..count).zip(splits).collect()),
            totals: Totals::default(),
            counting: Arc::clone(&context.counting),
            record: Arc::clone(&context.record),
            scans: Arc::clone(&context.scans),
            account: context.permit.account(),
        });
        let (sender, events) = channel(BATCHES_AHEAD);
        // With a LIMIT, splits are scanned one after the other, so that as few as possible are
        // read.
        let max_workers = if work.remaining.is_some() { 1 } else { limits.fragment_splits.clamp(1, open.max(1)) };
        let workers = vec![(work_on(&work, &work.account, &sender), None)];
        let mut scanning = Self { work, workers, max_workers, events, sender: sender.downgrade(), open };
        scanning.join();
        Ok(scanning)
    }

    /// Starts more workers while permits are free and splits are waiting.
    fn join(&mut self) {
        let waits = || !self.work.splits.lock().is_empty();
        // If the sender is gone, all workers are done.
        while let Some(sender) = self.sender.upgrade().filter(|_| self.workers.len() < self.max_workers && waits()) {
            let (account, memory) = (&self.work.account, &self.work.options.memory);
            let Some(permit) = self.work.scans.try_extra_permit(&self.work.requester, account, memory) else { return };
            self.workers.push((work_on(&self.work, &permit.account(), &sender), Some(permit)));
        }
    }

    /// The next event; `None` when all workers are done.
    pub async fn next(&mut self) -> Option<SplitEvent> {
        let event = self.events.recv().await;
        match event {
            Some(SplitEvent::End(..) | SplitEvent::Failed(..)) => {
                self.open = self.open.saturating_sub(1);
                self.join();
            }
            Some(SplitEvent::Batch(..)) => {}
            // Dropping the workers releases their permits.
            None => self.workers.clear(),
        }
        event
    }

    /// The statistics of the splits so far.
    pub fn figures(&self) -> RouteStats {
        let Totals { bytes_scanned, rows_scanned, row_groups_scanned, row_groups_pruned, bytes_pruned } =
            &self.work.totals;
        RouteStats {
            bytes_scanned: bytes_scanned.load(Relaxed),
            rows_scanned: rows_scanned.load(Relaxed),
            row_groups_scanned: row_groups_scanned.load(Relaxed),
            row_groups_pruned: row_groups_pruned.load(Relaxed),
            bytes_pruned: bytes_pruned.load(Relaxed),
            ..RouteStats::default()
        }
    }
}

/// Starts a worker that takes splits until none is left.
fn work_on(work: &Arc<ScanWork>, account: &CpuAccount, events: &Sender<SplitEvent>) -> Task<()> {
    let (work, events) = (Arc::clone(work), events.clone());
    account.spawn(async move {
        loop {
            let next = work.splits.lock().pop_front();
            let Some((number, split)) = next else { return };
            let last = match work.scan(number, &split, &events).await {
                Ok(Some(stats)) => SplitEvent::End(number, stats),
                Ok(None) => return,
                // The request has ended, not this split alone; the response stream reports why.
                Err(_) if work.account.check().is_err() => return,
                Err(error) => SplitEvent::Failed(number, failure(&error)),
            };
            if events.send(last).await.is_err() {
                return;
            }
        }
    })
}

impl ScanWork {
    /// Scans a split and sends its batches to `events`. Returns its statistics, or `None` if the
    /// receiver is gone.
    async fn scan(&self, number: u32, split: &Split, events: &Sender<SplitEvent>) -> Result<Option<SplitStats>> {
        let mut stats = SplitStats::default();
        let Some(fragment) = self.rest_of_limit() else { return Ok(Some(stats)) };
        let object = self.objects.open(split, &self.account, &self.options.memory).await?;
        let seen = CountOnDrop { counters: Arc::default(), totals: &self.totals };
        let counters = Arc::clone(&seen.counters);
        let range = split.range.clone();
        let learns = can_be_zoned(&fragment) && object.data.is_stable();
        let zones = learns.then(|| self.scans.zones().get_or_load(&self.objects.bucket, &split.key, &object.meta.etag));
        if zones.as_ref().is_some_and(|zones| zones.changes() > 0) {
            self.counting.zone_hits.fetch_add(1, Relaxed);
        }
        let footer = self.scans.footer(&object);
        let options = ScanOptions { zones: zones.clone(), footer: Some(footer), ..self.options.clone() };
        let context =
            LookupContext { objects: &self.objects, account: &self.account, options: &options, counters: &counters };
        let found = self.indexes.find(number, split, &fragment.format, &context).await;
        let reader = Arc::new(object.data);
        let whole = split.range.clone().unwrap_or(0..reader.size());
        let is_scanned = !matches!(found, Some(LookupResult::Parts(..)));
        let extent = match found {
            Some(LookupResult::Parts(parts, places)) => {
                stats = SplitStats { places, ..stats }.with_index(IndexOutcome::Used);
                ScanRange::Records(parts)
            }
            Some(LookupResult::Nothing(why)) => {
                stats = stats.with_index(why);
                ScanRange::Bytes(range)
            }
            None if self.positions => ScanRange::WithPositions,
            None => ScanRange::Bytes(range),
        };
        let mut batches = scan(fragment, reader, extent, options, counters)?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            stats.rows += batch.num_rows() as u64;
            if events.send(SplitEvent::Batch(number, batch)).await.is_err() {
                return Ok(None);
            }
        }
        stats.bytes_scanned = seen.counters.bytes_scanned.load(Relaxed);
        if let Some(zones) = zones.filter(|_| is_scanned) {
            stats.bytes_ruled_out = bytes_ruled_out(&zones, &self.fragment, &whole).unwrap_or_default();
        }
        if let Some(remaining) = &self.remaining {
            // With a LIMIT there is only one worker, so nothing else updates this.
            remaining.store(remaining.load(Relaxed).saturating_sub(stats.rows), Relaxed);
        }
        Ok(Some(stats))
    }

    /// The fragment limited to the rows that the LIMIT still allows; `None` if it allows no more.
    fn rest_of_limit(&self) -> Option<Arc<Fragment>> {
        match self.remaining.as_ref().map(|remaining| remaining.load(Relaxed)) {
            None => Some(Arc::clone(&self.fragment)),
            Some(0) => None,
            rest => Some(Arc::new(Fragment { limit: rest, ..self.fragment.as_ref().clone() })),
        }
    }
}

/// Counts what was scanned, however the work ended.
impl Drop for ScanWork {
    fn drop(&mut self) {
        let scanned = self.totals.bytes_scanned.load(Relaxed);
        self.counting.scanned.fetch_add(scanned, Relaxed);
        self.record.scanned(scanned, 0);
    }
}

/// Adds the counters of a split to the totals, however its scan ended.
struct CountOnDrop<'a> {
    counters: Arc<ScanCounters>,
    totals: &'a Totals,
}

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        let add = |total: &AtomicU64, count: &AtomicU64| total.fetch_add(count.load(Relaxed), Relaxed);
        add(&self.totals.bytes_scanned, &self.counters.bytes_scanned);
        add(&self.totals.rows_scanned, &self.counters.rows_scanned);
        add(&self.totals.row_groups_scanned, &self.counters.row_groups_scanned);
        add(&self.totals.row_groups_pruned, &self.counters.row_groups_pruned);
        add(&self.totals.bytes_pruned, &self.counters.bytes_pruned);
    }
}
