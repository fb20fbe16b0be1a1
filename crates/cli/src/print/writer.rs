//! The trait of every result format.

use anyhow::Result;
use arrow::record_batch::RecordBatch;

/// A writer of one result.
pub trait RowWriter: Send {
    /// Writes rows, possibly later.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes the rest. This must be called even if there are no rows.
    fn finish(self: Box<Self>) -> Result<()>;
}
