//! Shares of the memory of one partition's sort.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;

/// A part of the memory of one partition's sort, given back on drop.
///
/// All shares of a sort are in one reservation: `FairSpillPool` compares each reservation by itself
/// with what one consumer may have, so with one for each piece of data no limit would hold.
pub(super) struct Share {
    all: Arc<MemoryReservation>,
    bytes: usize,
}

impl Share {
    /// An empty share of `all`.
    pub(super) fn new(all: &Arc<MemoryReservation>) -> Self {
        Self { all: Arc::clone(all), bytes: 0 }
    }

    /// An empty share of the same memory.
    pub(super) fn new_empty(&self) -> Self {
        Self::new(&self.all)
    }

    /// Its bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Grows by `bytes`.
    ///
    /// # Errors
    ///
    /// The pool refused.
    pub(super) fn try_grow(&mut self, bytes: usize) -> Result<()> {
        self.all.try_grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Grows or shrinks to `bytes`.
    ///
    /// # Errors
    ///
    /// The pool refused.
    pub(super) fn try_resize(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.try_grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Gives `bytes` back, or all if there are fewer.
    pub(super) fn shrink(&mut self, bytes: usize) {
        drop(self.split(bytes));
    }

    /// A share with `bytes` of this one, or with all if there are fewer.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { all: Arc::clone(&self.all), bytes }
    }

    /// A share with all of this one, which is empty then.
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
