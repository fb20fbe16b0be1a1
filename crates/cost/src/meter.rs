//! The meter: counters that every part of a running query adds to.
//!
//! There is one per query, shared in an `Arc`. Counting is a relaxed atomic addition, cheap enough
//! for the innermost read loop; only the rare, textual [`Meter::strategy`] takes a lock. Counters
//! never decrease.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use pushdowndb_contract::Result;

use crate::caps::Caps;
use crate::requests::{RequestKind, Requests};
use crate::usage::{Spill, Usage};

/// The maximum number of distinct texts that [`Meter::strategy`] records.
const MAX_STRATEGIES: usize = 500;

/// The counters of a query.
#[derive(Debug)]
pub struct Meter {
    started: Instant,
    cpu_at_start: Option<Duration>,
    /// Wall and CPU time of the query, set when it ends.
    ended: OnceLock<(Duration, Duration)>,
    /// The number of cores that the engine may use; 0 for all cores of the machine.
    cores: AtomicU64,
    requests: [AtomicU64; RequestKind::ALL.len()],
    received: AtomicU64,
    sent: AtomicU64,
    scanned: AtomicU64,
    returned: AtomicU64,
    scanned_by_fragments: AtomicU64,
    returned_by_fragments: AtomicU64,
    rows: AtomicU64,
    storage_cpu_ns: AtomicU64,
    failed: AtomicU64,
    fall_backs: AtomicU64,
    strategies: Mutex<Vec<String>>,
    caps: OnceLock<Caps>,
    /// Response bytes that requests in flight have announced and not yet released.
    expected: AtomicU64,
}

impl Default for Meter {
    /// A meter that starts now, for an engine that may use every core of the machine.
    fn default() -> Self {
        Self {
            started: Instant::now(),
            cpu_at_start: process_cpu(),
            ended: OnceLock::new(),
            cores: AtomicU64::default(),
            requests: Default::default(),
            received: AtomicU64::default(),
            sent: AtomicU64::default(),
            scanned: AtomicU64::default(),
            returned: AtomicU64::default(),
            scanned_by_fragments: AtomicU64::default(),
            returned_by_fragments: AtomicU64::default(),
            rows: AtomicU64::default(),
            storage_cpu_ns: AtomicU64::default(),
            failed: AtomicU64::default(),
            fall_backs: AtomicU64::default(),
            strategies: Mutex::default(),
            caps: OnceLock::new(),
            expected: AtomicU64::default(),
        }
    }
}

impl Meter {
    /// A meter that starts now.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the caps of the query. Only the first call has an effect.
    pub fn cap(&self, caps: Caps) {
        self.caps.get_or_init(|| caps);
    }

    /// Reserves `expected` response bytes for a request that sends `sent` bytes, before it is sent.
    ///
    /// The reserved bytes count against the caps until [`release`](Self::release) gives them back:
    /// as they arrive, or when the response is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error, and reserves nothing, if the usage already exceeds a cap, or if this
    /// request and those in flight could exceed the cap on bytes by more than
    /// [`OVERRUN_BYTES`](crate::caps::OVERRUN_BYTES). The request must not be sent then.
    pub fn announce(&self, sent: u64, expected: u64) -> Result<()> {
        let Some(caps) = self.caps.get() else { return Ok(()) };
        let under_way = self.expected.fetch_add(expected, Ordering::Relaxed);
        let used = load(&self.received).saturating_add(load(&self.sent));
        let announced =
            caps.check_bytes(used).and_then(|()| caps.check_next(used, under_way, sent.saturating_add(expected)));
        let announced = announced.and_then(|()| match caps.max_usd > 0.0 {
            true => caps.check(&self.usage()),
            false => Ok(()),
        });
        if announced.is_err() {
            self.release(expected);
        }
        announced
    }

    /// Releases `bytes` that [`announce`](Self::announce) reserved: they arrived, or will not
    /// arrive.
    pub fn release(&self, bytes: u64) {
        if self.caps.get().is_some() {
            self.expected.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Checks the bytes counted so far against the cap on bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if they exceed the cap.
    pub fn check_bytes(&self) -> Result<()> {
        match self.caps.get() {
            Some(caps) => caps.check_bytes(load(&self.received).saturating_add(load(&self.sent))),
            None => Ok(()),
        }
    }

    /// Counts a request. Retries are counted too, since storage charges for them.
    pub fn request(&self, kind: RequestKind) {
        add(&self.requests[kind as usize], 1);
    }

    /// Counts a request as failed: without an answer, with an incomplete one, or throttled. The
    /// request itself was counted before, by [`request`](Self::request).
    pub fn failed(&self) {
        add(&self.failed, 1);
    }

    /// Counts a fall-back to plain reads.
    pub fn fell_back(&self) {
        add(&self.fall_backs, 1);
    }

    /// Counts bytes received over the network.
    pub fn received(&self, bytes: u64) {
        add(&self.received, bytes);
    }

    /// Counts bytes sent over the network.
    pub fn sent(&self, bytes: u64) {
        add(&self.sent, bytes);
    }

    /// Counts a fragment: the bytes that storage scanned and returned for it, and its CPU time
    /// there.
    pub fn fragment(&self, scanned: u64, returned: u64, cpu: Duration) {
        add(&self.scanned, scanned);
        add(&self.scanned_by_fragments, scanned);
        add(&self.returned, returned);
        add(&self.returned_by_fragments, returned);
        self.storage_cpu(cpu);
    }

    /// Counts bytes that storage scanned for S3 Select.
    pub fn scanned(&self, bytes: u64) {
        add(&self.scanned, bytes);
    }

    /// Counts bytes of results of S3 Select.
    pub fn returned(&self, bytes: u64) {
        add(&self.returned, bytes);
    }

    /// Counts rows of the result.
    pub fn rows(&self, rows: u64) {
        add(&self.rows, rows);
    }

    /// Counts CPU time that storage spent on fragments.
    pub fn storage_cpu(&self, time: Duration) {
        add(&self.storage_cpu_ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sets the number of cores that the engine may use; 0, the default, means all of the machine.
    pub fn cores(&self, cores: usize) {
        self.cores.store(cores as u64, Ordering::Relaxed);
    }

    /// Records a pushed operation, or a fall-back and its reason. Duplicates are dropped.
    pub fn strategy(&self, text: impl Into<String>) {
        let text = text.into();
        let mut strategies = self.strategies.lock();
        if strategies.len() < MAX_STRATEGIES && !strategies.contains(&text) {
            let is_last = strategies.len() + 1 == MAX_STRATEGIES;
            strategies.push(if is_last { "and more that is not listed".to_owned() } else { text });
        }
    }

    /// Adds the requests, bytes and storage CPU time of another process. Its rows, its wall and CPU
    /// time, its strategies and its spilled data are ignored.
    pub fn add(&self, usage: &Usage) {
        for kind in RequestKind::ALL {
            add(&self.requests[kind as usize], usage.requests.of(kind));
        }
        add(&self.received, usage.bytes_network.saturating_sub(usage.bytes_sent));
        add(&self.sent, usage.bytes_sent);
        add(&self.scanned, usage.bytes_scanned);
        add(&self.returned, usage.bytes_returned);
        add(&self.scanned_by_fragments, usage.bytes_scanned_by_fragments);
        add(&self.returned_by_fragments, usage.bytes_returned_by_fragments);
        self.storage_cpu(Duration::from_secs_f64(usage.storage_cpu_s.clamp(0.0, 1e9)));
        add(&self.failed, usage.requests_failed);
        add(&self.fall_backs, usage.fall_backs);
    }

    /// Stops the wall and CPU clocks at the first call. Counters continue.
    pub fn finish(&self) {
        self.ended.get_or_init(|| self.clocks());
    }

    /// Returns a snapshot of the counters.
    pub fn usage(&self) -> Usage {
        let (wall, cpu) = self.ended.get().copied().unwrap_or_else(|| self.clocks());
        let request = |kind: RequestKind| load(&self.requests[kind as usize]);
        let sent = load(&self.sent);
        Usage {
            wall_s: wall.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            storage_cpu_s: Duration::from_nanos(load(&self.storage_cpu_ns)).as_secs_f64(),
            rows: load(&self.rows),
            bytes_scanned: load(&self.scanned),
            bytes_returned: load(&self.returned),
            bytes_scanned_by_fragments: load(&self.scanned_by_fragments),
            bytes_returned_by_fragments: load(&self.returned_by_fragments),
            bytes_network: load(&self.received).saturating_add(sent),
            bytes_sent: sent,
            requests: Requests {
                get: request(RequestKind::Get),
                head: request(RequestKind::Head),
                list: request(RequestKind::List),
                put: request(RequestKind::Put),
                delete: request(RequestKind::Delete),
                select: request(RequestKind::Select),
                fragment: request(RequestKind::Fragment),
            },
            requests_failed: load(&self.failed),
            fall_backs: load(&self.fall_backs),
            strategies: self.strategies.lock().clone(),
            spill: Spill::default(),
            cores: match load(&self.cores) {
                0 => std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
                cores => cores as f64,
            },
        }
    }

    fn clocks(&self) -> (Duration, Duration) {
        let cpu = match (process_cpu(), self.cpu_at_start) {
            (Some(now), Some(start)) => now.saturating_sub(start),
            _ => Duration::ZERO,
        };
        (self.started.elapsed(), cpu)
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Returns the CPU time of this process; `None` if the system does not report it.
///
/// The time is that of the whole process, so concurrent queries of one process share the figure.
fn process_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::caps::OVERRUN_BYTES;
    use crate::price::PriceBook;

    #[test]
    fn counts_from_many_threads_add_up() {
        let meter = Meter::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        meter.request(RequestKind::Get);
                        meter.received(10);
                        meter.strategy("filter at storage");
                    }
                });
            }
        });
        meter.request(RequestKind::Select);
        meter.sent(5);
        meter.scanned(100);
        meter.returned(7);
        meter.rows(3);
        meter.fragment(1000, 70, Duration::from_millis(1500));
        meter.cores(4);
        meter.failed();
        meter.fell_back();
        meter.strategy("fell back to GET: 501");
        let usage = meter.usage();
        assert_eq!(usage.requests, Requests { get: 8000, select: 1, ..Requests::default() });
        assert_eq!((usage.bytes_network, usage.bytes_sent), (80_005, 5));
        assert_eq!((usage.bytes_scanned, usage.bytes_returned, usage.rows), (1100, 77, 3));
        assert_eq!((usage.bytes_scanned_by_fragments, usage.bytes_returned_by_fragments), (1000, 70));
        assert_eq!((usage.storage_cpu_s, usage.cores), (1.5, 4.0));
        assert_eq!((usage.requests_failed, usage.fall_backs), (1, 1));
        assert_eq!(usage.strategies, ["filter at storage", "fell back to GET: 501"]);
        let sum = Meter::new();
        sum.add(&usage);
        let added = sum.usage();
        assert_eq!((added.requests, added.bytes_network, added.bytes_sent), (usage.requests, 80_005, 5));
        assert_eq!((added.bytes_scanned, added.storage_cpu_s, added.rows), (1100, 1.5, 0));
        assert_eq!((added.requests_failed, added.fall_backs), (1, 1));
    }

    #[test]
    fn requests_beyond_a_cap_are_not_sent() {
        let meter = Meter::new();
        meter.announce(1, u64::MAX / 2).unwrap();
        let prices = Arc::new(PriceBook::named_or_path("paper").unwrap());
        meter.cap(Caps { max_bytes: 100_000, max_usd: 0.0, prices });
        meter.announce(0, 100_000).unwrap();
        // Bytes of requests under way count, too; a cap is exceeded by OVERRUN_BYTES at most.
        meter.announce(0, OVERRUN_BYTES).unwrap();
        assert!(meter.announce(0, 1).unwrap_err().to_string().contains("pushdown.max_bytes is 100000"));
        meter.release(100_000);
        meter.received(100_000);
        meter.check_bytes().unwrap();
        meter.release(OVERRUN_BYTES);
        meter.announce(OVERRUN_BYTES, 0).unwrap();
        meter.received(1);
        assert!(meter.check_bytes().is_err() && meter.announce(0, 0).is_err());
    }

    #[test]
    fn a_finished_meter_keeps_its_time() {
        let meter = Meter::new();
        std::thread::sleep(Duration::from_millis(2));
        meter.finish();
        let first = meter.usage();
        assert!(first.wall_s >= 0.002, "{first:?}");
        std::thread::sleep(Duration::from_millis(2));
        meter.finish();
        assert_eq!(meter.usage(), first);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_a_cpu_clock() {
        assert!(process_cpu().is_some());
    }
}
