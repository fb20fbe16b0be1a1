//! State that the files of one query share: the places for parts, and the limits on memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use datafusion_common::Result;
use parking_lot::Mutex;
use uuid::Uuid;

use super::options::QueryOptions;
use super::process::{Ending, SpillProcess};
use super::remote::RemoteParts;
use super::seal::Cipher;
use super::slots::Slot;
use super::usage::SpillMeter;

/// The size of a part on the local disk, in bytes. Smaller parts would cost more writes, larger
/// parts more memory for each file that is written or read.
const DISK_PART_BYTES: usize = 1 << 20;

/// When the bytes in unfilled parts exceed their limit, a part is written or uploaded if it has at
/// least this fraction of its full size: 1/16 for the disk, 1/8 for an upload.
const LEAST_DISK_SHARE: usize = 16;
const LEAST_UPLOAD_SHARE: usize = 8;

/// The fraction of `buffer_bytes` (1/4) that small files may keep in memory.
const KEPT_SHARE: u64 = 4;

/// The tiers of one query: memory, disk and object store. All stored data is deleted when the last
/// file is dropped.
#[derive(Debug)]
pub(super) struct Tiers {
    pub process: SpillProcess,
    pub query: Uuid,
    pub meter: SpillMeter,
    pub cipher: Option<Arc<Cipher>>,
    pub remote: Option<Arc<RemoteParts>>,
    /// Whether the local disk may be used.
    pub disk: bool,
    /// The full and the minimum size of a part, in bytes, on the local disk and in the object
    /// store.
    pub disk_part: usize,
    pub least_disk: usize,
    pub remote_part: usize,
    pub least_upload: usize,
    buffer_bytes: u64,
    /// Set when the query has ended; makes [`SpillProcess::settle`] wait for its deletion.
    pub ending: Mutex<Option<Ending>>,
    files: AtomicU64,
    parts: AtomicU64,
    /// Bytes in parts that are being filled.
    buffered: AtomicU64,
    /// Bytes of small files that are kept in memory.
    kept: AtomicU64,
    /// Bytes that are read ahead.
    ahead: Arc<AtomicU64>,
}

/// A reservation for bytes that are read ahead. Dropping it releases them.
#[derive(Debug)]
pub(super) struct Ahead(Arc<AtomicU64>, u64);

impl Tiers {
    pub(super) fn new(process: &SpillProcess, options: &QueryOptions) -> Result<Self> {
        // The name must be new: parts of an earlier query with that name might be about to be
        // deleted.
        let (query, meter) = (Uuid::new_v4(), SpillMeter::default());
        let remote = options.remote.as_ref().map(|remote| RemoteParts::new(process, query, remote, options, &meter));
        let remote_part = options.part_bytes.max(1);
        let disk_part = remote_part.min(DISK_PART_BYTES);
        Ok(Self {
            process: process.clone(),
            query,
            meter,
            cipher: if options.encrypt { Some(Arc::new(Cipher::new()?)) } else { None },
            remote: remote.map(Arc::new),
            disk: options.disk,
            disk_part,
            least_disk: (disk_part / LEAST_DISK_SHARE).max(1),
            remote_part,
            least_upload: (remote_part / LEAST_UPLOAD_SHARE).max(1),
            buffer_bytes: options.buffer_bytes,
            ending: Mutex::new(None),
            files: AtomicU64::new(0),
            parts: AtomicU64::new(0),
            buffered: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            ahead: Arc::default(),
        })
    }

    /// Returns the number for a new file.
    pub(super) fn new_file(&self) -> u64 {
        self.files.fetch_add(1, Relaxed)
    }

    /// Returns the number for a new part of any file.
    pub(super) fn new_part(&self) -> u64 {
        self.parts.fetch_add(1, Relaxed)
    }

    /// Returns the path of the local file of file `number`, or says why there cannot be one.
    pub(super) fn path(&self, number: u64) -> Result<PathBuf, String> {
        if !self.disk {
            return Err("the local disk is not used".into());
        }
        let folder = self.process.folder(self.remote.as_ref().map(|remote| remote.store()))?;
        Ok(folder.join(format!("{}_{number}", self.query.simple())))
    }

    /// Adds `bytes` to those in parts that are being filled.
    pub(super) fn buffer(&self, bytes: usize) {
        self.buffered.fetch_add(bytes as u64, Relaxed);
    }

    /// Subtracts `bytes` from those in parts that are being filled.
    pub(super) fn unbuffer(&self, bytes: usize) {
        self.buffered.fetch_sub(bytes as u64, Relaxed);
    }

    /// Returns whether the parts that are being filled exceed their limit on memory.
    pub(super) fn is_over_buffers(&self) -> bool {
        self.buffered.load(Relaxed) > self.buffer_bytes
    }

    /// Reserves memory to keep a small file of `bytes` there. Returns whether that is possible.
    pub(super) fn keep(&self, bytes: usize) -> bool {
        let most = self.buffer_bytes / KEPT_SHARE;
        bytes < self.least_upload && try_add(&self.kept, bytes as u64, most)
    }

    /// Releases memory that [`keep`](Self::keep) reserved.
    pub(super) fn unkeep(&self, bytes: usize) {
        self.kept.fetch_sub(bytes as u64, Relaxed);
    }

    /// Reserves memory for `bytes` that are read ahead. Returns `None` if the limit would be
    /// exceeded.
    pub(super) fn read_ahead(&self, bytes: usize) -> Option<Ahead> {
        let bytes = bytes as u64;
        try_add(&self.ahead, bytes, self.buffer_bytes).then(|| Ahead(self.ahead.clone(), bytes))
    }

    /// Takes a slot for an upload to `remote`. Blocks the thread if none is free.
    pub(super) fn slot(&self, remote: &RemoteParts) -> Slot {
        remote.slots.try_take().unwrap_or_else(|| {
            let start = Instant::now();
            let slot = remote.slots.take();
            self.meter.waited_to_write(start);
            slot
        })
    }
}

fn try_add(sum: &AtomicU64, bytes: u64, most: u64) -> bool {
    sum.fetch_update(Relaxed, Relaxed, |sum| sum.checked_add(bytes).filter(|sum| *sum <= most)).is_ok()
}

impl Drop for Tiers {
    fn drop(&mut self) {
        if let Some(remote) = self.remote.take() {
            remote.end();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}
