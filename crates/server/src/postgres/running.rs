//! A statement's rows while they are sent.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use pushdowndb_contract::Result;

use super::output::Column;
use crate::activity::run::QueryRun;
use crate::activity::sessions::Cancellations;
use crate::session::{Plan, Source};
use crate::values::cells::Cells;
use crate::values::types::PgType;

/// A statement whose rows are being sent.
pub(super) struct Running {
    /// The columns.
    pub columns: Vec<Column>,
    /// The tag of its end, without the number of rows.
    pub tag: &'static str,
    /// What is logged of it; nothing for statements of the session.
    pub run: Option<QueryRun>,
    /// The statement's text, and the number of characters before it.
    pub text: (Arc<str>, usize),
    pub source: Source,
    /// Rows that were received and not sent: their cells, their number, and the next.
    pub buffered: Option<(Vec<Cells>, usize, usize)>,
    /// The rows that were sent.
    pub sent: u64,
    /// Requests to cancel since the statement was started, until its first rows are sent: one that
    /// comes while it is planned must not be lost.
    pub cancellations: Option<Cancellations>,
}

impl Running {
    /// The next batch.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.source.next().await
    }

    /// Marks the end of the query in the log.
    pub fn ended(&mut self, outcome: &'static str) {
        if let Some(mut run) = self.run.take() {
            run.sent(self.sent);
            run.ended(outcome);
        }
    }

    /// Rows that are made here.
    pub fn made(rows: RecordBatch, tag: &'static str) -> Self {
        Self {
            columns: columns(rows.schema_ref()),
            tag,
            run: None,
            text: ("".into(), 0),
            source: Source::Made(Some(rows)),
            buffered: None,
            sent: 0,
            cancellations: None,
        }
    }
}

/// The answer to a statement.
pub(super) enum Answer {
    /// Rows.
    Rows(Box<Running>),
    /// The tag of a statement without rows.
    Done(String),
}

/// The columns of a result as the client sees them.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let column =
        |field: &Arc<arrow::datatypes::Field>| Column { name: field.name().clone(), pg_type: PgType::of_field(field) };
    schema.fields().iter().map(column).collect()
}

/// The numbers of the types of a plan's parameters.
pub(super) fn parameter_oids(plan: &Plan) -> Vec<u32> {
    if let Plan::Catalogue(plan) = plan
        && let Some(oids) = &plan.oids
    {
        return oids.to_vec();
    }
    plan.parameters().iter().map(|data_type| PgType::of(data_type).oid()).collect()
}
