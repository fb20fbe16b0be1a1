//! Which blocks were verified lately, and what was found damaged.
//!
//! The checksums of files of several blocks are kept in memory as long as there is room, the least recently used go
//! first. To forget them is always safe: their blocks are verified again when they are read next.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::sums::{Damaged, FileSums};
use crate::Limits;

/// More damaged files are not told apart; what is wrong with them is still an error and a line of the log.
const DAMAGED_FILES: usize = 100_000;

/// What is known of the blocks of a store.
#[derive(Debug)]
pub(crate) struct Verifier {
    interval: Duration,
    most_bytes: usize,
    started: Instant,
    known: Arc<Mutex<Known>>,
    found: Arc<Found>,
}

/// Damage that was found.
#[derive(Debug, Default)]
struct Found {
    files: Mutex<HashSet<String>>,
    /// Reads that failed because of it.
    reads: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<Uuid, (Arc<FileSums>, u64)>,
    bytes: usize,
    /// Counts uses; the larger, the later.
    clock: u64,
}

impl Verifier {
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            interval: limits.verify_interval,
            most_bytes: limits.checksum_cache_bytes,
            started: Instant::now(),
            known: Arc::default(),
            found: Arc::default(),
        })
    }

    /// The same, by which nothing was verified lately enough.
    pub fn without_interval(&self) -> Arc<Self> {
        let (known, found) = (Arc::clone(&self.known), Arc::clone(&self.found));
        Arc::new(Self { interval: Duration::ZERO, most_bytes: self.most_bytes, started: self.started, known, found })
    }

    /// Now, in seconds; never 0.
    pub fn now(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_secs() + 1).unwrap_or(u32::MAX)
    }

    /// Since when a block must have been verified to be read as it is; `None` if never.
    pub fn since(&self) -> Option<u32> {
        // A second has no parts here: what was verified in the one that the interval begins in may be older.
        let seconds = u32::try_from(self.interval.as_secs()).unwrap_or(u32::MAX);
        (seconds > 0).then(|| self.now().saturating_sub(seconds - 1).max(1))
    }

    /// The checksums of a file, if they are in memory.
    pub(super) fn get(&self, id: Uuid) -> Option<Arc<FileSums>> {
        let mut known = self.known();
        known.clock += 1;
        let clock = known.clock;
        let (sums, used) = known.files.get_mut(&id)?;
        *used = clock;
        Some(Arc::clone(sums))
    }

    /// Keeps the checksums of a file, unless they are there already; gives those that are.
    pub(super) fn keep(&self, id: Uuid, sums: FileSums) -> Arc<FileSums> {
        let mut known = self.known();
        known.clock += 1;
        let clock = known.clock;
        if let Some((there, _)) = known.files.get(&id) {
            return Arc::clone(there);
        }
        let sums = Arc::new(sums);
        known.bytes += sums.size_bytes();
        known.files.insert(id, (Arc::clone(&sums), clock));
        if known.bytes > self.most_bytes {
            known.make_room(self.most_bytes);
        }
        sums
    }

    /// Forgets when the blocks of a file were verified.
    pub fn forget(&self, id: Uuid) {
        let mut known = self.known();
        if let Some((sums, _)) = known.files.remove(&id) {
            known.bytes = known.bytes.saturating_sub(sums.size_bytes());
        }
    }

    /// Says that a part of an object is not what was written.
    pub fn report(&self, object: &str, id: Option<Uuid>, what: String) -> io::Error {
        self.found.reads.fetch_add(1, Relaxed);
        let file = id.map(|id| id.simple().to_string());
        tracing::error!(object, file, what, "an object is damaged");
        let mut files = self.found.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() < DAMAGED_FILES {
            files.insert(file.unwrap_or_else(|| object.to_owned()));
        }
        drop(files);
        if let Some(id) = id {
            self.forget(id);
        }
        io::Error::other(Damaged { object: object.to_owned(), what })
    }

    /// Files that were found damaged, and reads that failed because of that.
    pub fn counts(&self) -> (u64, u64) {
        let files = self.found.files.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        (files, self.found.reads.load(Relaxed))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Lets the least recently used go, some more than needed: the next would do it all again.
    fn make_room(&mut self, most_bytes: usize) {
        let wanted = most_bytes / 8 * 7;
        let mut by_use: Vec<(u64, Uuid)> = self.files.iter().map(|(id, (_, used))| (*used, *id)).collect();
        by_use.sort_unstable();
        for (_, id) in by_use {
            if self.bytes <= wanted {
                break;
            }
            if let Some((sums, _)) = self.files.remove(&id) {
                self.bytes = self.bytes.saturating_sub(sums.size_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::Summing;
    use super::*;

    fn sums(blocks: usize) -> FileSums {
        let mut summing = Summing::new(10);
        summing.update(&vec![1; blocks * 10]);
        let (sums, all) = summing.finish();
        FileSums::read(sums, blocks as u64 * 10, &super::super::sums::to_bytes(&all)).unwrap()
    }

    #[test]
    fn what_was_used_last_stays_and_memory_is_bounded() {
        let limits = Limits { checksum_cache_bytes: 40_000, ..Limits::default() };
        let verifier = Verifier::new(&limits);
        let first = Uuid::new_v4();
        let kept = verifier.keep(first, sums(100));
        assert!(Arc::ptr_eq(&kept, &verifier.keep(first, sums(100))), "one of each");
        for _ in 0..1000 {
            verifier.keep(Uuid::new_v4(), sums(100));
            assert!(verifier.get(first).is_some() && verifier.known().bytes <= 40_000);
        }
        verifier.forget(first);
        assert!(verifier.get(first).is_none());
    }

    #[test]
    fn nothing_stays_verified_for_longer_than_the_interval() {
        let of =
            |seconds| Verifier::new(&Limits { verify_interval: Duration::from_secs(seconds), ..Limits::default() });
        assert_eq!(of(0).since(), None);
        assert_eq!(of(1).since(), Some(of(1).now()));
        assert_eq!(of(600).since(), Some(1));
    }
}
