//! Permits for work other than scans that uses much memory or CPU: upload forms, and copies that
//! read their bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{Share, Shares};

/// A bounded number of permits, of which each key has a share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct WorkPermits {
    places: Arc<Semaphore>,
    by_key: Shares,
    share: usize,
}

/// A permit that is held. Dropping it releases the permit.
#[derive(Debug)]
pub(crate) struct WorkPermit {
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

impl WorkPermits {
    /// Creates `limit` permits, of which one key may hold `share`.
    pub fn new(limit: usize, share: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(limit)), by_key: Shares::default(), share }
    }

    /// Waits up to `wait` for a permit; returns `None` if there is none by then. The share of `key`
    /// is acquired first, so that requests that wait for their share hold no permit.
    pub async fn take(&self, key: &str, wait: Duration) -> Option<WorkPermit> {
        let turn = async {
            let share = self.by_key.take(key, self.share).await?;
            let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(WorkPermit { _share: share, _permit: permit })
        };
        timeout(wait, turn).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_that_has_its_share_leaves_turns_for_others() {
        let turns = WorkPermits::new(2, 1);
        let brief = Duration::from_millis(10);
        let first = turns.take("a", brief).await.unwrap();
        assert!(turns.take("a", brief).await.is_none());
        let other = turns.take("b", brief).await.unwrap();
        assert!(turns.take("c", brief).await.is_none());
        drop((first, other));
        assert!(turns.take("c", brief).await.is_some());
    }
}
