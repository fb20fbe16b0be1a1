//! Sizes that depend on the memory limit of queries.

use super::{MemoryLimit, PushdownOptions};
use crate::machine::default_memory_bytes;

impl PushdownOptions {
    /// Returns the memory limit of all queries, in bytes; `None` without a limit.
    pub(crate) fn memory_bytes(&self) -> Option<usize> {
        match self.memory {
            MemoryLimit::Auto => Some(default_memory_bytes()),
            MemoryLimit::None => None,
            MemoryLimit::Bytes(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
        }
    }

    /// Returns the number of rows per batch: fewer if the memory limit is low.
    pub(crate) fn batch_rows(&self) -> usize {
        match self.memory {
            MemoryLimit::Bytes(bytes) => usize::try_from(bytes / MEMORY_BYTES_PER_BATCH_ROW)
                .unwrap_or(BATCH_ROWS)
                .clamp(MIN_BATCH_ROWS, BATCH_ROWS),
            MemoryLimit::Auto | MemoryLimit::None => BATCH_ROWS,
        }
    }

    /// Returns `bytes`, or the memory limit divided by `divisor` if that is less.
    pub(crate) fn bytes_within(&self, bytes: u64, divisor: u64) -> u64 {
        match self.memory {
            MemoryLimit::Bytes(limit) => bytes.min(limit / divisor),
            MemoryLimit::Auto | MemoryLimit::None => bytes,
        }
    }

    /// Returns the bytes of rows that a partition of a scan may hold back until their split is
    /// complete.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes_within(self.buffer_bytes, MEMORY_BYTES_PER_HELD_BYTE)
    }
}

/// Rows per batch: the default and the minimum.
const BATCH_ROWS: usize = 8192;
const MIN_BATCH_ROWS: usize = 128;

/// Bytes of the memory limit for each row of a batch: below 64 MiB, batches have fewer rows.
const MEMORY_BYTES_PER_BATCH_ROW: u64 = 8192;

/// Bytes of the memory limit for each byte of rows that a partition of a scan holds back.
const MEMORY_BYTES_PER_HELD_BYTE: u64 = 16;
