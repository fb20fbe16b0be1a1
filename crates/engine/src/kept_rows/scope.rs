//! The part of a plan in which the rows of a scan can come to their end.

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

use super::KeptRows;
use crate::watch::{WatchExec, Watcher};

/// Passes rows through. Once they have ended, or nobody wants more of them, what is not all kept below never will be: an operator may
/// have left rows of the scan unread, without dropping it.
pub(crate) type KeptScopeExec = WatchExec<KeptScope>;

impl KeptScopeExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, kept: Arc<KeptRows>) -> Self {
        Self::of(input, KeptScope { kept, ended: Arc::default() })
    }
}

/// Waits for the end of all partitions.
#[derive(Clone, Debug)]
pub(crate) struct KeptScope {
    kept: Arc<KeptRows>,
    ended: Arc<AtomicUsize>,
}

impl Watcher for KeptScope {
    const NAME: &'static str = "KeptScopeExec";

    fn shown(&self) -> String {
        format!("kept=#{}", self.kept.number())
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

/// A partition that has not ended. The last one to go settles what becomes of the rows.
struct Open {
    scope: KeptScope,
    /// How many there are.
    partitions: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        // It does nothing to rows that are complete.
        if self.scope.ended.fetch_add(1, Ordering::AcqRel) + 1 >= self.partitions {
            self.scope.kept.give_up();
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
