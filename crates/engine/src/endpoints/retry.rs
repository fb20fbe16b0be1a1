//! Waiting before a request is sent again.

use std::time::Duration;

use pushdowndb_contract::{Error, Result};
use tracing::debug;

/// Exponential backoff with jitter for transient failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The number of retries after the first failure.
    pub(crate) limit: usize,
}

impl Retry {
    /// Waits before attempt number `failures + 1`. Returns `error` if no retry is left or the
    /// failure is not transient.
    pub(crate) async fn pause(self, failures: usize, error: Error) -> Result<()> {
        if failures > self.limit || !error.kind().is_retryable() {
            return Err(error);
        }
        debug!(%error, failures, "trying again");
        tokio::time::sleep(Self::delay(failures)).await;
        Ok(())
    }

    /// Returns the delay: 100 ms, 200 ms, 400 ms … up to 5 s, plus up to a quarter so that clients
    /// do not return all at once.
    fn delay(failures: usize) -> Duration {
        let base = Duration::from_millis(100 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(5));
        let jitter = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.subsec_nanos() % 250);
        base + base * jitter / 1000
    }
}
