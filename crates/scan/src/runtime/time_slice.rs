//! Time slices: how long a scan computes before it yields its thread to other tasks.
//!
//! One kernel may take longer than a slice, for example if a pattern is matched at each position of
//! a long text. It cannot yield. Its runtime worker is then handed to another thread
//! ([`lend_long`]), and the operating system shares the cores between the threads.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{block_in_place, yield_now};

/// The length of a slice. When a task yields, an idle thread may steal it, often on another core
/// whose caches have none of its data. With slices of 2 ms, two cores lost 5 % of their time.
const SLICE: Duration = Duration::from_millis(10);

/// The time slice of a scan.
#[derive(Debug)]
pub struct TimeSlice(Instant);

impl Default for TimeSlice {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSlice {
    /// Yields to other tasks if the slice has ended.
    pub async fn others(&mut self) {
        if self.0.elapsed() >= SLICE {
            yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// The minimum length of a poll after which its worker is handed to another thread.
const MIN_LENT: Duration = Duration::from_millis(50);

/// The maximum time until another thread has taken over a worker.
const MAX_HANDOVER: Duration = Duration::from_micros(300);

thread_local! {
    /// The start of the poll, or the time when its worker was last handed over; `None` if handing
    /// it over is not allowed.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Polls a task of a multi-threaded runtime. If the poll takes long and checks its interrupt, the
/// other tasks of the worker continue on another thread.
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

/// Hands this thread's runtime worker, with its other tasks, to another thread if the poll has
/// taken long.
pub(crate) fn lend(now: impl FnOnce() -> Instant) {
    let Some(since) = SINCE.get() else { return };
    let now = now();
    if now.saturating_duration_since(since) >= MIN_LENT {
        // The worker is taken back if no other thread takes it, and handed over again later.
        block_in_place(|| thread::sleep(MAX_HANDOVER));
        SINCE.set(Some(now));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// The only worker is kept busy by a task that never waits; other tasks must continue anyway.
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
        let mut slice = TimeSlice(Instant::now() + SLICE);
        assert!(slice.others().now_or_never().is_some());
        let since = Instant::now();
        slice.0 = since - SLICE;
        assert!(slice.others().now_or_never().is_none(), "others come first");
        slice.others().await;
        assert!(slice.0 >= since, "and then it begins anew");
    }
}
