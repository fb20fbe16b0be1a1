//! Permits for scans, and the queue of requests that wait for one.
//!
//! Scans are the only requests that cost more CPU than network. So a node runs a bounded number at
//! once, queues a bounded number for a bounded time, and refuses the rest with SlowDown. Scans have
//! threads of their own: plain reads are never queued behind them, and the kernel shares the cores
//! between both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pushdowndb_scan::{CancelOnDrop, Footers, Helpers, Interrupt, KnownFooter, MemoryBudget, Spawner};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::threads::{CpuAccount, ScanThreads};
use super::zone_cache::ZoneCache;
use crate::Limits;
use crate::admission::{NodeMemory, Requester, ScanMemory, Share, Shares};
use crate::store::Object;
use crate::telemetry::{RequestRecord, nanos};

/// Maximum size of a footer that is kept for a single scan; a larger one is read again.
const MAX_OWN_FOOTER_BYTES: usize = 1 << 20;

/// The scheduler of a node's scans.
#[derive(Debug)]
pub(crate) struct ScanScheduler {
    permits: Arc<Semaphore>,
    queue: Semaphore,
    /// Permits held by each key.
    by_key: Shares,
    /// Queue slots held by each key.
    waiting_by_key: Shares,
    limits: ScanLimits,
    threads: Arc<ScanThreads>,
    counters: QueueCounters,
    memory: Arc<NodeMemory>,
    zones: ZoneCache,
    footers: Arc<Footers>,
}

#[derive(Clone, Copy, Debug)]
struct ScanLimits {
    cores: u32,
    permits: usize,
    waiting: usize,
    wait: Duration,
    /// Defaults for keys whose entry in the keyring file sets no limits.
    key_permits: usize,
    key_waiting: usize,
    time: Duration,
}

#[derive(Debug, Default)]
struct QueueCounters {
    /// Requests that have a permit or wait for one.
    requests: AtomicU32,
    waited_ns: AtomicU64,
    refused: AtomicU64,
}

/// Statistics of the scans of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanStats {
    pub active: usize,
    pub waiting: usize,
    pub refused: u64,
    pub waited: Duration,
    pub cpu: Duration,
    /// Live tasks on the threads of scans.
    pub tasks: usize,
}

/// The error if there is no free permit and no free queue slot, or the wait was too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Overloaded;

impl ScanScheduler {
    pub fn new(limits: &Limits, memory: Arc<NodeMemory>, zones: ZoneCache) -> io::Result<Self> {
        let threads = limits.select_threads.max(1);
        let workers = ScanThreads::start(threads)?;
        let footer_cache_bytes = limits.footer_cache_bytes;
        let (key_permits, key_waiting) = (limits.key_share(limits.selects), limits.key_share(limits.selects_waiting));
        let limits = ScanLimits {
            key_permits,
            key_waiting,
            cores: u32::try_from(threads).unwrap_or(u32::MAX),
            permits: limits.selects,
            waiting: limits.selects_waiting,
            wait: limits.select_wait,
            time: limits.select_time,
        };
        Ok(Self {
            permits: Arc::new(Semaphore::new(limits.permits)),
            queue: Semaphore::new(limits.waiting),
            by_key: Shares::default(),
            waiting_by_key: Shares::default(),
            limits,
            threads: workers,
            counters: QueueCounters::default(),
            memory,
            zones,
            footers: Footers::new(footer_cache_bytes),
        })
    }

    /// The cached zones of objects.
    pub fn zones(&self) -> &ZoneCache {
        &self.zones
    }

    /// The cached footers of Parquet objects.
    pub fn footers(&self) -> &Arc<Footers> {
        &self.footers
    }

    /// The cache entry for the footer of `object`. It is shared between scans unless another
    /// version of the object might have the same ETag.
    pub fn footer(&self, object: &Object) -> KnownFooter {
        let etag = object.meta.etag.as_str();
        if object.data.is_stable() { self.footers.of(etag) } else { Footers::new(MAX_OWN_FOOTER_BYTES).of(etag) }
    }

    /// Waits for a permit. Keys that have not used up their share are served in the order of their
    /// requests.
    pub async fn permit(
        self: &Arc<Self>,
        requester: &Requester,
        record: Option<Arc<RequestRecord>>,
    ) -> Result<ScanPermit, Overloaded> {
        let scanning = ActiveRequest::begin(self);
        // Memory comes first, so that no permit is held while waiting for it.
        let memory = self.memory(&requester.key).await.inspect_err(|_| {
            self.counters.refused.fetch_add(1, Relaxed);
        })?;
        let held = match self.try_permit(requester) {
            Some(held) => held,
            None => self.queued(requester).await.inspect_err(|_| {
                self.counters.refused.fetch_add(1, Relaxed);
            })?,
        };
        let (scans, requester) = (Arc::clone(self), requester.clone());
        let interrupt = Interrupt::after(self.limits.time);
        Ok(ScanPermit { scans, requester, record, memory, interrupt, _active: Some(scanning), _held: held })
    }

    /// Waits for the initial memory of a scan for `key`.
    async fn memory(&self, key: &str) -> Result<ScanMemory, Overloaded> {
        let memory = tokio::time::timeout(self.limits.wait, self.memory.scan(key)).await;
        memory.map_err(|_| Overloaded)?.map_err(|_| Overloaded)
    }

    /// Takes one more permit for a request that already has one, if any is free. The permit draws
    /// from the memory of the request and is canceled with it.
    pub fn try_extra_permit(
        self: &Arc<Self>,
        requester: &Requester,
        other: &CpuAccount,
        memory: &MemoryBudget,
    ) -> Option<ScanPermit> {
        let held = self.try_permit(requester)?;
        let memory = self.memory.helper(memory).ok()?;
        let (record, interrupt) = other.request();
        let (scans, requester) = (Arc::clone(self), requester.clone());
        Some(ScanPermit { scans, requester, record, memory, interrupt, _active: None, _held: held })
    }

    fn key_permits(&self, requester: &Requester) -> usize {
        requester.scans.unwrap_or(self.limits.key_permits)
    }

    fn try_permit(&self, requester: &Requester) -> Option<HeldPermit> {
        let share = self.by_key.try_take(&requester.key, self.key_permits(requester))?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(HeldPermit { _permit: permit, _share: share })
    }

    async fn queued(&self, requester: &Requester) -> Result<HeldPermit, Overloaded> {
        let key_waiting = requester.scans.unwrap_or(self.limits.key_waiting);
        let _of_key = self.waiting_by_key.try_take(&requester.key, key_waiting).ok_or(Overloaded)?;
        let _place = self.queue.try_acquire().map_err(|_| Overloaded)?;
        let since = Instant::now();
        let held = async {
            // The share comes first: a key that has used up its share must not hold a permit.
            let share = self.by_key.take(&requester.key, self.key_permits(requester)).await?;
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            Some(HeldPermit { _permit: permit, _share: share })
        };
        let held = tokio::time::timeout(self.limits.wait, held).await;
        self.counters.waited_ns.fetch_add(nanos(since.elapsed()), Relaxed);
        held.ok().flatten().ok_or(Overloaded)
    }

    /// Whether there is neither a free permit nor a free queue slot. False if scans are disabled.
    pub fn is_overloaded(&self) -> bool {
        self.limits.permits > 0 && self.permits.available_permits() == 0 && self.queue.available_permits() == 0
    }

    /// The number of scan threads, and of requests that have a permit or wait for one.
    pub fn load(&self) -> (u32, u32) {
        (self.limits.cores, self.counters.requests.load(Relaxed))
    }

    pub fn figures(&self) -> ScanStats {
        let ns = |count: &AtomicU64| Duration::from_nanos(count.load(Relaxed));
        ScanStats {
            active: self.limits.permits.saturating_sub(self.permits.available_permits()),
            waiting: self.limits.waiting.saturating_sub(self.queue.available_permits()),
            refused: self.counters.refused.load(Relaxed),
            waited: ns(&self.counters.waited_ns),
            cpu: self.threads.cpu(),
            tasks: self.threads.tasks(),
        }
    }
}

/// The right to scan, released on drop.
#[derive(Debug)]
pub(crate) struct ScanPermit {
    scans: Arc<ScanScheduler>,
    requester: Requester,
    record: Option<Arc<RequestRecord>>,
    memory: ScanMemory,
    /// Cancels the work of the request, on all threads.
    interrupt: Interrupt,
    _active: Option<ActiveRequest>,
    _held: HeldPermit,
}

/// A permit, and its slot in the share of the key.
#[derive(Debug)]
struct HeldPermit {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

/// Counts a request that scans or waits for a permit, for as long as it lives.
#[derive(Debug)]
struct ActiveRequest(Arc<ScanScheduler>);

impl ActiveRequest {
    fn begin(scans: &Arc<ScanScheduler>) -> Self {
        scans.counters.requests.fetch_add(1, Relaxed);
        Self(Arc::clone(scans))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.counters.requests.fetch_sub(1, Relaxed);
    }
}

impl ScanPermit {
    /// The budget that the scan draws from.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory.budget
    }

    /// Spawns tasks of the scan on its threads, charged to the same request.
    pub fn spawner(&self) -> Spawner {
        let account = self.account();
        Spawner::new(move |work| account.start(work))
    }

    /// Like [`Self::spawner`], but keeps the permit as long as the spawner lives.
    pub fn into_spawner(self) -> Spawner {
        Spawner::new(move |work| self.account().start(work))
    }

    /// Helpers that scan up to `most` pieces of an object in parallel. Each but the first takes a
    /// free permit, and releases it when its piece is done.
    pub fn helpers(&self, most: usize) -> Helpers {
        let (account, requester) = (self.account(), self.requester.clone());
        let memory = self.memory.budget.clone();
        let scans = Arc::clone(&self.scans);
        Helpers::new(most, move || Some(scans.try_extra_permit(&requester, &account, &memory)?.into_spawner()))
    }

    /// Limits the work under this permit to `time`.
    pub fn within(self, time: Duration) -> Self {
        Self { interrupt: self.interrupt.inner_after(time), ..self }
    }

    /// Cancels all work of the request when the result is dropped. The response must own the
    /// result, since it is dropped when the client disconnects.
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        self.interrupt.cancel_on_drop()
    }

    /// The account that the work is charged to.
    pub fn account(&self) -> CpuAccount {
        CpuAccount::new(&self.scans.threads, self.record.clone(), self.interrupt.clone())
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_scan::thread_cpu;

    use super::*;

    fn scans(selects: usize, waiting: usize, wait: Duration) -> Arc<ScanScheduler> {
        let limits =
            Limits { selects, selects_waiting: waiting, select_wait: wait, memory_bytes: 4 << 30, ..Limits::default() };
        Arc::new(ScanScheduler::new(&limits, Arc::new(NodeMemory::new(&limits)), ZoneCache::new(0, None)).unwrap())
    }

    fn requester(key: &str) -> Requester {
        Requester { key: key.to_owned(), requests: None, scans: None }
    }

    #[tokio::test]
    async fn a_key_that_took_its_share_leaves_turns_for_others() {
        let scans = scans(4, 4, Duration::from_secs(60));
        let mut permits = Vec::new();
        for _ in 0..3 {
            permits.push(scans.permit(&requester("a"), None).await.unwrap());
        }
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let scans = Arc::clone(&scans);
                tokio::spawn(async move { scans.permit(&requester("a"), None).await.map(drop) })
            })
            .collect();
        while scans.figures().waiting < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(scans.permit(&requester("a"), None).await.err(), Some(Overloaded));
        drop(scans.permit(&requester("b"), None).await.unwrap());
        assert!(!scans.is_overloaded());
        drop(permits);
        for permit in waiting {
            assert_eq!(permit.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn turns_and_the_queue_are_bounded() {
        let scans = scans(1, 1, Duration::from_secs(60));
        let first = scans.permit(&requester("a"), None).await.unwrap();
        let waiting = tokio::spawn({
            let scans = Arc::clone(&scans);
            async move { scans.permit(&requester("a"), None).await.map(drop) }
        });
        while scans.figures().waiting == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(scans.permit(&requester("a"), None).await.err(), Some(Overloaded), "no place to wait");
        assert_eq!((scans.figures().active, scans.figures().refused), (1, 1));
        assert_eq!(scans.load().1, 2, "who waits counts, who was sent away does not");
        drop(first);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!((scans.figures().active, scans.figures().waiting), (0, 0));
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let scans = scans(1, 9, Duration::from_millis(20));
        let _first = scans.permit(&requester("a"), None).await.unwrap();
        assert_eq!(scans.permit(&requester("a"), None).await.err(), Some(Overloaded));
        assert!(scans.figures().waited >= Duration::from_millis(20));
    }

    #[tokio::test]
    async fn cpu_time_is_booked_and_dropped_work_ends() {
        let scans = scans(1, 0, Duration::ZERO);
        let permit = scans.permit(&requester("a"), None).await.unwrap();
        let spin = async {
            let since = thread_cpu();
            while thread_cpu() - since < Duration::from_millis(20) {}
            std::thread::current().name().map(str::to_owned)
        };
        assert_eq!(permit.account().spawn(spin).await.unwrap().as_deref(), Some("scan"));
        assert!(scans.figures().cpu >= Duration::from_millis(20));
        let (held, free) = tokio::sync::oneshot::channel::<()>();
        drop(permit.account().spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
        assert!(free.await.is_err(), "the work went on");
    }
}
