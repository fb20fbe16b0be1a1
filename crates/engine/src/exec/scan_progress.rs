//! Progress of a scan, over all its partitions.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::endpoints::is_scan;

/// Minimum scanned bytes for a throughput measurement; below, fixed costs dominate.
const MIN_TIMED_BYTES: u64 = 4 * 1024 * 1024;

/// Counts of scanned bytes and rows.
#[derive(Debug, Default)]
pub(crate) struct ScanProgress {
    /// Bytes of splits scanned by storage, and those of them that it reads.
    pub(crate) pushed: AtomicU64,
    pub(crate) read: AtomicU64,
    /// Bytes of finished splits, and their rows.
    pub(crate) done: AtomicU64,
    pub(crate) rows: AtomicU64,
    /// Bytes of text scanned by the engine, bytes of the values parsed, and core nanoseconds.
    pub(crate) plain: AtomicU64,
    pub(crate) plain_values: AtomicU64,
    pub(crate) plain_ns: AtomicU64,
    /// Whether the times have been recorded.
    pub(crate) is_timed: AtomicBool,
}

impl ScanProgress {
    /// Counts finished splits of `bytes` bytes.
    pub(crate) fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn figures(&self) -> [u64; 4] {
        let Self { pushed, read, done, rows, .. } = self;
        [pushed, read, done, rows].map(|count| count.load(Relaxed))
    }

    /// Engine seconds per byte, if the scan dominates them.
    pub(crate) fn plain_s_per_byte(&self) -> Option<f64> {
        let [bytes, values, ns] = [&self.plain, &self.plain_values, &self.plain_ns].map(|count| count.load(Relaxed));
        s_per_byte(bytes, values, Duration::from_nanos(ns).as_secs_f64())
    }
}

/// Seconds per scanned byte, if the scan dominates them.
pub(crate) fn s_per_byte(scanned: u64, returned: u64, seconds: f64) -> Option<f64> {
    (scanned >= MIN_TIMED_BYTES && is_scan(scanned, returned) && seconds > 0.0).then(|| seconds / scanned as f64)
}
