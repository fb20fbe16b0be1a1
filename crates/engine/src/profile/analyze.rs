//! EXPLAIN ANALYZE: runs a plan to its end, drops its rows, and returns its profile as text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::{Ran, text};
use crate::context::QueryContext;

/// Wraps the rows of a plan into the result of EXPLAIN ANALYZE, with columns `schema`.
pub(crate) fn analyzed(
    mut ran: Ran,
    mut rows: SendableRecordBatchStream,
    schema: SchemaRef,
    query: Arc<QueryContext>,
) -> (Ran, SendableRecordBatchStream) {
    let counted = Arc::new(AtomicU64::new(0));
    ran.rows = Some(Arc::clone(&counted));
    let (started, columns) = (ran.clone(), Arc::clone(&schema));
    let answer = async move {
        while let Some(batch) = rows.try_next().await? {
            counted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        // Dropping the rows frees and counts what operators still hold.
        drop(rows);
        query.meter.finish();
        let text = text::profile(&started.profile(&query));
        let (kinds, plans) = (StringArray::from(vec!["Plan with Metrics"]), StringArray::from(vec![text]));
        DfResult::Ok(RecordBatch::try_new(columns, vec![Arc::new(kinds), Arc::new(plans)])?)
    };
    (ran, Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(answer))))
}
