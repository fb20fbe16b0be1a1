//! The splits of a request: some at a time, each scanned on its own.
//!
//! One worker has the turn of the request. Others join it where turns are free, at the beginning and whenever a split ends,
//! so that a node with little to do uses its cores for one request and a busy one does not let a request with many splits
//! pass those with few.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use futures::StreamExt;
use pushdown::wire::{Failure, FragmentRequest, IndexOutcome, RouteStats, SplitStats};
use pushdown::{Fragment, Output, Result, Split};
use pushdowndb_scan::{
    Extent, ObjectReader, ScanCounters, ScanOptions, Task, Threshold, bytes_ruled_out, can_be_zoned, scan,
};
use tokio::sync::mpsc::{Receiver, Sender, WeakSender, channel};

use super::lookup::{Found, Indexes, Shelf};
use super::{Desk, Objects, failure};
use crate::admission::Requester;
use crate::counters::Counting;
use crate::record::RequestRecord;
use crate::scans::{Bill, Scans, Turn};

/// Batches between the scans and the socket.
const BATCHES_AHEAD: usize = 2;

/// What comes of the splits, each by its place in the request.
pub(super) enum SplitEvent {
    Batch(u32, RecordBatch),
    End(u32, SplitStats),
    Failed(u32, Failure),
}

/// The splits of a request while they are scanned.
pub(super) struct Scanning {
    work: Arc<Work>,
    workers: Vec<(Task<()>, Option<Turn>)>,
    /// So many at most.
    most: usize,
    events: Receiver<SplitEvent>,
    /// For workers that join.
    sender: WeakSender<SplitEvent>,
    /// Splits of which neither the end nor a failure was seen.
    pub open: usize,
}

/// What the workers share.
struct Work {
    objects: Objects,
    requester: Requester,
    fragment: Arc<Fragment>,
    options: ScanOptions,
    indexes: Indexes,
    /// Whether rows come with the positions of their records.
    positions: bool,
    splits: Mutex<VecDeque<(u32, Split)>>,
    /// Rows of a LIMIT without an order that may still come out, of all splits together.
    remaining: Option<AtomicU64>,
    totals: Totals,
    counting: Arc<Counting>,
    record: Arc<RequestRecord>,
    scans: Arc<Scans>,
    bill: Bill,
}

#[derive(Default)]
struct Totals {
    bytes_scanned: AtomicU64,
    rows_scanned: AtomicU64,
    row_groups_scanned: AtomicU64,
    row_groups_pruned: AtomicU64,
    bytes_pruned: AtomicU64,
}

impl Scanning {
    pub fn new(request: FragmentRequest, desk: &Desk) -> Result<Self> {
        let limits = &desk.limits;
        let FragmentRequest { fragment, splits, partial_group_bytes, lookups, positions, .. } = request;
        let limited = fragment.order.is_empty() && matches!(fragment.output, Output::Rows(_));
        let asked = partial_group_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let options = ScanOptions {
            record_bytes: limits.fragment_record_bytes,
            row_group_bytes: limits.row_group_bytes,
            partial_group_bytes: asked.map(|bytes| bytes.min(limits.fragment_group_bytes)),
            threshold: Arc::new(Threshold::default()),
            memory: desk.turn.memory().clone(),
            spawner: desk.turn.spawner(),
            fetches_beside: false,
            ..ScanOptions::default()
        };
        let (count, open) = (u32::try_from(splits.len()).unwrap_or(u32::MAX), splits.len());
        let work = Arc::new(Work {
            objects: desk.objects.clone(),
            requester: desk.requester.clone(),
            remaining: fragment.limit.filter(|_| limited).map(AtomicU64::new),
            indexes: Indexes::new(lookups, &fragment.schema)?,
            positions,
            fragment: Arc::new(fragment),
            options,
            splits: Mutex::new((0..count).zip(splits).collect()),
            totals: Totals::default(),
            counting: Arc::clone(&desk.counting),
            record: Arc::clone(&desk.record),
            scans: Arc::clone(&desk.scans),
            bill: desk.turn.bill(),
        });
        let (sender, events) = channel(BATCHES_AHEAD);
        // A LIMIT takes its rows from as few splits as have them.
        let most = if work.remaining.is_some() { 1 } else { limits.fragment_splits.clamp(1, open.max(1)) };
        let workers = vec![(work_on(&work, &work.bill, &sender), None)];
        let mut scanning = Self { work, workers, most, events, sender: sender.downgrade(), open };
        scanning.join();
        Ok(scanning)
    }

    /// Has more workers join where turns are free and splits wait.
    fn join(&mut self) {
        let waits = || !self.work.splits.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        // Without a sender the workers are through.
        while let Some(sender) = self.sender.upgrade().filter(|_| self.workers.len() < self.most && waits()) {
            let (bill, memory) = (&self.work.bill, &self.work.options.memory);
            let Some(turn) = self.work.scans.free_turn(&self.work.requester, bill, memory) else { return };
            self.workers.push((work_on(&self.work, &turn.bill(), &sender), Some(turn)));
        }
    }

    /// The next event; `None` when the workers are through, or gone.
    pub async fn next(&mut self) -> Option<SplitEvent> {
        let event = self.events.recv().await;
        match event {
            Some(SplitEvent::End(..) | SplitEvent::Failed(..)) => {
                self.open = self.open.saturating_sub(1);
                self.join();
            }
            Some(SplitEvent::Batch(..)) => {}
            // Their turns are others' now.
            None => self.workers.clear(),
        }
        event
    }

    /// What the splits took so far.
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
fn work_on(work: &Arc<Work>, bill: &Bill, events: &Sender<SplitEvent>) -> Task<()> {
    let (work, events) = (Arc::clone(work), events.clone());
    bill.spawn(async move {
        loop {
            let next = work.splits.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, split)) = next else { return };
            let last = match work.scan(number, &split, &events).await {
                Ok(Some(stats)) => SplitEvent::End(number, stats),
                Ok(None) => return,
                // The request as a whole has ended, not this split alone: the stream of the answer says why.
                Err(_) if work.bill.check().is_err() => return,
                Err(error) => SplitEvent::Failed(number, failure(&error)),
            };
            if events.send(last).await.is_err() {
                return;
            }
        }
    })
}

impl Work {
    /// Sends the rows of a split; `None` when nobody wants them any more.
    async fn scan(&self, number: u32, split: &Split, events: &Sender<SplitEvent>) -> Result<Option<SplitStats>> {
        let mut stats = SplitStats::default();
        let Some(fragment) = self.rest_of_limit() else { return Ok(Some(stats)) };
        let object = self.objects.open(split, &self.bill).await?;
        let seen = Seen { counters: Arc::default(), totals: &self.totals };
        let counters = Arc::clone(&seen.counters);
        let range = split.range.clone();
        let learns = can_be_zoned(&fragment) && object.data.is_settled();
        let zones = learns.then(|| self.scans.zones().of(&self.objects.bucket, &split.key, &object.meta.etag));
        let footer = self.scans.footer(&object);
        let options = ScanOptions { zones: zones.clone(), footer: Some(footer), ..self.options.clone() };
        let shelf = Shelf { objects: &self.objects, bill: &self.bill, options: &options, counters: &counters };
        let found = self.indexes.find(number, split, &fragment.format, &shelf).await;
        let reader = Arc::new(object.data);
        let whole = split.range.clone().unwrap_or(0..reader.size());
        let is_scanned = !matches!(found, Some(Found::Parts(..)));
        let extent = match found {
            Some(Found::Parts(parts, places)) => {
                stats = SplitStats { places, ..stats }.with_index(IndexOutcome::Used);
                Extent::Parts(parts)
            }
            Some(Found::Nothing(why)) => {
                stats = stats.with_index(why);
                Extent::Range(range)
            }
            None if self.positions => Extent::Positions,
            None => Extent::Range(range),
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
            // One worker: nobody counts beside it.
            remaining.store(remaining.load(Relaxed).saturating_sub(stats.rows), Relaxed);
        }
        Ok(Some(stats))
    }

    /// The fragment with what is left of a LIMIT; `None` if that is nothing.
    fn rest_of_limit(&self) -> Option<Arc<Fragment>> {
        match self.remaining.as_ref().map(|remaining| remaining.load(Relaxed)) {
            None => Some(Arc::clone(&self.fragment)),
            Some(0) => None,
            rest => Some(Arc::new(Fragment { limit: rest, ..self.fragment.as_ref().clone() })),
        }
    }
}

/// However the work ended, what it scanned is counted.
impl Drop for Work {
    fn drop(&mut self) {
        let scanned = self.totals.bytes_scanned.load(Relaxed);
        self.counting.scanned.fetch_add(scanned, Relaxed);
        self.record.scanned(scanned, 0);
    }
}

/// However the scan of a split ended, what it did is counted.
struct Seen<'a> {
    counters: Arc<ScanCounters>,
    totals: &'a Totals,
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        let add = |total: &AtomicU64, count: &AtomicU64| total.fetch_add(count.load(Relaxed), Relaxed);
        add(&self.totals.bytes_scanned, &self.counters.bytes_scanned);
        add(&self.totals.rows_scanned, &self.counters.rows_scanned);
        add(&self.totals.row_groups_scanned, &self.counters.row_groups_scanned);
        add(&self.totals.row_groups_pruned, &self.counters.row_groups_pruned);
        add(&self.totals.bytes_pruned, &self.counters.bytes_pruned);
    }
}
