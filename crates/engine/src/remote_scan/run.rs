//! Running a scan: split by split, in storage or on plain reads, with retries and fall-back. On the fragment route
//! (`fragment`) several splits are asked for at once.
//!
//! **No row twice, none lost.** The rows of a pushed split are held back until the answer's End frame was
//! seen and the object was found unchanged; until then a failure re-does the whole split, by another request
//! or by plain reads. A split too large to hold back is released early, and a failure after that is an error.
//!
//! Which way a split goes is decided anew at each of them ([`Balance`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::TryStreamExt;
use pushdown::wire::INDEX_VERSION;
use pushdown::{Error, Fragment, Level, Result};
use pushdowndb_cost::Meter;
use pushdowndb_scan::{Learned, Threshold};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use super::balance::{Balance, Paces, Way};
use super::lookup::{Places, Told};
use super::metrics::ScanMetrics;
use super::scanned::Scanned;
use super::shares::{Board, Shares};
use super::splits::ScanSplit;
use super::task::{Reused, SplitTask};
use super::{Figures, RemoteScanExec, ScanSpec, fragment};
use crate::backends::Meters;
use crate::error::to_datafusion;
use crate::profile::Tally;
use crate::query::QueryContext;
use crate::strategies::filter::{Choice, Route};
use crate::strategies::index::Lookup;
use crate::strategies::top_k::LiveTopK;
use crate::table::DataObject;

/// One partition of a scan while it runs.
pub(super) struct Run {
    pub(super) spec: ScanSpec,
    pub(super) fragment: Arc<Fragment>,
    pub(super) choice: Choice,
    pub(super) dialect: Option<pushdown::Dialect>,
    /// Whether the node may send dictionaries.
    pub(super) takes_dictionaries: bool,
    /// Whether the fragment route is there and may be used.
    pub(super) has_fragments: bool,
    pub(super) schema: SchemaRef,
    pub(super) query: Arc<QueryContext>,
    /// Counts this partition's traffic, beside the query's meter and the scan's tally.
    meter: Arc<Meter>,
    /// Counts for the scan as a whole.
    pub(super) tally: Arc<Tally>,
    /// Whether the rows are for the plan above.
    pub(super) delivers: bool,
    /// What workers take at a time: a split, or some that one request asks for.
    splits: Mutex<VecDeque<Vec<ScanSplit>>>,
    /// Where it takes them from instead, if partitions share them, and which of these it is.
    shared: Option<(Arc<Board>, usize)>,
    /// Told when none is left.
    drained: Notify,
    /// What is known of the first rows so far, where storage sends only those.
    pub(super) live: Option<Arc<LiveTopK>>,
    /// What plain reads scan for where only the first rows count, and what they know of these.
    pub(super) first: Option<Arc<Fragment>>,
    pub(super) threshold: Arc<Threshold>,
    /// Where the rows are, for objects whose index told.
    pub(super) places: Option<Arc<Places>>,
    /// What the node looks up, and what became of it.
    pub(super) lookup: Option<Lookup>,
    pub(super) told: Told,
    /// Whether objects of this partition are looked up.
    pub(super) looks_up: bool,
    /// What plain reads of splits use one after the other.
    pub(super) reused: Reused,
    /// What those of all partitions have learned.
    pub(super) learned: Arc<Learned>,
    /// Who scans the next split; `None` where that is settled.
    pub(super) balance: Option<Balance>,
    /// What was scanned so far, in all partitions.
    pub(super) scanned: Arc<Scanned>,
    /// What the last scan for the same read, as a share.
    pub(super) read_before: Option<f64>,
}

/// Of scans that send about so many bytes at most in all, neighbouring splits of a request become one: what a split costs
/// besides its bytes is more than they do.
const JOINED_BYTES: u64 = 8 * 1024 * 1024;

/// So many splits a core are left: they do not all take the same time.
const SPLITS_A_CORE: usize = 2;

/// How often a worker that could help looks whether it should.
const LOOK: Duration = Duration::from_millis(20);

impl Run {
    pub(super) fn start(
        scan: &RemoteScanExec,
        query: Arc<QueryContext>,
        splits: Vec<ScanSplit>,
        partition: usize,
    ) -> Result<SendableRecordBatchStream> {
        let places = scan.index.places();
        let lookup = scan.index.by_node();
        let looks_up = |split: &ScanSplit| lookup.is_some_and(|lookup| lookup.is_of(split.object));
        let any_looked_up = splits.iter().any(looks_up);
        let pushed = matches!(scan.choice, Choice::Storage { .. }) || places.is_some();
        let requests = match &scan.choice {
            Choice::Storage { route: Route::Fragment, .. } if places.is_none() => scan.spec.fragments_at_once(),
            _ if pushed => scan.spec.options.requests(),
            _ => 1,
        };
        let cap = scan.spec.options.level_cap();
        let has_fragments = scan.capability.fragment.is_some() && cap.is_none_or(|cap| cap == Level::Fragment);
        let paces = match &scan.choice {
            Choice::Storage { route, .. } if places.is_none() && scan.live.is_none() && !scan.is_looked_up() => {
                Paces::of(&scan.spec, &scan.fragment, *route)
            }
            // Only storage knows the order or the places of rows.
            _ => None,
        };
        let read_before = Figures::of(&scan.spec, &scan.fragment).scanned_before();
        let splits = in_requests(scan, splits, requests, paces.as_ref(), read_before.unwrap_or(1.0));
        let all = || splits.iter().flatten();
        query.progress.expect(all().count() as u64, all().map(|split| split.bytes(&scan.spec.objects)).sum());
        let workers = requests.min(splits.len()).max(1);
        let join = |shares: &Arc<Shares>| shares.join(partition, &scan.partitions, &scan.spec.objects);
        let shared = scan.shares.as_ref().map(|shares| (join(shares), partition));
        let splits = if shared.is_some() { VecDeque::new() } else { splits };
        let balance = paces.map(|paces| Balance::new(&paces, workers));
        let helpers = usize::from(balance.is_some() && splits.iter().map(Vec::len).sum::<usize>() > workers);
        let run = Arc::new(Self {
            spec: scan.spec.clone(),
            fragment: Arc::clone(&scan.fragment),
            choice: scan.choice.clone(),
            dialect: scan.capability.select.clone(),
            takes_dictionaries: scan.capability.fragment.is_some_and(|version| version >= INDEX_VERSION),
            has_fragments,
            schema: Arc::clone(&scan.schema),
            query,
            meter: Arc::default(),
            tally: Arc::clone(&scan.tally),
            delivers: scan.delivers,
            splits: Mutex::new(splits),
            shared,
            drained: Notify::new(),
            live: scan.live.clone(),
            first: scan.first.clone(),
            threshold: Arc::default(),
            places,
            lookup: lookup.cloned(),
            told: Told::default(),
            looks_up: any_looked_up,
            reused: Reused::default(),
            learned: Arc::clone(&scan.learned),
            balance,
            scanned: Arc::clone(&scan.scanned),
            read_before,
        });
        run.tally.busy();
        let metrics = ScanMetrics::new(&scan.metrics, partition);
        let running = Arc::new(Running { run: Arc::clone(&run), metrics });
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&scan.schema), 2);
        for _ in 0..workers {
            let (running, sender) = (Arc::clone(&running), builder.tx());
            builder.spawn(async move { running.run.work(&sender).await.map_err(to_datafusion) });
        }
        for _ in 0..helpers {
            let (running, sender) = (Arc::clone(&running), builder.tx());
            builder.spawn(async move { running.run.help(&sender).await.map_err(to_datafusion) });
        }
        drop(running);
        let stream = builder.build();
        let baseline = BaselineMetrics::new(&scan.metrics, partition);
        // Without a limit this only counts rows.
        let limit = scan.spec.limit.or(Some(usize::MAX));
        let rows = LimitStream::new(stream, 0, limit, baseline).inspect_ok(move |batch| {
            run.tally.busy();
            if run.delivers {
                run.tally.rows(batch.num_rows() as u64);
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&scan.schema), rows)))
    }

    /// Takes splits until none is left.
    async fn work(&self, out: &Sender<datafusion::common::Result<RecordBatch>>) -> Result<()> {
        loop {
            let Some(splits) = self.take() else { return Ok(()) };
            let wanted = tokio::select! {
                done = self.run_splits(&splits, out) => done?,
                error = self.query.exceeded() => return Err(error),
            };
            if !wanted {
                return Ok(());
            }
        }
    }

    /// What a worker does next.
    fn take(&self) -> Option<Vec<ScanSplit>> {
        if let Some((board, partition)) = &self.shared {
            return board.next(*partition).map(|split| vec![split]);
        }
        let (next, is_last) = {
            let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
            (splits.pop_front(), splits.is_empty())
        };
        if is_last {
            self.drained.notify_waiters();
        }
        next
    }

    /// Runs splits that were taken together, the way that is best now.
    async fn run_splits(
        &self,
        splits: &[ScanSplit],
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let began = Instant::now();
        let way = self.balance.as_ref().map_or(Way::Pushed, |balance| balance.way(began));
        if way == Way::Plain {
            for split in splits {
                if !self.read_plainly(split, out).await? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let bytes = splits.iter().map(|split| split.bytes(&self.spec.objects)).sum();
        if let Some(balance) = &self.balance {
            balance.begin(Way::Pushed, bytes, began);
        }
        let wanted = self.run_as_chosen(splits, out).await;
        if let Some(balance) = &self.balance {
            balance.end(Way::Pushed, bytes, began, Instant::now());
        }
        wanted
    }

    async fn run_as_chosen(
        &self,
        splits: &[ScanSplit],
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let located = |split: &ScanSplit| self.places.as_ref().is_some_and(|places| places.of(split.object).is_some());
        if let Choice::Storage { request, route: Route::Fragment, .. } = &self.choice
            && !splits.iter().any(located)
        {
            return self.run_fragment(request, splits, out).await;
        }
        for split in splits {
            if !SplitTask::new(self, split, out)?.run().await? {
                return Ok(false);
            }
            self.finished(split.bytes(&self.spec.objects));
        }
        Ok(true)
    }

    async fn read_plainly(
        &self,
        split: &ScanSplit,
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let (began, bytes) = (Instant::now(), split.bytes(&self.spec.objects));
        if let Some(balance) = &self.balance {
            balance.begin(Way::Plain, bytes, began);
        }
        let task = SplitTask::new(self, split, out)?;
        let wanted = if task.is_empty() { Ok(true) } else { task.plain().await };
        if let Some(balance) = &self.balance {
            balance.end(Way::Plain, bytes, began, Instant::now());
        }
        if matches!(wanted, Ok(true)) {
            self.finished(bytes);
        }
        wanted
    }

    /// A split of so many bytes is done.
    pub(super) fn finished(&self, bytes: u64) {
        self.query.progress.finish(bytes);
        self.scanned.done(bytes);
    }

    /// Reads splits from the end of the queue while that makes the scan faster.
    async fn help(&self, out: &Sender<datafusion::common::Result<RecordBatch>>) -> Result<()> {
        let Some(balance) = &self.balance else { return Ok(()) };
        loop {
            // From here on nothing that is told is missed.
            let drained = self.drained.notified();
            let taken = {
                let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
                let waiting: u64 = splits.iter().flatten().map(|split| split.bytes(&self.spec.objects)).sum();
                let Some(last) = splits.back_mut() else { return Ok(()) };
                let bytes = last.last().map_or(0, |split| split.bytes(&self.spec.objects));
                let taken = match balance.helps(bytes, waiting.saturating_sub(bytes), Instant::now()) {
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
                    self.query.meter.strategy(format!("{}: some splits are read plainly meanwhile", self.spec.name));
                    let wanted = tokio::select! {
                        done = self.read_plainly(&split, out) => done?,
                        error = self.query.exceeded() => return Err(error),
                    };
                    if !wanted {
                        return Ok(());
                    }
                }
                None => tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = drained => return Ok(()),
                    () = out.closed() => return Ok(()),
                },
            }
        }
    }

    /// Storage is busy: splits are read plainly for a while.
    pub(super) fn pushed_back(&self, error: &Error) {
        tracing::debug!(%error, table = self.spec.name, "storage is busy");
        self.query.meter.strategy(format!("{}: storage was busy, some splits were read plainly", self.spec.name));
        if let Some(balance) = &self.balance {
            balance.refused(Instant::now());
        }
    }

    pub(super) fn meters(&self) -> Meters {
        Meters(vec![Arc::clone(&self.query.meter), Arc::clone(&self.meter), Arc::clone(self.tally.meter())])
    }

    /// Where it is told that storage is no longer asked for some of it.
    pub(super) fn fall_backs(&self) -> FallBacks {
        let (query, tally) = (Arc::clone(&self.query), Arc::clone(&self.tally));
        FallBacks { query, tally, table: self.spec.name.clone() }
    }
}

/// The splits of a partition as a worker takes them: one at a time, or as many as one of so many requests asks for, of which
/// storage reads such a share.
fn in_requests(
    scan: &RemoteScanExec,
    splits: Vec<ScanSplit>,
    requests: usize,
    paces: Option<&Paces>,
    read: f64,
) -> VecDeque<Vec<ScanSplit>> {
    let spec = &scan.spec;
    if !matches!(scan.choice, Choice::Storage { route: Route::Fragment, .. }) || scan.index.places().is_some() {
        return splits.into_iter().map(|split| vec![split]).collect();
    }
    let format = |object: &DataObject| spec.table.format_of(object);
    let fits = |a: &DataObject, b: &DataObject| a.columns == b.columns && format(a) == format(b);
    let lookup = scan.index.by_node();
    // Of an object that is looked up next to nothing is read.
    let bytes = |split: &ScanSplit| match lookup.is_some_and(|lookup| lookup.is_of(split.object)) {
        true => 1,
        false => (split.bytes(&spec.objects) as f64 * read) as u64,
    };
    let all = splits.iter().map(|split| split.bytes(&spec.objects)).sum();
    let most = paces.map_or(requests, |paces| paces.requests(requests, all));
    let requests = fragment::requests(splits, &spec.objects, most, spec.options.objective, bytes, fits);
    // Only where hardly any rows are held back until a split is complete, and plain reads are not to share them.
    let joins =
        Figures::of(spec, &scan.fragment).sent_bytes() <= JOINED_BYTES && !paces.is_some_and(|paces| paces.together());
    match spec.rates().cores_told() {
        // One core takes one split after the other anyway; of several each is to have some.
        Some(cores) if joins => {
            let least = if cores == 1 { 1 } else { (SPLITS_A_CORE * cores).div_ceil(requests.len().max(1)) };
            requests.into_iter().map(|splits| fragment::joined(splits, least)).collect()
        }
        _ => requests.into(),
    }
}

/// Where it is told that storage is no longer asked for something of a table.
#[derive(Clone, Debug)]
pub(super) struct FallBacks {
    query: Arc<QueryContext>,
    tally: Arc<Tally>,
    table: String,
}

impl FallBacks {
    pub(super) fn tell(&self, error: &Error) {
        self.query.fall_back(&self.table, error);
        self.tally.meter().fell_back();
    }
}

/// A run and its metrics: when the last worker is gone, what it counted becomes the operator's metrics.
struct Running {
    run: Arc<Run>,
    metrics: ScanMetrics,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.run.tally.busy();
        self.run.tell_lookups();
        self.run.note_scanned();
        self.metrics.record(&self.run.meter, &self.run.told);
    }
}
