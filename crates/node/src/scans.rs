//! Where scans run: turns, a bounded queue before them, threads of their own, an account of their CPU time, and what
//! they learned.
//!
//! A scan is the one request that costs more CPU than network. So a node runs a bounded number at once, lets a
//! bounded number wait for a bounded time, and tells everyone else to slow down. Scans have threads of their
//! own: however many there are, the threads that answer plain reads are never behind one, and the kernel
//! shares the cores between the two.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pushdowndb_scan::{
    CancelOnDrop, Footers, Helpers, Interrupt, KnownFooter, MemoryBudget, Spawner, Task, lend_long, thread_cpu,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::Limits;
use crate::admission::{Requester, Share, Shares};
use crate::cores;
use crate::memory::{NodeMemory, ScanMemory};
use crate::record::{RequestRecord, Spent};
use crate::store::Object;
use crate::zones::ZoneCache;

/// A scan that keeps a footer for itself keeps it if it takes no more memory than this; else it is read again.
const OWN_FOOTER_BYTES: usize = 1 << 20;

/// The scans of a node.
#[derive(Debug)]
pub(crate) struct Scans {
    turns: Arc<Semaphore>,
    places: Semaphore,
    /// Turns of each key.
    of_keys: Shares,
    /// Places to wait of each key.
    waiting_of_keys: Shares,
    limits: ScanLimits,
    /// Taken by the drop only.
    runtime: Option<Runtime>,
    account: Account,
    memory: Arc<NodeMemory>,
    zones: ZoneCache,
    footers: Arc<Footers>,
}

#[derive(Clone, Copy, Debug)]
struct ScanLimits {
    cores: u32,
    turns: usize,
    waiting: usize,
    wait: Duration,
    /// What one key may have, unless its file says otherwise.
    key_turns: usize,
    key_waiting: usize,
    time: Duration,
}

#[derive(Debug, Default)]
struct Account {
    cpu_ns: AtomicU64,
    /// Requests that have a turn or wait for one.
    requests: AtomicU32,
    waited_ns: AtomicU64,
    refused: AtomicU64,
}

/// What the scans of a node have done and are doing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanFigures {
    pub active: usize,
    pub waiting: usize,
    pub refused: u64,
    pub waited: Duration,
    pub cpu: Duration,
    /// Tasks on the threads of scans.
    pub tasks: usize,
}

/// There is neither a turn nor a place to wait for one, or the wait was too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Saturated;

impl Scans {
    pub fn new(limits: &Limits, memory: Arc<NodeMemory>, zones: ZoneCache) -> io::Result<Self> {
        let threads = limits.select_threads.max(1);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("scan").enable_all();
        let runtime = cores::keep_to(&mut builder, threads).build()?;
        let footer_cache_bytes = limits.footer_cache_bytes;
        let (key_turns, key_waiting) = (limits.key_share(limits.selects), limits.key_share(limits.selects_waiting));
        let limits = ScanLimits {
            key_turns,
            key_waiting,
            cores: u32::try_from(threads).unwrap_or(u32::MAX),
            turns: limits.selects,
            waiting: limits.selects_waiting,
            wait: limits.select_wait,
            time: limits.select_time,
        };
        Ok(Self {
            turns: Arc::new(Semaphore::new(limits.turns)),
            places: Semaphore::new(limits.waiting),
            of_keys: Shares::default(),
            waiting_of_keys: Shares::default(),
            limits,
            runtime: Some(runtime),
            account: Account::default(),
            memory,
            zones,
            footers: Footers::new(footer_cache_bytes),
        })
    }

    /// What scans learned of the objects.
    pub fn zones(&self) -> &ZoneCache {
        &self.zones
    }

    /// Footers of Parquet objects that scans have read.
    pub fn footers(&self) -> &Arc<Footers> {
        &self.footers
    }

    /// Where the footer of an object is kept: for all scans, or for this one alone where another version might have
    /// the same ETag.
    pub fn footer(&self, object: &Object) -> KnownFooter {
        let etag = object.meta.etag.as_str();
        if object.data.is_settled() { self.footers.of(etag) } else { Footers::new(OWN_FOOTER_BYTES).of(etag) }
    }

    /// Waits for a turn; first come, first served among those whose key has its share not taken.
    pub async fn turn(
        self: &Arc<Self>,
        requester: &Requester,
        record: Option<Arc<RequestRecord>>,
    ) -> Result<Turn, Saturated> {
        let scanning = Scanning::begin(self);
        // First, so that nobody has a turn who waits for memory.
        let memory = self.memory(&requester.key).await.inspect_err(|_| {
            self.account.refused.fetch_add(1, Relaxed);
        })?;
        let held = match self.try_hold(requester) {
            Some(held) => held,
            None => self.queued(requester).await.inspect_err(|_| {
                self.account.refused.fetch_add(1, Relaxed);
            })?,
        };
        let (scans, requester) = (Arc::clone(self), requester.clone());
        let interrupt = Interrupt::after(self.limits.time);
        Ok(Turn { scans, requester, record, memory, interrupt, _scanning: Some(scanning), _held: held })
    }

    /// The memory that a scan of this key begins with.
    async fn memory(&self, key: &str) -> Result<ScanMemory, Saturated> {
        let memory = tokio::time::timeout(self.limits.wait, self.memory.scan(key)).await;
        memory.map_err(|_| Saturated)?.map_err(|_| Saturated)
    }

    /// One more turn for a request that has one already, if any is free. It draws from the same memory, and its work ends
    /// with that of the other.
    pub fn free_turn(self: &Arc<Self>, requester: &Requester, other: &Bill, memory: &MemoryBudget) -> Option<Turn> {
        let held = self.try_hold(requester)?;
        let memory = self.memory.helper(memory).ok()?;
        let Bill { record, interrupt, .. } = other.clone();
        let (scans, requester) = (Arc::clone(self), requester.clone());
        Some(Turn { scans, requester, record, memory, interrupt, _scanning: None, _held: held })
    }

    fn key_turns(&self, requester: &Requester) -> usize {
        requester.scans.unwrap_or(self.limits.key_turns)
    }

    fn try_hold(&self, requester: &Requester) -> Option<Held> {
        let share = self.of_keys.try_take(&requester.key, self.key_turns(requester))?;
        let permit = Arc::clone(&self.turns).try_acquire_owned().ok()?;
        Some(Held { _permit: permit, _share: share })
    }

    async fn queued(&self, requester: &Requester) -> Result<Held, Saturated> {
        let key_waiting = requester.scans.unwrap_or(self.limits.key_waiting);
        let _of_key = self.waiting_of_keys.try_take(&requester.key, key_waiting).ok_or(Saturated)?;
        let _place = self.places.try_acquire().map_err(|_| Saturated)?;
        let since = Instant::now();
        let held = async {
            // The share first: a turn is not kept from others by a key that may not have it yet.
            let share = self.of_keys.take(&requester.key, self.key_turns(requester)).await?;
            let permit = Arc::clone(&self.turns).acquire_owned().await.ok()?;
            Some(Held { _permit: permit, _share: share })
        };
        let held = tokio::time::timeout(self.limits.wait, held).await;
        self.account.waited_ns.fetch_add(nanos(since.elapsed()), Relaxed);
        held.ok().flatten().ok_or(Saturated)
    }

    /// Whether there is neither a turn nor a place to wait for one. A node that scans nothing is never full of scans.
    pub fn is_saturated(&self) -> bool {
        self.limits.turns > 0 && self.turns.available_permits() == 0 && self.places.available_permits() == 0
    }

    /// How many cores scan, and for how many requests: those that have a turn or wait for one.
    pub fn load(&self) -> (u32, u32) {
        (self.limits.cores, self.account.requests.load(Relaxed))
    }

    /// Threads that scan, about.
    pub fn scanning(&self) -> usize {
        self.limits.turns.saturating_sub(self.turns.available_permits()).min(self.limits.cores as usize)
    }

    pub fn figures(&self) -> ScanFigures {
        let ns = |count: &AtomicU64| Duration::from_nanos(count.load(Relaxed));
        ScanFigures {
            active: self.limits.turns.saturating_sub(self.turns.available_permits()),
            waiting: self.limits.waiting.saturating_sub(self.places.available_permits()),
            refused: self.account.refused.load(Relaxed),
            waited: ns(&self.account.waited_ns),
            cpu: ns(&self.account.cpu_ns),
            tasks: self.runtime.as_ref().map_or(0, |runtime| runtime.metrics().num_alive_tasks()),
        }
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        // A runtime that is dropped among async tasks would panic; what still runs is cut off.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The right to scan. Dropping it gives the turn to the next.
#[derive(Debug)]
pub(crate) struct Turn {
    scans: Arc<Scans>,
    requester: Requester,
    record: Option<Arc<RequestRecord>>,
    memory: ScanMemory,
    /// Ends the work of the request, on all threads.
    interrupt: Interrupt,
    _scanning: Option<Scanning>,
    _held: Held,
}

/// A turn, and its place in the share of the key.
#[derive(Debug)]
struct Held {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

/// A request that scans or waits for its turn, as long as this lives.
#[derive(Debug)]
struct Scanning(Arc<Scans>);

impl Scanning {
    fn begin(scans: &Arc<Scans>) -> Self {
        scans.account.requests.fetch_add(1, Relaxed);
        Self(Arc::clone(scans))
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        self.0.account.requests.fetch_sub(1, Relaxed);
    }
}

impl Turn {
    /// What the scan may draw its memory from.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory.budget
    }

    /// Starts what a scan does beside itself where scans run, booked like the scan.
    pub fn spawner(&self) -> Spawner {
        let bill = self.bill();
        Spawner::new(move |work| bill.start(work))
    }

    /// [`Self::spawner`], with the turn kept as long as anybody has it.
    pub fn into_spawner(self) -> Spawner {
        Spawner::new(move |work| self.bill().start(work))
    }

    /// Who scans up to so many pieces of an object at once for the request that has this turn: each but the first takes
    /// a turn that nobody waits for, and gives it back when its piece was scanned.
    pub fn helpers(&self, most: usize) -> Helpers {
        let (bill, requester) = (self.bill(), self.requester.clone());
        let memory = self.memory.budget.clone();
        Helpers::new(most, move || Some(bill.scans.free_turn(&requester, &bill, &memory)?.into_spawner()))
    }

    /// The same turn, with less time for its work.
    pub fn within(self, time: Duration) -> Self {
        Self { interrupt: self.interrupt.inner_after(time), ..self }
    }

    /// Ends all work of the request when it is dropped: to be kept with the answer, which a client that leaves drops.
    pub fn end_on_drop(&self) -> CancelOnDrop {
        self.interrupt.cancel_on_drop()
    }

    /// Whom the work of this turn is booked to.
    pub fn bill(&self) -> Bill {
        Bill { scans: Arc::clone(&self.scans), record: self.record.clone(), interrupt: self.interrupt.clone() }
    }
}

/// Runs work on the threads of scans and books its CPU time, also when its turn has moved on into the work.
#[derive(Clone, Debug)]
pub(crate) struct Bill {
    scans: Arc<Scans>,
    record: Option<Arc<RequestRecord>>,
    interrupt: Interrupt,
}

impl Bill {
    /// Starts the work; dropping the result ends it, though it never waits.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task::start(&self.interrupt, work, |work| self.start(work))
    }

    fn start<T: Send + 'static>(&self, work: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T> {
        let metered = Metered { work, bill: self.clone() };
        match &self.scans.runtime {
            Some(runtime) => runtime.spawn(metered),
            None => tokio::spawn(metered),
        }
    }

    /// Fails if the client has left, or if the time of the request is up.
    pub fn check(&self) -> pushdown::Result<()> {
        self.interrupt.check()
    }

    /// Does work of a scan on this thread, whosever it is, and books its CPU time if there is somebody to pay.
    pub fn time<T>(bill: &Option<Self>, work: impl FnOnce() -> T) -> T {
        let Some(bill) = bill else { return work() };
        let clock = Clock::start();
        let done = work();
        bill.spent(clock.spent());
        done
    }

    /// Books what a scan read and returned.
    pub fn book(&self, scanned: u64, returned: u64) {
        if let Some(record) = &self.record {
            record.scanned(scanned, returned);
        }
    }

    fn spent(&self, time: Spent) {
        self.scans.account.cpu_ns.fetch_add(nanos(time.cpu), Relaxed);
        if let Some(record) = &self.record {
            record.spent(time);
        }
    }
}

/// Work whose time on a core is counted, poll by poll.
struct Metered<T> {
    work: Pin<Box<dyn Future<Output = T> + Send>>,
    bill: Bill,
}

impl<T> Future for Metered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let clock = Clock::start();
        let step = lend_long(|| self.work.as_mut().poll(cx));
        self.bill.spent(clock.spent());
        step
    }
}

/// What this thread spends.
struct Clock {
    began: Instant,
    cpu: Duration,
}

impl Clock {
    fn start() -> Self {
        Self { began: Instant::now(), cpu: thread_cpu() }
    }

    fn spent(&self) -> Spent {
        Spent { cpu: thread_cpu().saturating_sub(self.cpu), busy: self.began.elapsed() }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scans(selects: usize, waiting: usize, wait: Duration) -> Arc<Scans> {
        let limits =
            Limits { selects, selects_waiting: waiting, select_wait: wait, memory_bytes: 4 << 30, ..Limits::default() };
        Arc::new(Scans::new(&limits, Arc::new(NodeMemory::new(&limits)), ZoneCache::new(0, None)).unwrap())
    }

    fn requester(key: &str) -> Requester {
        Requester { key: key.to_owned(), requests: None, scans: None }
    }

    #[tokio::test]
    async fn a_key_that_took_its_share_leaves_turns_for_others() {
        let scans = scans(4, 4, Duration::from_secs(60));
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push(scans.turn(&requester("a"), None).await.unwrap());
        }
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let scans = Arc::clone(&scans);
                tokio::spawn(async move { scans.turn(&requester("a"), None).await.map(drop) })
            })
            .collect();
        while scans.figures().waiting < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(scans.turn(&requester("a"), None).await.err(), Some(Saturated));
        drop(scans.turn(&requester("b"), None).await.unwrap());
        assert!(!scans.is_saturated());
        drop(turns);
        for turn in waiting {
            assert_eq!(turn.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn turns_and_the_queue_are_bounded() {
        let scans = scans(1, 1, Duration::from_secs(60));
        let first = scans.turn(&requester("a"), None).await.unwrap();
        let waiting = tokio::spawn({
            let scans = Arc::clone(&scans);
            async move { scans.turn(&requester("a"), None).await.map(drop) }
        });
        while scans.figures().waiting == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(scans.turn(&requester("a"), None).await.err(), Some(Saturated), "no place to wait");
        assert_eq!((scans.figures().active, scans.figures().refused), (1, 1));
        assert_eq!(scans.load().1, 2, "who waits counts, who was sent away does not");
        drop(first);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!((scans.figures().active, scans.figures().waiting), (0, 0));
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let scans = scans(1, 9, Duration::from_millis(20));
        let _first = scans.turn(&requester("a"), None).await.unwrap();
        assert_eq!(scans.turn(&requester("a"), None).await.err(), Some(Saturated));
        assert!(scans.figures().waited >= Duration::from_millis(20));
    }

    #[tokio::test]
    async fn cpu_time_is_booked_and_dropped_work_ends() {
        let scans = scans(1, 0, Duration::ZERO);
        let turn = scans.turn(&requester("a"), None).await.unwrap();
        let spin = async {
            let since = thread_cpu();
            while thread_cpu() - since < Duration::from_millis(20) {}
            std::thread::current().name().map(str::to_owned)
        };
        assert_eq!(turn.bill().spawn(spin).await.unwrap().as_deref(), Some("scan"));
        assert!(scans.figures().cpu >= Duration::from_millis(20));
        let (held, free) = tokio::sync::oneshot::channel::<()>();
        drop(turn.bill().spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
        assert!(free.await.is_err(), "the work went on");
    }
}
