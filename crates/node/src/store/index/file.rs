//! The file of the index as a redb backend: redb's own backend locks it, changes go through the
//! [`Disk`], and reads are verified (see `pages`).
//!
//! A damaged page ends the use of the index until the next start, since redb may have used any part
//! of it.
//!
//! A sync that fails while the index is in use is hidden from redb, which would refuse reads too.
//! Nothing is written after it, not even redb's clean-shutdown mark, so that the next start
//! examines the file. Readers see the state before the commit that failed (see `index`).
//!
//! [`Disk`]: crate::store::disk::Disk

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::pages::Pages;
use crate::store::StoreError;
use crate::store::fault::{DamagedIndex, is_full};

/// The health of the file while it is in use.
#[derive(Debug, Default)]
pub(super) struct FileHealth {
    /// Set once the index is open; before that, a failure is an ordinary error.
    pub in_use: AtomicBool,
    /// Whether a sync has failed since the index was opened.
    pub lost: AtomicBool,
    /// The damage found, if any.
    pub damage: OnceLock<String>,
}

impl FileHealth {
    /// The error for the damage that was found, if any.
    pub fn error(&self) -> Option<StoreError> {
        self.damage.get().cloned().map(StoreError::DamagedIndex)
    }
}

/// The file of the index.
#[derive(Debug)]
pub(super) struct IndexFile {
    pages: Arc<Pages>,
    /// The same open file as a redb backend, which is used for its locks only.
    locks: FileBackend,
    health: Arc<FileHealth>,
}

impl IndexFile {
    pub fn new(pages: &Arc<Pages>, health: &Arc<FileHealth>) -> Result<Self, DatabaseError> {
        let locks = FileBackend::new(pages.file().file().try_clone()?)?;
        Ok(Self { pages: Arc::clone(pages), locks, health: Arc::clone(health) })
    }

    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.health.lost.load(SeqCst) { Ok(()) } else { change() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl StorageBackend for IndexFile {
    fn len(&self) -> io::Result<u64> {
        self.pages.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.pages.read(offset, out).inspect_err(|error| {
            if DamagedIndex::is(error) {
                tracing::error!(%error, "the index is damaged: nothing is read or written before it was restored");
                self.health.damage.get_or_init(|| error.to_string());
            }
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.pages.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|| self.pages.write_sums())?;
        match self.change(|| self.pages.sync()) {
            Err(error) if self.health.in_use.load(SeqCst) && !is_full(&error) => {
                self.health.lost.store(true, SeqCst);
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
