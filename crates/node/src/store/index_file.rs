//! The file of the index as redb wants it: reads and locks are redb's own, changes go through the [`Disk`].
//!
//! A sync that fails while the index is in use is kept from redb, which would refuse reads too. Nothing reaches the
//! file after it, least of all redb's mark that it was closed well, so that the next start examines it; readers
//! are given the state before the commit that failed (see `index`).
//!
//! [`Disk`]: super::disk::Disk

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::disk::DiskFile;
use super::error::is_full;

/// What became of the file while it was in use.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Set once the index is open: before that, a failure is an error like any other.
    pub in_use: AtomicBool,
    /// A sync failed since.
    pub lost: AtomicBool,
}

/// The file of the index.
#[derive(Debug)]
pub(super) struct IndexFile {
    file: DiskFile,
    /// The same open file.
    reader: FileBackend,
    fate: Arc<Fate>,
}

impl IndexFile {
    pub fn new(file: DiskFile, fate: &Arc<Fate>) -> Result<Self, DatabaseError> {
        let reader = FileBackend::new(file.file().try_clone()?)?;
        Ok(Self { file, reader, fate: Arc::clone(fate) })
    }

    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.fate.lost.load(SeqCst) { Ok(()) } else { change() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl StorageBackend for IndexFile {
    fn len(&self) -> io::Result<u64> {
        self.reader.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reader.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.file.resize(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.change(|| self.file.sync()) {
            Err(error) if self.fate.in_use.load(SeqCst) && !is_full(&error) => {
                self.fate.lost.store(true, SeqCst);
                Ok(())
            }
            done => done,
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.reader.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.reader.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.reader.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.reader.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.reader.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.reader.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.reader.query_lock_range(start, end)
    }
}
