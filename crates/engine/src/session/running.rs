//! One statement while it is planned and started.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt, stream};
use pushdown::Result;
use pushdowndb_cost::Usage;

use crate::error::{from_datafusion, to_datafusion};
use crate::profile::Ran;
use crate::query::{QueryContext, QueryResult, StatementKind};
use crate::remote_scan::RemoteScanExec;

/// One statement while it is planned.
pub(super) struct Running {
    pub(super) query: Arc<QueryContext>,
    pub(super) state: SessionState,
}

impl Running {
    /// For what changes tables or looks at them. It has a copy of the state, with maps of all functions by name: queries are
    /// planned without.
    pub(super) fn context(&self) -> SessionContext {
        SessionContext::new_with_state(self.state.clone())
    }

    /// Starts a plan, unless it would exceed the caps.
    pub(super) fn start(&self, plan: Arc<dyn ExecutionPlan>, sql: &str) -> Result<(Ran, SendableRecordBatchStream)> {
        self.query.check_estimate(&estimate(&plan))?;
        let planning = self.query.meter.usage();
        let stream = execute_stream(Arc::clone(&plan), self.state.task_ctx()).map_err(from_datafusion)?;
        let stream = apart(stream, Arc::clone(&self.query));
        Ok((Ran { plan, statement: sql.into(), planning, rows: None }, stream))
    }

    /// Rows that are here already.
    pub(super) fn rows(&self, rows: RecordBatch) -> QueryResult {
        let schema = rows.schema();
        let rows = stream::once(async { Ok(rows) });
        QueryResult {
            stream: Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows)),
            schema,
            kind: StatementKind::Rows,
            context: Arc::clone(&self.query),
            ran: None,
        }
    }

    /// The result of a statement that has none.
    pub(super) fn nothing_to_print(&self, kind: StatementKind) -> QueryResult {
        let schema: SchemaRef = Arc::new(Schema::empty());
        self.query.meter.finish();
        QueryResult {
            stream: Box::pin(EmptyRecordBatchStream::new(Arc::clone(&schema))),
            schema,
            kind,
            context: Arc::clone(&self.query),
            ran: None,
        }
    }
}

/// The same rows, made on a task of their own once somebody asks for them, until the query has used more than its caps allow.
/// Some operators go on for long without a pause; so nobody has to wait for them who wants to stop the query.
fn apart(rows: SendableRecordBatchStream, query: Arc<QueryContext>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let failed = query.failed_write.clone();
    let made = async move {
        let exceeded = async move { query.exceeded().await }.boxed();
        stream::unfold(Some((on_a_task(rows), exceeded)), |running| async {
            let (mut made, mut exceeded) = running?;
            tokio::select! {
                biased;
                batch = made.next() => batch.map(|batch| (batch, Some((made, exceeded)))),
                error = &mut exceeded => Some((Err(to_datafusion(error)), None)),
            }
        })
    };
    // What could not be written is why the plan failed.
    let rows = stream::once(made).flatten().map(move |batch| match batch {
        Err(error) => Err(failed.take().map_or(error, to_datafusion)),
        rows => rows,
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn on_a_task(mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStream::builder(rows.schema(), 1);
    let out = builder.tx();
    builder.spawn(async move {
        while let Some(batch) = rows.next().await {
            if out.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    builder.build()
}

/// What the scans of a plan will probably use.
fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Usage {
    let mut total = plan.downcast_ref::<RemoteScanExec>().map(RemoteScanExec::estimate).unwrap_or_default();
    for child in plan.children() {
        let below = estimate(child);
        total.bytes_network += below.bytes_network;
        total.bytes_scanned += below.bytes_scanned;
        total.bytes_returned += below.bytes_returned;
        total.bytes_scanned_by_fragments += below.bytes_scanned_by_fragments;
        total.bytes_returned_by_fragments += below.bytes_returned_by_fragments;
        total.requests += below.requests;
    }
    total
}
