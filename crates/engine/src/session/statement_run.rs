//! One statement while it is planned and started.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use pushdowndb_contract::Result;
use pushdowndb_cost::Usage;

use super::result::{QueryResult, StatementKind};
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::named_tables::NamedTables;
use crate::profile::{Ran, analyzed};
use crate::sql::syntax::headers::shown;

/// One statement while it is planned and started.
pub(crate) struct StatementRun {
    /// The statement's text; empty where no statement is run.
    pub(super) text: Arc<str>,
    pub(super) query: Arc<QueryContext>,
    pub(super) state: SessionState,
    /// The tables that the statement can name and no catalog of the session has.
    pub(super) tables: Arc<NamedTables>,
}

impl StatementRun {
    /// Returns a context for statements that change or look up tables. It clones the state, which
    /// planning a query avoids.
    pub(crate) fn context(&self) -> SessionContext {
        SessionContext::new_with_state(self.state.clone())
    }

    /// Starts a plan. With `explained`, the schema of EXPLAIN ANALYZE, the result is the plan's
    /// profile instead of its rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the estimate exceeds the session's caps, or DataFusion cannot start the
    /// plan.
    pub(super) fn start(&self, plan: Arc<dyn ExecutionPlan>, explained: Option<SchemaRef>) -> Result<QueryResult> {
        self.start_by(plan, explained, |plan| {
            execute_stream(Arc::clone(plan), self.state.task_ctx()).map_err(from_datafusion)
        })
    }

    /// Starts a plan like [`Self::start`]; `start` returns its rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the estimate exceeds the session's caps, or `start` fails.
    pub(super) fn start_by(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        explained: Option<SchemaRef>,
        start: impl FnOnce(&Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream>,
    ) -> Result<QueryResult> {
        self.query.check_estimate(&estimate(&plan))?;
        let planning = self.query.meter.usage();
        let rows = with_shown_names(on_a_task(start(&plan)?));
        let ran = Ran { plan, statement: Arc::clone(&self.text), planning, rows: None };
        let (ran, rows) = match explained {
            Some(schema) => analyzed(ran, rows, schema, Arc::clone(&self.query)),
            None => (ran, rows),
        };
        Ok(QueryResult::new(StatementKind::Rows, rows, Some(ran), Arc::clone(&self.query)))
    }

    /// Returns a result with these rows.
    pub(super) fn rows(&self, rows: RecordBatch) -> QueryResult {
        let rows = RecordBatchStreamAdapter::new(rows.schema(), stream::once(async { Ok(rows) }));
        QueryResult::new(StatementKind::Rows, Box::pin(rows), None, Arc::clone(&self.query))
    }

    /// Returns the result of a statement of this kind, which has no rows.
    pub(super) fn no_rows(&self, kind: StatementKind) -> QueryResult {
        self.query.meter.finish();
        let none = EmptyRecordBatchStream::new(SchemaRef::new(Schema::empty()));
        QueryResult::new(kind, Box::pin(none), None, Arc::clone(&self.query))
    }
}

/// Returns the same rows, computed on a task that starts when the first one is requested. Some
/// operators run long without yielding; on a task, they do not delay a reader that stops.
fn on_a_task(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let started = stream::once(async move { spawn(rows) }).flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, started))
}

fn spawn(mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
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

/// Returns the same columns, with their names as they are shown.
pub(super) fn shown_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_name(shown(field.name())));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Returns the same rows, with the names of columns as they are shown: they may repeat.
fn with_shown_names(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let before = rows.schema();
    if before.fields().iter().all(|field| shown(field.name()) == field.name()) {
        return rows;
    }
    let schema = shown_schema(&before);
    let named = Arc::clone(&schema);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&named), batch.columns().to_vec(), &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Returns the sum of the estimates of a plan's scans.
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
