//! Adaptive scheduling of a running scan: each split is scanned by storage or by plain reads.
//!
//! The placement chosen by the planner is revised at each split, from measurements:
//!
//! - After storage throttles a split, it gets no splits for [`THROTTLE_PAUSE`]; the engine reads
//!   them.
//! - If plain reads are more than [`MAX_SLOWDOWN`] times as fast as storage, storage gets only
//!   every [`PROBE_INTERVAL_SPLITS`]th split, which detects its recovery.
//! - A stealing worker reads splits plainly from the end of the queue, if the estimate says that
//!   this saves time, or if storage is far slower than estimated. Storage, network and engine are
//!   then busy at once. The worker takes a split only if it should finish it before storage
//!   finishes the rest of the queue. If the network has not been measured yet, plain reads need not
//!   reach [`MIN_STEAL_SHARE`] until a first stolen split has measured it.
//!
//! Both sources return the same rows.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pushdowndb_contract::Fragment;

use crate::cost::cardinality::Cardinality;
use crate::cost::scan::ScanCosts;
use crate::plan::estimate::Estimate;
use crate::plan::placement::Route;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::{Adaptivity, Objective, Side};

/// Time during which storage gets no splits after it throttled one.
const THROTTLE_PAUSE: Duration = Duration::from_secs(3);

/// Storage is skipped if plain reads are more than this many times as fast as storage.
const MAX_SLOWDOWN: f64 = 2.0;

/// While storage is skipped, it still gets one in this many splits, to detect its recovery.
const PROBE_INTERVAL_SPLITS: u64 = 8;

/// Minimum throughput of plain reads, as a fraction of storage throughput, for them to steal
/// splits.
const MIN_STEAL_SHARE: f64 = 0.25;

/// Minimum bytes still to be scanned for storage and plain reads to share them.
const MIN_SHARED_BYTES: u64 = 32 * 1024 * 1024;

/// Requests that each worker sends in sequence if plain reads are fast enough to steal splits
/// between them.
const MAX_REQUESTS_PER_WORKER: usize = 4;
/// Requests that each worker sends in sequence if plain reads would steal splits only after storage
/// slows down.
const REQUESTS_PER_WORKER: usize = 2;

/// Minimum estimated duration of a request in storage, in seconds. Each request has a fixed cost of
/// about a millisecond, which outweighs the gain from overlapping shorter requests.
const MIN_REQUEST_S: f64 = 0.025;

/// Number of pieces of a scan that both sources share from the start. With fewer pieces, the wait
/// for the last one is longer.
const SHARED_PIECES: u64 = 32;

/// Number of pieces of a scan that storage starts alone and plain reads may steal from later, and
/// of a Parquet scan that both sources share from the start.
const PIECES: u64 = 8;

/// Minimum bytes of a Parquet piece, unless both sources share the scan from the start.
const MIN_PARQUET_PIECE_BYTES: u64 = 48 * 1024 * 1024;

/// Maximum bytes that the pieces of a scan shared from the start may return repeatedly in total,
/// such as the same groups once per piece.
const MAX_SHARED_REPEATED_BYTES: f64 = 4e6;

/// Maximum bytes of the same rows or groups that several requests may return, if a scan is cut into
/// several requests only so that splits can be stolen.
pub(crate) const MAX_REPEATED_BYTES: f64 = 250e3;

/// Estimated throughput of a pushed scan by storage and by plain reads, in object bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throughput {
    pushed: f64,
    plain: f64,
    /// Whether both sources together are estimated to be faster than one.
    together: bool,
    /// Whether `plain` comes from a measured network.
    plain_measured: bool,
    /// Estimated bytes that each request returns in addition to the rows of its splits, such as
    /// groups.
    repeated_bytes: f64,
    /// Whether the objective is cost, which is dominated by the number of requests.
    is_cost: bool,
    /// Whether the network link is the bottleneck, rather than storage.
    is_link_bound: bool,
    adaptivity: Adaptivity,
}

impl Throughput {
    /// Estimates the throughput of both sources before the scan runs. Returns `None` if a limit or
    /// a setting fixes the source.
    pub(crate) fn of(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment, route: Route) -> Option<Self> {
        let side = match &plan.aggregate {
            Some(_) => context.options.aggregate,
            None => context.options.filter_side(),
        };
        let adaptivity = context.options.adaptivity();
        if side != Side::Auto || plan.limit.is_some() || adaptivity == Adaptivity::None {
            return None;
        }
        let costs = ScanCosts::of(plan, context, fragment, Some(route));
        let bytes = plan.objects.iter().map(|object| object.size).sum::<u64>() as f64;
        let bytes_per_s = |estimate: Estimate| bytes / estimate.seconds.max(1e-6);
        let (pushed, plain) = (costs.filtered(), costs.plain(0.0));
        // Two sources take less time, but more requests and bytes.
        let is_cost = costs.model().objective() == Objective::Cost;
        let together = !is_cost && costs.shared().is_some();
        let (plain_measured, is_link_bound) = (costs.model().knows_network(), costs.is_bound_by_link());
        let repeated_bytes = Cardinality::of(plan, context, fragment).repeated_bytes();
        let (pushed, plain) = (bytes_per_s(pushed), bytes_per_s(plain));
        Some(Self { pushed, plain, together, plain_measured, repeated_bytes, is_cost, is_link_bound, adaptivity })
    }

    /// Whether both sources share the splits from the start.
    pub(crate) fn together(&self) -> bool {
        self.together || self.adaptivity == Adaptivity::Both
    }

    /// Returns the number of requests that `workers` workers send for splits of `bytes` bytes in
    /// total. Plain reads can steal splits between two requests of a worker.
    pub(crate) fn requests(&self, workers: usize, bytes: u64) -> usize {
        if self.together() {
            return workers * MAX_REQUESTS_PER_WORKER;
        }
        // A pause between requests would leave the link idle.
        if self.is_link_bound {
            return 1;
        }
        let per_worker = match self.is_cost || self.repeated_bytes > MAX_REPEATED_BYTES {
            true => 1,
            false if self.plain >= self.pushed * MIN_STEAL_SHARE => MAX_REQUESTS_PER_WORKER,
            false => REQUESTS_PER_WORKER,
        };
        let worth_it = (bytes as f64 / self.pushed / MIN_REQUEST_S) as usize;
        worth_it.clamp(workers, workers * per_worker)
    }

    /// Returns the bytes per piece of an aggregate over `bytes` bytes, or `None` if the sources do
    /// not share it.
    pub(crate) fn piece_bytes(&self, bytes: u64, is_parquet: bool) -> Option<u64> {
        let pieces = match (is_parquet, self.together) {
            (false, true) => SHARED_PIECES,
            (false, false) | (true, true) => PIECES,
            (true, false) => (bytes / MIN_PARQUET_PIECE_BYTES).clamp(1, PIECES),
        };
        let shared = match self.adaptivity {
            Adaptivity::Both => true,
            _ => {
                let most = if self.together { MAX_SHARED_REPEATED_BYTES } else { MAX_REPEATED_BYTES };
                bytes >= MIN_SHARED_BYTES
                    && self.plain >= self.pushed * MIN_STEAL_SHARE
                    && self.repeated_bytes * pieces as f64 <= most
            }
        };
        shared.then(|| bytes.div_ceil(pieces).max(1))
    }
}

/// Source of a split's rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ScanSource {
    Storage,
    PlainReads,
}

/// Scheduler of the splits of one partition.
#[derive(Debug)]
pub(crate) struct AdaptiveScheduler {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pushed: SourceRate,
    plain: SourceRate,
    /// End of the pause after throttling.
    throttled_until: Option<Instant>,
    /// Number of splits handed out since storage was last used.
    skipped: u64,
    /// Number of workers that run splits in storage.
    workers: f64,
    /// Whether plain reads steal while storage keeps its estimated throughput.
    together: bool,
    plain_measured: bool,
    /// Whether plain reads steal unconditionally.
    always: bool,
}

/// Measured throughput of one source: bytes of finished splits per worker time.
#[derive(Clone, Copy, Debug)]
struct SourceRate {
    /// Estimate for one worker before the first measurement, in bytes per second.
    estimate: f64,
    bytes: u64,
    busy: Duration,
    /// Number of running splits.
    running: u32,
    /// Bytes of the largest split that began since none was running.
    running_bytes: u64,
    /// When a split last ended, or when one began while none was running; `None` while none is
    /// running. No running split has ended since then, which bounds the throughput from above.
    last_change: Option<Instant>,
}

impl SourceRate {
    fn new(estimate: f64) -> Self {
        Self { estimate, bytes: 0, busy: Duration::ZERO, running: 0, running_bytes: 0, last_change: None }
    }

    /// Returns the bytes per second of one worker. The time that running splits have taken so far
    /// bounds it from above, so that a source that hangs becomes slow before it returns anything.
    fn per_worker(&self, now: Instant) -> f64 {
        let measured = match self.busy.is_zero() {
            true => self.estimate,
            false => self.bytes as f64 / self.busy.as_secs_f64().max(1e-6),
        };
        let Some(last_change) = self.last_change else { return measured };
        let waiting = now.saturating_duration_since(last_change).as_secs_f64();
        measured.min(self.running_bytes as f64 / waiting.max(1e-6))
    }

    /// Returns the bytes per second of all running workers together.
    fn all_workers(&self, now: Instant) -> f64 {
        self.per_worker(now) * f64::from(self.running.max(1))
    }

    fn begin(&mut self, bytes: u64, now: Instant) {
        if self.running == 0 {
            (self.last_change, self.running_bytes) = (Some(now), 0);
        }
        self.running += 1;
        self.running_bytes = self.running_bytes.max(bytes);
    }

    fn end(&mut self, bytes: u64, began: Instant, now: Instant) {
        self.running = self.running.saturating_sub(1);
        self.bytes += bytes;
        self.busy += now.saturating_duration_since(began);
        self.last_change = (self.running > 0).then_some(now);
    }
}

impl AdaptiveScheduler {
    /// Creates a scheduler for `workers` workers and one stealing worker, with estimates from
    /// `throughput`.
    pub(crate) fn new(throughput: &Throughput, workers: usize) -> Self {
        let workers = workers as f64;
        let (pushed, plain) = (SourceRate::new(throughput.pushed / workers), SourceRate::new(throughput.plain));
        let always = throughput.adaptivity == Adaptivity::Both;
        let Throughput { together, plain_measured, .. } = *throughput;
        let state =
            State { pushed, plain, throttled_until: None, skipped: 0, workers, together, plain_measured, always };
        Self { state: Mutex::new(state) }
    }

    /// Returns the source of the next split of a worker that uses storage by default.
    pub(crate) fn next_source(&self, now: Instant) -> ScanSource {
        let state = &mut *self.lock();
        if state.throttled_until.is_some_and(|until| now < until) {
            return ScanSource::PlainReads;
        }
        state.throttled_until = None;
        let measured = state.pushed.bytes > 0 && state.plain.bytes > 0;
        if !measured || state.pushed.per_worker(now) * state.workers * MAX_SLOWDOWN > state.plain.per_worker(now) {
            state.skipped = 0;
            return ScanSource::Storage;
        }
        state.skipped += 1;
        if state.skipped.is_multiple_of(PROBE_INTERVAL_SPLITS) { ScanSource::Storage } else { ScanSource::PlainReads }
    }

    /// Returns whether to steal a split of `split` bytes while `waiting` bytes remain queued.
    pub(crate) fn should_steal(&self, split: u64, waiting: u64, now: Instant) -> bool {
        let state = self.lock();
        let (pushed, plain) = (state.pushed.all_workers(now), state.plain.per_worker(now));
        let is_known = state.plain_measured || state.plain.bytes > 0;
        let fair = plain >= pushed * MIN_STEAL_SHARE || !is_known;
        let in_time = split as f64 / plain.max(1.0) <= waiting as f64 / pushed.max(1.0);
        let late = state.pushed.per_worker(now) * MAX_SLOWDOWN < state.pushed.estimate;
        state.always || waiting >= MIN_SHARED_BYTES && (state.together || late) && fair && in_time
    }

    /// Records the start of a split of `bytes` bytes.
    pub(crate) fn begin(&self, source: ScanSource, bytes: u64, now: Instant) {
        self.rate(&mut self.lock(), source).begin(bytes, now);
    }

    /// Records the end of a split started at `began`; `bytes` is 0 if it returned nothing.
    pub(crate) fn end(&self, source: ScanSource, bytes: u64, began: Instant, now: Instant) {
        self.rate(&mut self.lock(), source).end(bytes, began, now);
    }

    /// Records that storage throttled a split.
    pub(crate) fn throttled(&self, now: Instant) {
        self.lock().throttled_until = Some(now + THROTTLE_PAUSE);
    }

    fn rate<'a>(&self, state: &'a mut State, source: ScanSource) -> &'a mut SourceRate {
        match source {
            ScanSource::Storage => &mut state.pushed,
            ScanSource::PlainReads => &mut state.plain,
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MB: u64 = 1_000_000;

    fn scheduler(pushed: f64, plain: f64) -> AdaptiveScheduler {
        AdaptiveScheduler::new(&Throughput { together: plain > 500e6, ..throughput(pushed, plain) }, 1)
    }

    fn throughput(pushed: f64, plain: f64) -> Throughput {
        let adaptivity = Adaptivity::Auto;
        let (repeated_bytes, is_cost, is_link_bound) = (0.0, false, false);
        Throughput {
            pushed,
            plain,
            together: false,
            plain_measured: true,
            repeated_bytes,
            is_cost,
            is_link_bound,
            adaptivity,
        }
    }

    #[test]
    fn throttled_storage_gets_no_splits_during_the_pause() {
        let (scheduler, now) = (self::scheduler(1e9, 40e6), Instant::now());
        assert_eq!(scheduler.next_source(now), ScanSource::Storage);
        scheduler.throttled(now);
        assert_eq!(scheduler.next_source(now + SECOND), ScanSource::PlainReads);
        assert_eq!(scheduler.next_source(now + THROTTLE_PAUSE), ScanSource::Storage);
    }

    #[test]
    fn slow_storage_is_probed_at_intervals() {
        let (scheduler, now) = (self::scheduler(1e9, 40e6), Instant::now());
        scheduler.begin(ScanSource::Storage, 10 * MB, now - SECOND);
        scheduler.end(ScanSource::Storage, 10 * MB, now - SECOND, now);
        assert_eq!(scheduler.next_source(now), ScanSource::Storage, "nothing to compare it with");
        scheduler.begin(ScanSource::PlainReads, 40 * MB, now - SECOND);
        scheduler.end(ScanSource::PlainReads, 40 * MB, now - SECOND, now);
        let sources: Vec<ScanSource> = (0..16).map(|_| scheduler.next_source(now)).collect();
        assert_eq!(sources.iter().filter(|source| **source == ScanSource::Storage).count(), 2, "{sources:?}");
        for _ in 0..9 {
            scheduler.end(ScanSource::Storage, 100 * MB, now - SECOND, now);
        }
        assert_eq!(scheduler.next_source(now), ScanSource::Storage, "it recovered");
    }

    #[test]
    fn plain_reads_steal_a_fair_share_if_done_in_time() {
        let now = Instant::now();
        let slow_link = scheduler(1e9, 40e6);
        assert!(!slow_link.should_steal(16 * MB, 700 * MB, now), "a twenty-fifth of the work for all the link");
        let fast_link = scheduler(1e9, 700e6);
        assert!(fast_link.should_steal(16 * MB, 700 * MB, now));
        assert!(!fast_link.should_steal(16 * MB, 10 * MB, now), "storage is done sooner");
        assert!(!fast_link.should_steal(40 * MB, 40 * MB, now), "it would be the last to end");
    }

    #[test]
    fn an_unmeasured_network_is_tried_if_storage_is_late() {
        let now = Instant::now();
        for (plain_measured, tried) in [(true, false), (false, true)] {
            let throughput = Throughput { plain_measured, ..throughput(1e9, 40e6) };
            let scheduler = AdaptiveScheduler::new(&throughput, 1);
            assert!(!scheduler.should_steal(16 * MB, 700 * MB, now), "storage is as fast as believed");
            scheduler.begin(ScanSource::Storage, 250 * MB, now - SECOND);
            scheduler.end(ScanSource::Storage, 250 * MB, now - SECOND, now);
            assert_eq!(scheduler.should_steal(16 * MB, 700 * MB, now), tried);
            scheduler.begin(ScanSource::PlainReads, 16 * MB, now - SECOND);
            scheduler.end(ScanSource::PlainReads, 16 * MB, now - SECOND, now);
            assert!(!scheduler.should_steal(16 * MB, 700 * MB, now), "now it is known to be slow");
        }
    }

    #[test]
    fn storage_that_hangs_is_slow() {
        let (scheduler, now) = (self::scheduler(1e9, 100e6), Instant::now());
        assert!(!scheduler.should_steal(16 * MB, 160 * MB, now));
        scheduler.begin(ScanSource::Storage, 100 * MB, now);
        scheduler.begin(ScanSource::Storage, MB, now);
        assert!(!scheduler.should_steal(16 * MB, 160 * MB, now + SECOND / 10), "it has had as long as was believed");
        assert!(scheduler.should_steal(16 * MB, 160 * MB, now + SECOND), "it has had ten times as long");
        scheduler.end(ScanSource::Storage, MB, now, now);
        scheduler.end(ScanSource::Storage, 100 * MB, now, now + SECOND / 10);
        assert!(!scheduler.should_steal(16 * MB, 160 * MB, now + SECOND * 10), "nothing is under way");
        let scheduler = self::scheduler(1e9, 100e6);
        scheduler.begin(ScanSource::Storage, 100 * MB, now);
        scheduler.end(ScanSource::Storage, 0, now, now + SECOND);
        assert!(scheduler.should_steal(16 * MB, 160 * MB, now + SECOND * 10), "nothing came of it for a second");
    }

    #[test]
    fn aggregates_are_cut_if_both_sources_can_share_them() {
        let throughput = |plain, adaptivity| Throughput { together: true, adaptivity, ..throughput(1e9, plain) };
        let piece = |throughput: Throughput, repeated_bytes| {
            Throughput { repeated_bytes, ..throughput }.piece_bytes(640 * MB, false)
        };
        assert_eq!(piece(throughput(1e9, Adaptivity::Auto), 1e3), Some(20 * MB));
        assert_eq!(piece(throughput(40e6, Adaptivity::Auto), 1e3), None, "all of the link for a little");
        assert_eq!(piece(throughput(1e9, Adaptivity::Auto), 1e6), None, "most groups would come from every piece");
        assert_eq!(throughput(1e9, Adaptivity::Auto).piece_bytes(MB, false), None, "not worth it");
        assert_eq!(piece(throughput(40e6, Adaptivity::Both), 1e6), Some(20 * MB), "as asked");
    }

    #[test]
    fn repeated_bytes_and_prices_limit_requests() {
        let lonely = throughput(1e9, 40e6);
        let repeats = Throughput { repeated_bytes: 1e6, ..lonely };
        let per_worker = |throughput: Throughput| throughput.requests(2, 1000 * MB) / 2;
        assert_eq!(
            (per_worker(lonely), per_worker(repeats), per_worker(Throughput { is_cost: true, ..lonely })),
            (REQUESTS_PER_WORKER, 1, 1)
        );
        assert_eq!(per_worker(throughput(1e9, 700e6)), MAX_REQUESTS_PER_WORKER, "either way is about as fast");
        assert_eq!(per_worker(Throughput { together: true, ..repeats }), MAX_REQUESTS_PER_WORKER, "as they are shared");
        assert_eq!(
            per_worker(Throughput { adaptivity: Adaptivity::Both, ..repeats }),
            MAX_REQUESTS_PER_WORKER,
            "as asked"
        );
        assert_eq!(throughput(1e9, 700e6).requests(2, 80 * MB), 3, "nobody waits long for any of them");
        assert_eq!(throughput(1e9, 700e6).requests(2, MB), 2, "each worker has one");
        assert_eq!(
            Throughput { is_link_bound: true, ..lonely }.requests(2, 1000 * MB),
            1,
            "the link never waits for the next"
        );
    }
}
