//! The result of a statement: a stream of rows, and what the statement did and cost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::Meter;

use crate::context::{QueryContext, Report};
use crate::error::from_datafusion;
use crate::profile::{Profile, Ran};

/// The kind of statement that a result is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatementKind {
    /// Rows to print: SELECT, EXPLAIN, SHOW, COPY's count.
    Rows,
    /// CREATE, DROP: nothing to print.
    Definition,
    /// SET.
    Setting,
}

/// The result of a statement: a stream of batches. Dropping it stops the work and closes its
/// requests.
///
/// The stream fails once the statement exceeds the session's caps, even while no row is ready.
pub struct QueryResult {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// The kind of statement.
    pub kind: StatementKind,
    rows: SendableRecordBatchStream,
    /// Completes when the statement exceeds its caps.
    exceeded: BoxFuture<'static, Error>,
    context: Arc<QueryContext>,
    ran: Option<Ran>,
}

impl fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryResult").field("schema", &self.schema).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl QueryResult {
    pub(super) fn new(
        kind: StatementKind,
        rows: SendableRecordBatchStream,
        ran: Option<Ran>,
        context: Arc<QueryContext>,
    ) -> Self {
        let query = Arc::clone(&context);
        let exceeded = async move { query.exceeded().await }.boxed();
        Self { schema: rows.schema(), kind, rows, exceeded, context, ran }
    }

    /// The meter, which counts while rows are read.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.context.meter
    }

    /// The statement's context; a clone of it shows the progress while rows are read.
    pub fn context(&self) -> &Arc<QueryContext> {
        &self.context
    }

    /// The physical plan, if the statement has one.
    pub fn plan(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.ran.as_ref().map(|ran| &ran.plan)
    }

    /// The profile of each operator so far, if the statement has a plan; final once the rows are
    /// read.
    pub fn profile(&self) -> Option<Profile> {
        self.ran.as_ref().map(|ran| ran.profile(&self.context))
    }

    /// The usage and its cost so far; final once the rows are read.
    pub fn report(&self) -> Report {
        self.context.report()
    }

    /// Returns the same result once all of its rows are computed. The caller checks the statement's
    /// caps meanwhile.
    pub(super) async fn finished(mut self) -> Result<Self> {
        let mut batches = Vec::new();
        while let Some(batch) = self.rows.next().await {
            batches.push(batch.map_err(|e| self.context.writes.failure().unwrap_or_else(|| from_datafusion(e)))?);
        }
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        self.rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows));
        Ok(self)
    }

    /// Reads all rows into memory.
    pub async fn collect(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl Drop for QueryResult {
    fn drop(&mut self) {
        self.context.ended();
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match self.rows.poll_next_unpin(cx) {
            Poll::Ready(next) => next.map(|rows| {
                // If a write failed, its error is the cause of the plan's failure.
                rows.map_err(|error| self.context.writes.failure().unwrap_or_else(|| from_datafusion(error)))
            }),
            Poll::Pending => {
                let Poll::Ready(error) = self.exceeded.poll_unpin(cx) else { return Poll::Pending };
                self.rows = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema)));
                Some(Err(error))
            }
        };
        match &next {
            Some(Ok(rows)) => self.context.meter.rows(rows.num_rows() as u64),
            None | Some(Err(_)) => self.context.meter.finish(),
        }
        Poll::Ready(next)
    }
}
