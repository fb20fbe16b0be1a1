//! The rows of one partition: in memory, and in a file once the partition was spilled.

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion_common::Result;
use datafusion_physical_plan::SpillManager;
use datafusion_physical_plan::spill::get_record_batch_memory_size;

use super::file::{FILE_BATCH_BYTES, FileWriter, SpilledRows};

/// Batches in memory, with their total number of rows and bytes.
#[derive(Default)]
struct Rows {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Rows {
    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += get_record_batch_memory_size(&batch);
        self.batches.push(batch);
    }
}

/// The rows of one partition of one side of a join.
///
/// Small batches are collected and combined into larger ones. In a resident partition the combined
/// batches stay in memory; after [`Self::spill`] they are written to the partition's file.
#[derive(Default)]
pub(super) struct PartitionBuffer {
    /// Small batches that are not yet combined.
    gathered: Rows,
    /// Combined batches of a resident partition.
    resident: Rows,
    file: Option<FileWriter>,
}

impl PartitionBuffer {
    /// Returns whether the partition has a file.
    pub(super) fn is_spilled(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the bytes of rows in memory, whether or not the partition is spilled.
    pub(super) fn bytes(&self) -> usize {
        self.gathered.bytes + self.resident.bytes
    }

    /// Returns the number of rows in memory.
    pub(super) fn rows(&self) -> usize {
        self.gathered.rows + self.resident.rows
    }

    /// Adds `batch`. Batches are combined when they have `batch_size` rows or about the size of a
    /// batch in a file.
    pub(super) fn push(&mut self, batch: RecordBatch, batch_size: usize) -> Result<()> {
        self.gathered.push(batch);
        if self.gathered.rows >= batch_size || self.gathered.bytes >= FILE_BATCH_BYTES {
            self.settle()?;
        }
        Ok(())
    }

    /// Combines the collected batches, and moves the result to the file or to the resident batches.
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let batch = match gathered.batches.len() {
            0 => return Ok(()),
            1 => gathered.batches.swap_remove(0),
            _ => concat_batches(&gathered.batches[0].schema(), &gathered.batches)?,
        };
        drop(gathered);
        match &mut self.file {
            Some(file) => file.append(&batch),
            None => {
                self.resident.push(batch);
                Ok(())
            }
        }
    }

    /// Writes all rows in memory to the file, which `manager` creates if there is none. Errors name
    /// it `what`.
    pub(super) fn spill(&mut self, manager: &SpillManager, what: &str) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(FileWriter::create(manager, what)?),
        };
        for batch in std::mem::take(&mut self.resident).batches {
            file.append(&batch)?;
        }
        self.settle()
    }

    /// Ends the partition. Returns its rows in a file if it was spilled, and otherwise in memory.
    pub(super) fn finish(mut self) -> Result<Finished> {
        self.settle()?;
        match self.file {
            Some(file) => Ok(Finished::Spilled(file.finish()?)),
            None => Ok(Finished::Resident(self.resident.batches)),
        }
    }
}

/// Where the rows of a finished partition are.
pub(super) enum Finished {
    Resident(Vec<RecordBatch>),
    Spilled(SpilledRows),
}
