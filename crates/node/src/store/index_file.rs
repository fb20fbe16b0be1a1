//! The file of the index as redb wants it: reads and locks are redb's own, changes go through the [`Disk`].
//!
//! [`Disk`]: super::disk::Disk

use std::io;
use std::ops::Bound;

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::disk::DiskFile;

/// The file of the index.
#[derive(Debug)]
pub(super) struct IndexFile {
    file: DiskFile,
    /// The same open file.
    reader: FileBackend,
}

impl IndexFile {
    pub fn new(file: DiskFile) -> Result<Self, DatabaseError> {
        let reader = FileBackend::new(file.file().try_clone()?)?;
        Ok(Self { file, reader })
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
        self.file.resize(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
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
