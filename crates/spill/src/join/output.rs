//! The output of one partition of a join that has spilled.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{SendableRecordBatchStream, TryEmitter};
use datafusion_physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::TryStreamExt;

/// Where the joins of all parts of a partition put their rows.
pub(super) struct Output {
    emitter: TryEmitter<RecordBatch, DataFusionError>,
    schema: SchemaRef,
    /// Rows that may still be put out.
    rest: usize,
    metrics: BaselineMetrics,
}

impl Output {
    /// Puts out at most `fetch` rows through `emitter`, with `schema`.
    pub(super) fn new(
        emitter: TryEmitter<RecordBatch, DataFusionError>,
        schema: SchemaRef,
        fetch: Option<usize>,
        metrics: BaselineMetrics,
    ) -> Self {
        Self { emitter, schema, rest: fetch.unwrap_or(usize::MAX), metrics }
    }

    /// Returns whether no more rows are wanted.
    pub(super) fn is_done(&self) -> bool {
        self.rest == 0
    }

    /// Puts out the rows of `stream` until it ends or no more are wanted. Its columns are those of
    /// the output; their nullability may differ.
    pub(super) async fn emit_all(&mut self, mut stream: SendableRecordBatchStream) -> Result<()> {
        while !self.is_done() {
            match stream.try_next().await? {
                Some(batch) => self.emit(batch).await?,
                None => break,
            }
        }
        Ok(())
    }

    /// Puts out the rows of `batch` that are still wanted.
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
