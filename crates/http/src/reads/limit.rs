//! The limit on the number of plain reads in flight at an endpoint.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::hedge::Durations;

/// The latency to the first byte from which an endpoint counts as far. A server in the same network
/// answers sooner.
const FAR_LATENCY: Duration = Duration::from_millis(8);

/// The initial, the minimum and the maximum number of reads in flight.
const FIRST: usize = 32;
const LEAST: usize = 4;
const MOST: usize = 256;

/// The factor by which a round's throughput must exceed the best one so far for the limit to grow.
const WORTHWHILE_GAIN: f64 = 1.1;

/// The fraction by which the best throughput decays each round, since endpoints change.
const FORGOTTEN_A_ROUND: f64 = 0.02;

/// An adaptive limit on the number of plain reads in flight at one endpoint, shared by all queries
/// of a process.
///
/// The limit grows by half as long as that raises the throughput, and is halved when the server
/// responds that it is overloaded. Reads above the limit wait in first-in, first-out order.
#[derive(Debug)]
pub struct ReadLimit {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    /// The lowest latency to the first byte so far, in microseconds; `u64::MAX` before the first
    /// response.
    latency_us: AtomicU64,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits to remove from the semaphore when their reads end, because the limit was lowered.
    surplus: usize,
    /// The highest throughput of a round, which decays with time.
    best_bytes_per_s: f64,
    round: Round,
    durations: Durations,
}

/// Statistics of one round: as many completed reads as the limit allows in flight. At its end, its
/// throughput is compared with the best one so far.
#[derive(Debug)]
struct Round {
    since: Instant,
    reads: usize,
    bytes: u64,
    /// True if a read had to wait for a permit. Otherwise the limit did not affect the throughput.
    was_full: bool,
    was_halved: bool,
}

impl Round {
    fn new(since: Instant) -> Self {
        Self { since, reads: 0, bytes: 0, was_full: false, was_halved: false }
    }
}

impl Default for ReadLimit {
    fn default() -> Self {
        let round = Round::new(Instant::now());
        let state = State { limit: FIRST, surplus: 0, best_bytes_per_s: 0.0, round, durations: Durations::default() };
        Self { slots: Arc::new(Semaphore::new(FIRST)), state: Mutex::new(state), latency_us: AtomicU64::new(u64::MAX) }
    }
}

impl ReadLimit {
    /// Records that a response of the endpoint began `after` its request was sent.
    pub fn answered(&self, after: Duration) {
        self.latency_us.fetch_min(u64::try_from(after.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns whether the endpoint is far: it has responded, but never within 8 ms.
    pub fn is_far(&self) -> bool {
        let latency_us = self.latency_us.load(Relaxed);
        latency_us != u64::MAX && Duration::from_micros(latency_us) >= FAR_LATENCY
    }

    /// Waits for a permit to read.
    pub async fn slot(self: &Arc<Self>) -> ReadSlot {
        let permit = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                self.state.lock().round.was_full = true;
                // The semaphore is never closed.
                Arc::clone(&self.slots).acquire_owned().await.ok()
            }
        };
        ReadSlot { limit: Arc::clone(self), permit, since: Instant::now() }
    }

    /// Halves the limit after the server refused a read because of overload, at most once a round.
    pub fn overloaded(&self) {
        let mut state = self.state.lock();
        if state.round.was_halved {
            return;
        }
        let limit = (state.limit / 2).max(LEAST);
        state.surplus += state.limit - limit;
        state.limit = limit;
        state.best_bytes_per_s = 0.0;
        state.round = Round { was_halved: true, ..Round::new(Instant::now()) };
    }

    /// Returns the time after which a read is sent a second time; `None` if too few were measured.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.state.lock().durations.patience()
    }

    /// Returns whether a slow read may be sent a second time (hedged); if so, counts it as hedged.
    /// Returns `false` if the server reported overload in this round, or if too many were hedged.
    pub(super) fn take_hedge(&self) -> bool {
        let mut state = self.state.lock();
        !state.round.was_halved && state.durations.take_hedge()
    }

    /// Returns the maximum number of reads in flight.
    #[cfg(test)]
    fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Counts a read of `bytes` that ended at `now`, and adapts the limit at the end of a round.
    fn done(&self, bytes: u64, now: Instant) {
        let mut state = self.state.lock();
        state.round.reads += 1;
        state.round.bytes += bytes;
        if state.round.reads < state.limit {
            return;
        }
        let round = std::mem::replace(&mut state.round, Round::new(now));
        let rate = round.bytes as f64 / now.saturating_duration_since(round.since).as_secs_f64().max(1e-6);
        if round.was_full && rate > state.best_bytes_per_s * WORTHWHILE_GAIN {
            let limit = (state.limit + state.limit / 2).min(MOST);
            let more = limit - state.limit;
            let kept = more.min(state.surplus);
            state.surplus -= kept;
            state.limit = limit;
            self.slots.add_permits(more - kept);
        }
        state.best_bytes_per_s = (state.best_bytes_per_s * (1.0 - FORGOTTEN_A_ROUND)).max(rate);
    }
}

/// The permit for one read in flight. Dropping it admits the next read.
#[derive(Debug)]
pub struct ReadSlot {
    limit: Arc<ReadLimit>,
    permit: Option<OwnedSemaphorePermit>,
    since: Instant,
}

impl ReadSlot {
    /// Releases the permit after a successful read of `bytes`, and records its duration and size.
    pub fn done(self, bytes: u64) {
        let now = Instant::now();
        self.limit.state.lock().durations.note(now.saturating_duration_since(self.since));
        self.limit.done(bytes, now);
    }
}

impl Drop for ReadSlot {
    fn drop(&mut self) {
        let mut state = self.limit.state.lock();
        if let (Some(permit), true) = (self.permit.take(), state.surplus > 0) {
            state.surplus -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `count` rounds of reads against a server that sends at most `most` reads at a time,
    /// each of 1 MB in 100 ms.
    fn rounds(limit: &ReadLimit, count: usize, most: usize, mut now: Instant) -> Instant {
        for _ in 0..count {
            limit.state.lock().round.was_full = true;
            let reads = limit.limit();
            let took = Duration::from_millis(100 * reads.div_ceil(most.min(reads)) as u64);
            now += took;
            for _ in 0..reads {
                limit.done(1_000_000, now);
            }
        }
        now
    }

    #[test]
    fn it_grows_while_that_brings_more_bytes() {
        let (limit, start) = (ReadLimit::default(), Instant::now());
        limit.state.lock().round.since = start;
        let now = rounds(&limit, 4, 60, start);
        assert!((54..=81).contains(&limit.limit()), "{}", limit.limit());
        let settled = limit.limit();
        rounds(&limit, 2, 60, now);
        assert_eq!(limit.limit(), settled, "the server has no more");
        assert_eq!(limit.slots.available_permits(), settled);
    }

    #[test]
    fn the_fastest_answer_says_how_far_a_server_is() {
        let limit = ReadLimit::default();
        assert!(!limit.is_far(), "nothing is known");
        limit.answered(Duration::from_millis(40));
        assert!(limit.is_far());
        limit.answered(Duration::from_millis(2));
        limit.answered(Duration::from_millis(50));
        assert!(!limit.is_far());
    }

    #[test]
    fn reads_that_never_wait_say_nothing() {
        let (limit, now) = (ReadLimit::default(), Instant::now());
        for n in 0..100 {
            limit.done(1_000_000, now + Duration::from_millis(n));
        }
        assert_eq!(limit.limit(), FIRST);
    }

    #[tokio::test]
    async fn it_is_halved_once_a_round_and_never_exceeded() {
        let limit = Arc::new(ReadLimit::default());
        let mut held = Vec::new();
        for _ in 0..FIRST {
            held.push(limit.slot().await);
        }
        for _ in 0..5 {
            limit.overloaded();
        }
        assert_eq!(limit.limit(), FIRST / 2);
        // When half of the reads in flight end, no other read begins: their permits are removed.
        held.drain(..FIRST / 2).for_each(drop);
        assert!(futures::FutureExt::now_or_never(limit.slot()).is_none());
        held.drain(..1).for_each(drop);
        assert!(futures::FutureExt::now_or_never(limit.slot()).is_some());
    }
}
