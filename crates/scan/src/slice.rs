//! How long a scan keeps its thread before others have a turn.
//!
//! An idle thread takes over whoever yields, often on another core, and finds nothing in the caches of that one: with turns of
//! 2 ms two cores lost a twentieth of their time. So turns are as long as all tasks having one within some time allows, as
//! Linux's scheduler had it (CFS, `sched_latency_ns`). Tasks that wait for something count as well, connections for one.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::yield_now;

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
