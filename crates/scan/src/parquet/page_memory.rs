//! The memory that pages are read and decompressed into.
//!
//! All of it is drawn from the budget of the scan. What a header claims is no reason to allocate: a page of usual size has a
//! buffer that is used again, and a larger one is made in pieces, as its bytes come out of the decompressor.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;

use super::errors::external;
use crate::{BlockBuffers, BlockRoom, MemoryBudget, Reservation, Shortage};

/// Large pages grow by at least so many bytes.
const STEP_BYTES: usize = 1024 * 1024;

/// Where the memory of pages comes from. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct PageMemory {
    buffers: Arc<BlockBuffers>,
    budget: MemoryBudget,
    /// What was refused last: the library hands errors of pages on as text.
    refused: Arc<Mutex<Option<Shortage>>>,
}

impl PageMemory {
    pub(super) fn new(buffers: Arc<BlockBuffers>, budget: MemoryBudget) -> Self {
        Self { buffers, budget, refused: Arc::default() }
    }

    pub(super) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Room for so many bytes.
    pub(super) fn room(&self, length: usize) -> Result<BlockRoom> {
        self.buffers.reserved_room(length, &self.budget).map_err(|shortage| self.refuse(shortage))
    }

    /// Room for what lies at `at` of the file.
    pub(super) fn room_like(&self, length: usize, at: u64) -> Result<BlockRoom> {
        self.buffers.reserved_room_like(length, at, &self.budget).map_err(|shortage| self.refuse(shortage))
    }

    /// So many bytes, for as long as the reservation lives.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.budget.try_reserve(bytes).map_err(|shortage| self.refuse(shortage))
    }

    /// The error of a page for which there is too little memory.
    pub(super) fn refuse(&self, shortage: Shortage) -> ParquetError {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(shortage);
        too_large(shortage)
    }

    /// That error again, if there was one.
    pub(super) fn refusal(&self) -> Option<ParquetError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).map(too_large)
    }

    /// All that `from` gives, after `first`, `length` bytes in all.
    pub(super) fn read_all(&self, first: &[u8], mut from: impl Read, length: usize) -> Result<Bytes> {
        let reserved = self.reserve(first.len())?;
        let mut all = first.to_vec();
        while all.len() < length {
            // Twice as much at a time; while the old half is copied both are there.
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

/// A page that is not as long as its header says.
pub(super) fn other_size(length: usize) -> ParquetError {
    ParquetError::General(format!("a page said to have {length} bytes has another size"))
}

/// There is too little memory for what a row group needs.
pub(super) fn too_large(shortage: Shortage) -> ParquetError {
    external(shortage.error("a row group of Parquet", "OverMaxParquetBlockSize"))
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
