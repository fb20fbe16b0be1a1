//! Counters of what a query spilled and read, and how long it waited for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A snapshot of what a query has spilled so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SpillUsage {
    /// Files with at least one byte.
    pub files: u64,
    /// Parts that were written to the disk or the object store.
    pub parts_written: u64,
    /// Parts that were read from the disk or the object store. A part that is read twice counts
    /// twice.
    pub parts_read: u64,
    /// Bytes of parts written to the local disk.
    pub disk_bytes_written: u64,
    /// Bytes of parts read from the local disk.
    pub disk_bytes_read: u64,
    /// Bytes of parts uploaded.
    pub remote_bytes_written: u64,
    /// Bytes of parts downloaded.
    pub remote_bytes_read: u64,
    /// PUT requests, for parts and manifests.
    pub puts: u64,
    /// GET requests, for parts.
    pub gets: u64,
    /// DELETE requests, each for up to 1,000 objects.
    pub deletes: u64,
    /// The time writers waited for uploads, summed over writers.
    pub write_wait: Duration,
    /// The time readers waited for parts, summed over readers.
    pub read_wait: Duration,
}

/// The counters of one query, which go on counting while its files are deleted.
#[derive(Clone, Debug, Default)]
pub struct SpillMeter(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    files: AtomicU64,
    parts_written: AtomicU64,
    parts_read: AtomicU64,
    disk_bytes_written: AtomicU64,
    disk_bytes_read: AtomicU64,
    remote_bytes_written: AtomicU64,
    remote_bytes_read: AtomicU64,
    puts: AtomicU64,
    gets: AtomicU64,
    deletes: AtomicU64,
    write_wait: AtomicU64,
    read_wait: AtomicU64,
}

impl SpillMeter {
    /// Returns a snapshot of the counters.
    pub fn usage(&self) -> SpillUsage {
        let c = &*self.0;
        SpillUsage {
            files: c.files.load(Relaxed),
            parts_written: c.parts_written.load(Relaxed),
            parts_read: c.parts_read.load(Relaxed),
            disk_bytes_written: c.disk_bytes_written.load(Relaxed),
            disk_bytes_read: c.disk_bytes_read.load(Relaxed),
            remote_bytes_written: c.remote_bytes_written.load(Relaxed),
            remote_bytes_read: c.remote_bytes_read.load(Relaxed),
            puts: c.puts.load(Relaxed),
            gets: c.gets.load(Relaxed),
            deletes: c.deletes.load(Relaxed),
            write_wait: Duration::from_nanos(c.write_wait.load(Relaxed)),
            read_wait: Duration::from_nanos(c.read_wait.load(Relaxed)),
        }
    }

    pub(super) fn file(&self) {
        self.0.files.fetch_add(1, Relaxed);
    }

    pub(super) fn wrote_disk(&self, bytes: usize) {
        self.0.parts_written.fetch_add(1, Relaxed);
        self.0.disk_bytes_written.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn wrote_remote(&self, bytes: usize) {
        self.0.parts_written.fetch_add(1, Relaxed);
        self.0.remote_bytes_written.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn read_disk(&self, bytes: usize) {
        self.0.parts_read.fetch_add(1, Relaxed);
        self.0.disk_bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn read_remote(&self, bytes: usize) {
        self.0.parts_read.fetch_add(1, Relaxed);
        self.0.remote_bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn put(&self) {
        self.0.puts.fetch_add(1, Relaxed);
    }

    pub(super) fn get(&self) {
        self.0.gets.fetch_add(1, Relaxed);
    }

    pub(super) fn delete(&self) {
        self.0.deletes.fetch_add(1, Relaxed);
    }

    pub(super) fn waited_to_write(&self, since: Instant) {
        self.0.write_wait.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    }

    pub(super) fn waited_to_read(&self, since: Instant) {
        self.0.read_wait.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    }
}
