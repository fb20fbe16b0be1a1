//! Shares of the memory reservation of one partition's sort.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;

/// A part of the memory of one partition's sort. Dropping it releases the memory.
///
/// All shares of a sort belong to one reservation. `FairSpillPool` compares each reservation
/// separately with the share of a consumer, so its limit would not work with a reservation for each
/// piece of data.
pub(super) struct Share {
    all: Arc<MemoryReservation>,
    bytes: usize,
}

impl Share {
    /// Creates an empty share of the reservation `all`.
    pub(super) fn new(all: &Arc<MemoryReservation>) -> Self {
        Self { all: Arc::clone(all), bytes: 0 }
    }

    /// Creates an empty share of the same reservation.
    pub(super) fn new_empty(&self) -> Self {
        Self::new(&self.all)
    }

    /// Returns the number of bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Grows by `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the pool refuses.
    pub(super) fn try_grow(&mut self, bytes: usize) -> Result<()> {
        self.all.try_grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Grows or shrinks to `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the pool refuses.
    pub(super) fn try_resize(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.try_grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Releases `bytes`, or all if there are fewer.
    pub(super) fn shrink(&mut self, bytes: usize) {
        drop(self.split(bytes));
    }

    /// Splits off a share with `bytes` of this one, or with all if there are fewer.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { all: Arc::clone(&self.all), bytes }
    }

    /// Moves all bytes to a new share, and leaves this one empty.
    pub(super) fn take(&mut self) -> Self {
        self.split(self.bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.all.shrink(self.bytes);
        }
    }
}
