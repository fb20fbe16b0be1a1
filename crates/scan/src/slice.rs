//! How long a scan keeps its thread before others have a turn.

use std::time::{Duration, Instant};

use tokio::task::yield_now;

/// Longer than a few blocks take: whoever yields may go on on another core, and finds nothing in the cache of that one.
const SLICE: Duration = Duration::from_millis(2);

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
