//! Bounded shares of a resource, one for each name (an access key or a peer address).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of each name, as one semaphore per name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares(Arc<Mutex<HashMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    places: Arc<Semaphore>,
    limit: usize,
}

/// A slot of a share, returned on drop.
#[derive(Debug)]
pub(crate) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    shares: Shares,
    name: String,
}

impl Shares {
    /// Takes a slot of `name`, which may hold `limit` of them. Returns `None` if no slot is free.
    pub fn try_take(&self, name: &str, limit: usize) -> Option<Share> {
        let permit = self.places(name, limit).try_acquire_owned().ok();
        permit.map(|permit| self.share(name, permit))
    }

    /// Waits for a slot of `name`, which may hold `limit` of them.
    pub async fn take(&self, name: &str, limit: usize) -> Option<Share> {
        let permit = self.places(name, limit).acquire_owned().await.ok();
        permit.map(|permit| self.share(name, permit))
    }

    fn share(&self, name: &str, permit: OwnedSemaphorePermit) -> Share {
        Share { permit: Some(permit), shares: self.clone(), name: name.to_owned() }
    }

    fn places(&self, name: &str, limit: usize) -> Arc<Semaphore> {
        let mut names = self.0.lock();
        match names.get(name) {
            Some(entry) if entry.limit == limit => Arc::clone(&entry.places),
            // A changed limit gets a new semaphore; permits of the old one remain valid until they
            // are dropped.
            _ => {
                let places = Arc::new(Semaphore::new(limit));
                names.insert(name.to_owned(), Entry { places: Arc::clone(&places), limit });
                places
            }
        }
    }

    /// The number of names that hold a slot or wait for one.
    #[cfg(test)]
    fn names(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut names = self.shares.0.lock();
        self.permit = None;
        // Clients choose the names, so unused entries must not accumulate.
        let is_unused =
            |entry: &Entry| entry.places.available_permits() == entry.limit && Arc::strong_count(&entry.places) == 1;
        if names.get(&self.name).is_some_and(is_unused) {
            names.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_name_has_its_share_and_is_forgotten_after_it() {
        let shares = Shares::default();
        let (first, second) = (shares.try_take("a", 2).unwrap(), shares.try_take("a", 2).unwrap());
        assert!(shares.try_take("a", 2).is_none());
        let other = shares.try_take("b", 2).unwrap();
        let waiting = tokio::spawn({
            let shares = shares.clone();
            async move { shares.take("a", 2).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(shares.names(), 2);
        drop((second, other));
        assert_eq!(shares.names(), 0);
    }
}
