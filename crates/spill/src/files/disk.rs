//! The local disk: a quota for spilled data, and reading and writing files.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::options::DiskOptions;

/// The default reserve of free space: the larger of `RESERVE_BYTES` and the size of the file system
/// divided by `RESERVE_SHARE`.
const RESERVE_BYTES: u64 = 1 << 30;
const RESERVE_SHARE: u64 = 20;

/// The number of bytes that the spilled data of the process occupies, and its quota.
#[derive(Debug)]
pub(super) struct Quota {
    bytes: u64,
    reserve: Option<u64>,
    used: AtomicU64,
}

impl Quota {
    pub(super) fn new(options: &DiskOptions) -> Self {
        Self { bytes: options.quota_bytes, reserve: options.reserve_bytes, used: AtomicU64::new(0) }
    }

    /// Returns the number of bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Reserves `bytes` for a file in `folder`. Returns a message that says why if there is no
    /// room.
    pub(super) fn take(&self, folder: &Path, bytes: u64) -> Result<(), String> {
        let within = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (self.bytes == 0 || sum <= self.bytes).then_some(sum)
        };
        self.used.fetch_update(Relaxed, Relaxed, within).map_err(|used| {
            format!("{used} bytes of the {} bytes of pushdown.spill_disk_bytes are in use", self.bytes)
        })?;
        let room = self.leaves_reserve(folder, bytes);
        if room.is_err() {
            self.give_back(bytes);
        }
        room
    }

    /// Releases `bytes` that [`take`](Self::take) reserved.
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    fn leaves_reserve(&self, folder: &Path, bytes: u64) -> Result<(), String> {
        let disk = rustix::fs::statvfs(folder).map_err(|error| {
            format!("the free space of {} is not known: {}", folder.display(), io::Error::from(error))
        })?;
        let all = disk.f_blocks.saturating_mul(disk.f_frsize);
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let reserve = self.reserve.unwrap_or(RESERVE_BYTES.max(all / RESERVE_SHARE));
        if free < bytes.saturating_add(reserve) {
            return Err(format!("{} has {free} bytes free, of which {reserve} are left to others", folder.display()));
        }
        Ok(())
    }
}

/// Writes `bytes` at `offset` of the file `path`, which is created for its owner alone if it does
/// not exist. After an error, the file is truncated to `offset` bytes.
///
/// Writes block and end in the page cache, as those of DataFusion do. The file is not kept open, so
/// that the number of files is not limited by the number of file descriptors.
pub(super) fn write(path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let written = file.write_all_at(bytes, offset);
    if written.is_err() {
        let _ = file.set_len(offset);
    }
    written
}

/// Replaces the content of the file `path` by `bytes` atomically: after an error, it is unchanged.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write(&new, 0, bytes)?;
    fs::rename(new, path)
}

/// Returns whether `error` means that the disk is full, or that a quota or size limit is reached.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Reads `bytes` bytes at `offset` of the file `path`.
pub(super) fn read(path: &Path, offset: u64, bytes: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; bytes];
    fs::File::open(path)?.read_exact_at(&mut buffer, offset)?;
    Ok(buffer.into())
}
