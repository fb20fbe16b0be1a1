//! Turns at work that takes memory or cores beside scans: upload forms, copies that read their bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{Share, Shares};

/// A bounded number of turns, of which each key has a share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    places: Arc<Semaphore>,
    of_keys: Shares,
    share: usize,
}

/// The right to do the work. Dropping it gives the turn to the next.
#[derive(Debug)]
pub(crate) struct WorkTurn {
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    /// `limit` turns, of which one key may have `share`.
    pub fn new(limit: usize, share: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(limit)), of_keys: Shares::default(), share }
    }

    /// Waits for a turn, for as long as `wait`; the share of the key comes first, so that its other requests keep no turn from
    /// others.
    pub async fn take(&self, key: &str, wait: Duration) -> Option<WorkTurn> {
        let turn = async {
            let share = self.of_keys.take(key, self.share).await?;
            let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(WorkTurn { _share: share, _permit: permit })
        };
        timeout(wait, turn).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_that_has_its_share_leaves_turns_for_others() {
        let turns = Turns::new(2, 1);
        let brief = Duration::from_millis(10);
        let first = turns.take("a", brief).await.unwrap();
        assert!(turns.take("a", brief).await.is_none());
        let other = turns.take("b", brief).await.unwrap();
        assert!(turns.take("c", brief).await.is_none());
        drop((first, other));
        assert!(turns.take("c", brief).await.is_some());
    }
}
