//! Scope of shared rows: the part of a plan outside of which they can no longer be completed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};

use super::SharedRows;
use crate::exec::pass_through::{PassThroughExec, RowObserver};

/// Operator that passes rows through. Once all its partitions have ended or are dropped, shared
/// rows that are still incomplete are given up: an operator below may have stopped reading their
/// scan without dropping it.
pub(crate) type SharedRowsScopeExec = PassThroughExec<SharedRowsScope>;

impl SharedRowsScopeExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, shared: Arc<SharedRows>) -> Self {
        Self::of(input, SharedRowsScope { shared, ended: Arc::default() })
    }
}

/// [`RowObserver`] that detects the end of the last partition.
#[derive(Clone, Debug)]
pub(crate) struct SharedRowsScope {
    shared: Arc<SharedRows>,
    ended: Arc<AtomicUsize>,
}

impl RowObserver for SharedRowsScope {
    const NAME: &'static str = "SharedRowsScopeExec";

    fn shown(&self) -> String {
        format!("kept=#{}", self.shared.number())
    }

    fn watch(
        &self,
        rows: SendableRecordBatchStream,
        _partition: usize,
        partitions: usize,
        _context: &TaskContext,
    ) -> SendableRecordBatchStream {
        Box::pin(Scope { rows, open: Some(Open { scope: self.clone(), partitions }) })
    }
}

/// Guard of a running partition. Dropping the last guard gives up incomplete rows.
struct Open {
    scope: SharedRowsScope,
    partitions: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        // No effect on complete rows.
        if self.scope.ended.fetch_add(1, Ordering::AcqRel) + 1 >= self.partitions {
            self.scope.shared.give_up();
        }
    }
}

struct Scope {
    rows: SendableRecordBatchStream,
    open: Option<Open>,
}

impl Stream for Scope {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        if matches!(polled, Poll::Ready(None)) {
            self.open = None;
        }
        polled
    }
}

impl RecordBatchStream for Scope {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
