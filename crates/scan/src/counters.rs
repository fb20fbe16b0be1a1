//! Counters of a scan.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the work that a scan has done so far. They can be read while the scan runs.
#[derive(Debug, Default)]
pub struct ScanCounters {
    /// Bytes of the object that were read: for text the stored bytes, even if compressed; for
    /// Parquet the bytes of column chunks.
    pub bytes_scanned: AtomicU64,
    /// The same bytes after the object as a whole was decompressed.
    pub bytes_processed: AtomicU64,
    /// Records decoded, in whole or in part, before filtering.
    pub rows_scanned: AtomicU64,
    /// Row groups of Parquet that were read.
    pub row_groups_scanned: AtomicU64,
    /// Row groups of Parquet that were pruned by statistics.
    pub row_groups_pruned: AtomicU64,
    /// Bytes of text that were pruned by zones.
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
