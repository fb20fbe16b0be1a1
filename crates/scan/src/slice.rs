//! How long a scan keeps its thread before others have a turn.
//!
//! An idle thread takes over whoever yields, often on another core, and finds nothing in the caches of that one: with turns of
//! 2 ms two cores lost a twentieth of their time. So turns are as long as all tasks having one within some time allows, as
//! Linux's scheduler had it (CFS, `sched_latency_ns`). Tasks that wait for something count as well, connections for one.
//!
//! One kernel may take longer than any turn, a pattern that is matched at each place of a long text for one. Within
//! it a
//! task cannot yield; then its worker is handed to another thread ([`lend_long`]), and the kernel shares the cores.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::{block_in_place, yield_now};

/// Every task should have a turn in so long.
const ROUND: Duration = Duration::from_millis(60);

/// Longer than a few blocks take.
const LEAST: Duration = Duration::from_millis(2);

/// As long as threads have their turns in an operating system.
const MOST: Duration = Duration::from_millis(20);

/// The time that work has had since others had their turn.
#[derive(Debug)]
pub struct TimeSlice(Instant);

impl Default for TimeSlice {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSlice {
    /// Lets others have their turn, if the time is up.
    pub async fn others(&mut self) {
        let had = self.0.elapsed();
        if had >= LEAST && had >= turn() {
            yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// A poll that takes longer is no turn of a task that yields.
const LONG: Duration = Duration::from_millis(50);

/// In so long another thread has taken a worker over.
const HANDED_OVER: Duration = Duration::from_micros(300);

thread_local! {
    /// When the poll began, or its worker was last offered to another thread; none where that must not be done.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Polls a task of a runtime with several threads. Where the poll is long and asks for its interrupt, other tasks go on
/// without its thread.
pub fn lend_long<T>(poll: impl FnOnce() -> T) -> T {
    struct Reset(Option<Instant>);
    impl Drop for Reset {
        fn drop(&mut self) {
            SINCE.set(self.0);
        }
    }
    let _reset = Reset(SINCE.replace(Some(Instant::now())));
    poll()
}

/// Lets other tasks have the worker of this thread if the poll has been long.
pub(crate) fn lend(now: impl FnOnce() -> Instant) {
    let Some(since) = SINCE.get() else { return };
    let now = now();
    if now.saturating_duration_since(since) >= LONG {
        // Taken back if nobody wants it, and offered again.
        block_in_place(|| thread::sleep(HANDED_OVER));
        SINCE.set(Some(now));
    }
}

/// How long a turn is now, by how many tasks there are for a thread.
fn turn() -> Duration {
    let Ok(runtime) = Handle::try_current() else { return MOST };
    let metrics = runtime.metrics();
    turn_of(metrics.num_workers(), metrics.num_alive_tasks())
}

fn turn_of(threads: usize, tasks: usize) -> Duration {
    let [threads, tasks] = [threads, tasks.max(1)].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    (ROUND.saturating_mul(threads) / tasks).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn turns_are_shorter_where_more_wait_for_theirs() {
        let turns =
            [(3, 0), (3, 8), (2, 6), (2, 12), (2, 64), (1, 1_000_000)].map(|(threads, tasks)| turn_of(threads, tasks));
        assert_eq!(turns.map(|turn| turn.as_millis()), [20, 20, 20, 10, 2, 2]);
        assert!(turns.is_sorted_by(|a, b| a >= b));
    }

    /// One worker, kept by a task that never waits: others go on all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_beside_a_long_poll() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};

        let other_ran = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&other_ran);
        let long = tokio::spawn(async move {
            lend_long(|| {
                let since = Instant::now();
                while !seen.load(Ordering::Relaxed) && since.elapsed() < Duration::from_secs(20) {
                    lend(Instant::now);
                }
                seen.load(Ordering::Relaxed)
            })
        });
        let other = tokio::spawn(async move { other_ran.store(true, Ordering::Relaxed) });
        assert!(long.await.unwrap(), "the other task waited for the end");
        other.await.unwrap();
        assert!(SINCE.get().is_none());
    }

    #[tokio::test]
    async fn whoever_has_not_had_its_turn_goes_on() {
        let mut slice = TimeSlice(Instant::now() + MOST);
        assert!(slice.others().now_or_never().is_some());
        let since = Instant::now();
        slice.0 = since - MOST;
        assert!(slice.others().now_or_never().is_none(), "others come first");
        slice.others().await;
        assert!(slice.0 >= since, "and then it begins anew");
    }
}
