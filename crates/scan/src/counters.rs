//! Counters of a scan.

use std::sync::atomic::{AtomicU64, Ordering};

/// Work done by a scan so far. Shared: it can be read while the scan runs.
#[derive(Debug, Default)]
pub struct ScanCounters {
    /// Bytes of the object that were read: of text as stored, compressed or not; of Parquet the
    /// bytes of column chunks.
    pub bytes_scanned: AtomicU64,
    /// The same after decompression of the object as a whole.
    pub bytes_processed: AtomicU64,
    /// Records decoded, in whole or in part, before filtering.
    pub rows_scanned: AtomicU64,
    /// Row groups of Parquet that were read.
    pub row_groups_scanned: AtomicU64,
    /// Row groups of Parquet that statistics ruled out.
    pub row_groups_pruned: AtomicU64,
    /// Bytes of text that zones ruled out.
    pub bytes_pruned: AtomicU64,
}

impl ScanCounters {
    /// Adds the counts of another scan.
    pub(crate) fn add(&self, other: Self) {
        for (count, more) in [
            (&self.bytes_scanned, other.bytes_scanned),
            (&self.bytes_processed, other.bytes_processed),
            (&self.rows_scanned, other.rows_scanned),
            (&self.row_groups_scanned, other.row_groups_scanned),
            (&self.row_groups_pruned, other.row_groups_pruned),
            (&self.bytes_pruned, other.bytes_pruned),
        ] {
            count.fetch_add(more.into_inner(), Ordering::Relaxed);
        }
    }
}
