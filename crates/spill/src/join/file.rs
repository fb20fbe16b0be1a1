//! The spill file of one side of one partition: written batch by batch, then read as a stream.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion_common::{Result, internal_err};
use datafusion_execution::{SendableRecordBatchStream, SpillFile};
use datafusion_physical_plan::SpillManager;
use datafusion_physical_plan::spill::get_record_batch_memory_size;

/// The approximate maximum size of a batch in a file, in bytes. Larger batches are written in
/// pieces, so that a reader needs little memory.
pub(super) const FILE_BATCH_BYTES: usize = 256 << 10;

/// An operation on a file that is being written.
enum Step<'a> {
    Append(&'a RecordBatch),
    Finish,
}

/// A function that writes to an open file. DataFusion does not export the file's type.
type OpenFile = Box<dyn FnMut(Step<'_>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// A spill file that is being written.
pub(super) struct FileWriter {
    manager: SpillManager,
    file: OpenFile,
    rows: usize,
    bytes: usize,
    batch_bytes: usize,
}

impl FileWriter {
    /// Creates a file through `manager`. Errors name it `what`.
    pub(super) fn create(manager: &SpillManager, what: &str) -> Result<Self> {
        let mut file = manager.create_in_progress_file(what)?;
        let file: OpenFile = Box::new(move |step| match step {
            Step::Append(batch) => file.append_batch(batch).map(|_| None),
            Step::Finish => file.finish(),
        });
        Ok(Self { manager: manager.clone(), file, rows: 0, bytes: 0, batch_bytes: 0 })
    }

    /// Appends the rows of `batch`, in several pieces if it is large.
    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let bytes = get_record_batch_memory_size(batch);
        let pieces = bytes.div_ceil(FILE_BATCH_BYTES).clamp(1, rows);
        let step = rows.div_ceil(pieces);
        for start in (0..rows).step_by(step) {
            (self.file)(Step::Append(&batch.slice(start, step.min(rows - start))))?;
        }
        self.rows += rows;
        self.bytes += bytes;
        self.batch_bytes = self.batch_bytes.max(bytes.div_ceil(pieces));
        Ok(())
    }

    /// Ends the file. Expects that at least one row was appended.
    pub(super) fn finish(mut self) -> Result<SpilledRows> {
        match (self.file)(Step::Finish)? {
            Some(file) => Ok(SpilledRows {
                manager: self.manager,
                file,
                rows: self.rows,
                bytes: self.bytes,
                batch_bytes: self.batch_bytes,
            }),
            None => internal_err!("a spill file of a join was finished without rows"),
        }
    }
}

/// Rows in a finished spill file, which is deleted with the last clone and the last stream of it.
#[derive(Clone)]
pub(super) struct SpilledRows {
    manager: SpillManager,
    file: Arc<dyn SpillFile>,
    /// Rows in the file.
    pub(super) rows: usize,
    /// The size of all rows in memory, in bytes.
    pub(super) bytes: usize,
    /// The approximate size of the largest batch in memory, in bytes.
    pub(super) batch_bytes: usize,
}

impl SpilledRows {
    /// Reads the file from its start, one batch at a time, in the order of writing.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        self.manager.read_spill_as_stream_unbuffered(Arc::clone(&self.file), None)
    }
}
