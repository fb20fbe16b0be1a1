//! The memory of pages.
//!
//! All of it is reserved in the memory budget of the scan. Memory is not allocated because of a
//! claimed size alone: a page of usual size is decompressed into a pooled buffer, and the buffer of
//! a larger page grows as it is decompressed.

use std::io::Read;
use std::sync::Arc;

use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::column::page::Page;

use crate::io::buffer_pool::{BlockBuffers, BlockRoom};
use crate::parquet::errors::external;
use crate::runtime::memory::{MemoryBudget, Reservation, Shortage};

/// The minimum growth of the buffer of a large page, in bytes.
const STEP_BYTES: usize = 1024 * 1024;

/// Allocates the memory of pages. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct PageMemory {
    buffers: Arc<BlockBuffers>,
    budget: MemoryBudget,
    /// The last shortage. It is stored here because the library passes errors on as text.
    refused: Arc<Mutex<Option<Shortage>>>,
}

impl PageMemory {
    pub(crate) fn new(buffers: Arc<BlockBuffers>, budget: MemoryBudget) -> Self {
        Self { buffers, budget, refused: Arc::default() }
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Returns space for `length` bytes, aligned like the offset `at` of a file.
    pub(crate) fn room(&self, length: usize, at: u64) -> Result<BlockRoom> {
        self.buffers.reserved_room(length, at, &self.budget).map_err(|shortage| self.refuse(shortage))
    }

    /// Reserves `bytes` of memory.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.budget.try_reserve(bytes).map_err(|shortage| self.refuse(shortage))
    }

    /// Returns the error for a page for which there is not enough memory, and stores the shortage.
    pub(crate) fn refuse(&self, shortage: Shortage) -> ParquetError {
        *self.refused.lock() = Some(shortage);
        too_large(shortage)
    }

    /// Returns the error of the last shortage again, if there was one.
    pub(crate) fn refusal(&self) -> Option<ParquetError> {
        self.refused.lock().map(too_large)
    }

    /// Reads `length` bytes: `first`, followed by all of `from`.
    pub(crate) fn read_all(&self, first: &[u8], mut from: impl Read, length: usize) -> Result<Bytes> {
        let reserved = self.reserve(first.len())?;
        let mut all = first.to_vec();
        while all.len() < length {
            // The size doubles. While the old bytes are copied, both buffers exist.
            let (filled, more) = (all.len(), all.len().max(STEP_BYTES).min(length - all.len()));
            reserved.grow(filled + more).map_err(|shortage| self.refuse(shortage))?;
            all.reserve_exact(more);
            all.resize(filled + more, 0);
            reserved.shrink(filled);
            let mut room = all.get_mut(filled..).unwrap_or_default();
            while !room.is_empty() {
                match from.read(room)? {
                    0 => return Err(other_size(length)),
                    read => room = room.get_mut(read..).unwrap_or_default(),
                }
            }
        }
        if from.read(&mut [0])? > 0 {
            return Err(other_size(length));
        }
        Ok(reserved.hold(all))
    }
}

/// Returns the error for a page whose size differs from that in its header.
pub(crate) fn other_size(length: usize) -> ParquetError {
    ParquetError::General(format!("a page said to have {length} bytes has another size"))
}

/// Returns the error for a row group that needs too much memory.
pub(crate) fn too_large(shortage: Shortage) -> ParquetError {
    external(shortage.error("a row group of Parquet", "OverMaxParquetBlockSize"))
}

pub(crate) fn broken(what: &str) -> ParquetError {
    ParquetError::General(format!("a page {what}"))
}

/// Allocates a size that a file claims. A failed allocation is an error.
pub(crate) fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|error| ParquetError::General(error.to_string()))?;
    room.resize(bytes, 0);
    Ok(room)
}

/// Returns the bytes of a decoded dictionary: a copy of the page, and a view for each value.
pub(crate) fn dictionary_bytes(dictionary: &Page) -> usize {
    const VIEW_BYTES: usize = 16;
    dictionary.buffer().len().saturating_add((dictionary.num_values() as usize).saturating_mul(VIEW_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: usize) -> PageMemory {
        PageMemory::new(BlockBuffers::new(0, 4), MemoryBudget::new(bytes))
    }

    #[test]
    fn no_more_than_arrives_is_allocated() {
        let memory = memory(16 << 20);
        let short: &[u8] = &[7; 1000];
        let claimed = 1 << 30;
        assert!(memory.read_all(&[], short, claimed).unwrap_err().to_string().contains("another size"));
        assert!(memory.budget.peak() <= STEP_BYTES, "{}", memory.budget.peak());
        let endless = std::io::repeat(7);
        let error = memory.read_all(&[], endless, claimed).unwrap_err().to_string();
        assert!(error.contains("needs more than 16777216 bytes"), "{error}");
        assert_eq!(memory.budget.used(), 0);
    }

    #[test]
    fn what_is_read_is_reserved_while_it_lives() {
        let memory = memory(16 << 20);
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i as u8).collect();
        let read = memory.read_all(b"before", bytes.as_slice(), bytes.len() + 6).unwrap();
        assert!(read.starts_with(b"before") && read[6..] == bytes[..]);
        assert_eq!(memory.budget.used(), read.len());
        drop(read);
        assert_eq!(memory.budget.used(), 0);
        assert!(memory.read_all(b"x", bytes.as_slice(), bytes.len()).is_err(), "longer than it says");
    }
}
