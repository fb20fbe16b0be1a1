//! The output of one partition of a join that has spilled.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{SendableRecordBatchStream, TryEmitter};
use datafusion_physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::TryStreamExt;

/// The sink of one output partition, to which the joins of all of its parts send their rows.
pub(super) struct Output {
    emitter: TryEmitter<RecordBatch, DataFusionError>,
    schema: SchemaRef,
    /// The number of rows that may still be emitted.
    rest: usize,
    metrics: BaselineMetrics,
}

impl Output {
    /// Creates an output that emits at most `fetch` rows with `schema` through `emitter`.
    pub(super) fn new(
        emitter: TryEmitter<RecordBatch, DataFusionError>,
        schema: SchemaRef,
        fetch: Option<usize>,
        metrics: BaselineMetrics,
    ) -> Self {
        Self { emitter, schema, rest: fetch.unwrap_or(usize::MAX), metrics }
    }

    /// Returns whether the limit is reached.
    pub(super) fn is_done(&self) -> bool {
        self.rest == 0
    }

    /// Emits the rows of `stream` until it ends or the limit is reached. The columns must be those
    /// of the output, but their nullability may differ.
    pub(super) async fn emit_all(&mut self, mut stream: SendableRecordBatchStream) -> Result<()> {
        while !self.is_done() {
            match stream.try_next().await? {
                Some(batch) => self.emit(batch).await?,
                None => break,
            }
        }
        Ok(())
    }

    /// Emits the rows of `batch`, up to the limit.
    pub(super) async fn emit(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows().min(self.rest);
        if rows == 0 {
            return Ok(());
        }
        self.rest -= rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = batch.slice(0, rows);
        let columns = batch.columns().to_vec();
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)?;
        self.emitter.emit(batch.record_output(&self.metrics)).await;
        Ok(())
    }
}
