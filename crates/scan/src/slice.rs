//! How long a scan keeps its thread before others have a turn.

use std::time::{Duration, Instant};

use tokio::task::yield_now;

/// As long as threads have their turns in an operating system. An idle thread takes over whoever yields, often on another core,
/// and finds nothing in the caches of that one: with turns of 2 ms two cores lost a twentieth of their time.
const SLICE: Duration = Duration::from_millis(20);

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
        if self.0.elapsed() >= SLICE {
            yield_now().await;
            self.0 = Instant::now();
        }
    }
}
