//! Progress of a scan, over all its partitions.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::endpoints::is_scan;

/// Minimum scanned bytes for a throughput measurement; with fewer bytes, fixed costs dominate.
const MIN_TIMED_BYTES: u64 = 4 * 1024 * 1024;

/// Counts of scanned bytes and rows.
#[derive(Debug, Default)]
pub(crate) struct ScanProgress {
    /// Bytes of the splits that storage scanned.
    pub(crate) pushed: AtomicU64,
    /// Bytes of these splits that storage read; it skips the others.
    pub(crate) read: AtomicU64,
    /// Bytes of finished splits.
    pub(crate) done: AtomicU64,
    /// Rows that the splits returned.
    pub(crate) rows: AtomicU64,
    /// Bytes of text that the engine scanned.
    pub(crate) plain: AtomicU64,
    /// Bytes of the values parsed from this text.
    pub(crate) plain_values: AtomicU64,
    /// Core time spent on this text, in nanoseconds.
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

    /// Returns the engine's seconds per byte of text; `None` if too little was scanned, or if
    /// scanning did not dominate the time.
    pub(crate) fn plain_s_per_byte(&self) -> Option<f64> {
        let [bytes, values, ns] = [&self.plain, &self.plain_values, &self.plain_ns].map(|count| count.load(Relaxed));
        s_per_byte(bytes, values, Duration::from_nanos(ns).as_secs_f64())
    }
}

/// Returns the seconds per scanned byte; `None` if too little was scanned, or if scanning did not
/// dominate the time.
pub(crate) fn s_per_byte(scanned: u64, returned: u64, seconds: f64) -> Option<f64> {
    (scanned >= MIN_TIMED_BYTES && is_scan(scanned, returned) && seconds > 0.0).then(|| seconds / scanned as f64)
}
