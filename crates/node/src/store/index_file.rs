//! The file of the index as redb wants it: locks are redb's own, changes go through the [`Disk`], and what is read is
//! compared with its checksums (see `pages`).
//!
//! A page that does not fit ends the use of the index until the next start: what redb has read of it may be anything.
//!
//! A sync that fails while the index is in use is kept from redb, which would refuse reads too. Nothing reaches the
//! file after it, least of all redb's mark that it was closed well, so that the next start examines it; readers
//! are given the state before the commit that failed (see `index`).
//!
//! [`Disk`]: super::disk::Disk

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::error::is_full;
use super::pages::{DamagedIndex, Pages};

/// What became of the file while it was in use.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Set once the index is open: before that, a failure is an error like any other.
    pub in_use: AtomicBool,
    /// A sync failed since.
    pub lost: AtomicBool,
    /// What was found damaged since.
    pub damage: OnceLock<String>,
}

/// The file of the index.
#[derive(Debug)]
pub(super) struct IndexFile {
    pages: Arc<Pages>,
    /// The same open file, for its locks.
    locks: FileBackend,
    fate: Arc<Fate>,
}

impl IndexFile {
    pub fn new(pages: &Arc<Pages>, fate: &Arc<Fate>) -> Result<Self, DatabaseError> {
        let locks = FileBackend::new(pages.file().file().try_clone()?)?;
        Ok(Self { pages: Arc::clone(pages), locks, fate: Arc::clone(fate) })
    }

    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.fate.lost.load(SeqCst) { Ok(()) } else { change() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl StorageBackend for IndexFile {
    fn len(&self) -> io::Result<u64> {
        self.pages.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.pages.read(offset, out).inspect_err(|error| {
            if self.fate.in_use.load(SeqCst) && DamagedIndex::is(error) {
                tracing::error!(%error, "the index is damaged: nothing is read or written before it was restored");
                self.fate.damage.get_or_init(|| error.to_string());
            }
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.pages.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|| self.pages.write_sums())?;
        match self.change(|| self.pages.sync()) {
            Err(error) if self.fate.in_use.load(SeqCst) && !is_full(&error) => {
                self.fate.lost.store(true, SeqCst);
                Ok(())
            }
            done => done,
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|| self.pages.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.locks.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks.query_lock_range(start, end)
    }
}
