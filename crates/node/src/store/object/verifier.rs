//! Records which blocks were verified recently, and what was found damaged.
//!
//! Checksums of files with several blocks are cached up to a memory limit in LRU order. Evicting
//! them is always safe: their blocks are verified again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::Limits;
use crate::store::disk::checksums::FileChecksums;
use crate::store::fault::Damaged;

/// Maximum damaged files that are counted separately. Further ones are still reported.
const MAX_DAMAGED_FILES: usize = 100_000;

/// The verification state of a store.
#[derive(Debug)]
pub(crate) struct Verifier {
    interval: Duration,
    max_bytes: usize,
    started: Instant,
    cache: Arc<Mutex<ChecksumCache>>,
    damage: Arc<DamageLog>,
}

/// Damage that was found.
#[derive(Debug, Default)]
struct DamageLog {
    files: Mutex<HashSet<String>>,
    /// Reads that failed because of damage.
    reads: AtomicU64,
}

#[derive(Debug, Default)]
struct ChecksumCache {
    files: HashMap<Uuid, (Arc<FileChecksums>, u64)>,
    bytes: usize,
    /// Number of uses so far, for the LRU order.
    clock: u64,
}

impl Verifier {
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            interval: limits.verify_interval,
            max_bytes: limits.checksum_cache_bytes,
            started: Instant::now(),
            cache: Arc::default(),
            damage: Arc::default(),
        })
    }

    /// Returns a verifier with the same caches that trusts no block, so that every read verifies.
    pub fn without_interval(&self) -> Arc<Self> {
        let (cache, damage) = (Arc::clone(&self.cache), Arc::clone(&self.damage));
        Arc::new(Self { interval: Duration::ZERO, max_bytes: self.max_bytes, started: self.started, cache, damage })
    }

    /// The current time in seconds; never 0.
    pub fn now(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_secs() + 1).unwrap_or(u32::MAX)
    }

    /// The earliest verification time at which a block is still trusted; `None` if every read
    /// verifies.
    pub fn trusted_since(&self) -> Option<u32> {
        // Times are whole seconds, so a block verified in the first second of the interval may be
        // too old.
        let seconds = u32::try_from(self.interval.as_secs()).unwrap_or(u32::MAX);
        (seconds > 0).then(|| self.now().saturating_sub(seconds - 1).max(1))
    }

    /// The cached checksums of a file.
    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<FileChecksums>> {
        let mut cache = self.cache();
        cache.clock += 1;
        let clock = cache.clock;
        let (sums, used) = cache.files.get_mut(&id)?;
        *used = clock;
        Some(Arc::clone(sums))
    }

    /// Caches the checksums of a file, unless it has cached ones already. Returns the cached ones.
    pub(crate) fn keep(&self, id: Uuid, sums: FileChecksums) -> Arc<FileChecksums> {
        let mut cache = self.cache();
        cache.clock += 1;
        let clock = cache.clock;
        if let Some((there, _)) = cache.files.get(&id) {
            return Arc::clone(there);
        }
        let sums = Arc::new(sums);
        cache.bytes += sums.size_bytes();
        cache.files.insert(id, (Arc::clone(&sums), clock));
        if cache.bytes > self.max_bytes {
            cache.make_room(self.max_bytes);
        }
        sums
    }

    /// Evicts a file.
    pub fn forget(&self, id: Uuid) {
        let mut cache = self.cache();
        if let Some((sums, _)) = cache.files.remove(&id) {
            cache.bytes = cache.bytes.saturating_sub(sums.size_bytes());
        }
    }

    /// Reports a damaged object. Returns the error.
    pub fn report(&self, object: &str, id: Option<Uuid>, what: String) -> io::Error {
        self.damage.reads.fetch_add(1, Relaxed);
        let file = id.map(|id| id.simple().to_string());
        tracing::error!(object, file, what, "an object is damaged");
        let mut files = self.damage.files.lock();
        if files.len() < MAX_DAMAGED_FILES {
            files.insert(file.unwrap_or_else(|| object.to_owned()));
        }
        drop(files);
        if let Some(id) = id {
            self.forget(id);
        }
        io::Error::other(Damaged { object: object.to_owned(), what })
    }

    /// The number of damaged files, and of reads that failed because of them.
    pub fn counts(&self) -> (u64, u64) {
        let files = self.damage.files.lock().len() as u64;
        (files, self.damage.reads.load(Relaxed))
    }

    fn cache(&self) -> MutexGuard<'_, ChecksumCache> {
        self.cache.lock()
    }
}

impl ChecksumCache {
    /// Evicts the least recently used files, more than needed to amortize the sort.
    fn make_room(&mut self, max_bytes: usize) {
        let wanted = max_bytes / 8 * 7;
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
    use super::*;
    use crate::store::disk::checksums::ChecksumBuilder;

    fn sums(blocks: usize) -> FileChecksums {
        let mut summing = ChecksumBuilder::new(10);
        summing.update(&vec![1; blocks * 10]);
        let (sums, all) = summing.finish();
        FileChecksums::read(sums, blocks as u64 * 10, &crate::store::disk::checksums::to_bytes(&all)).unwrap()
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
            assert!(verifier.get(first).is_some() && verifier.cache().bytes <= 40_000);
        }
        verifier.forget(first);
        assert!(verifier.get(first).is_none());
    }

    #[test]
    fn nothing_stays_verified_for_longer_than_the_interval() {
        let of =
            |seconds| Verifier::new(&Limits { verify_interval: Duration::from_secs(seconds), ..Limits::default() });
        assert_eq!(of(0).trusted_since(), None);
        assert_eq!(of(1).trusted_since(), Some(of(1).now()));
        assert_eq!(of(600).trusted_since(), Some(1));
    }
}
