//! A statement whose rows are being sent.

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
    /// The command tag, without the number of rows.
    pub tag: &'static str,
    /// The query for the log; `None` for statements about the session.
    pub run: Option<QueryRun>,
    /// The text of the statement, and the number of characters before it in the query.
    pub text: (Arc<str>, usize),
    pub source: Source,
    /// Rows that were received but not sent: their cells, their number, and the index of the next
    /// row.
    pub buffered: Option<(Vec<Cells>, usize, usize)>,
    /// Number of rows sent.
    pub sent: u64,
    /// Cancel requests since the statement was started, until its first rows are sent, so that a
    /// request during planning is not lost.
    pub cancellations: Option<Cancellations>,
}

impl Running {
    /// The next batch.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.source.next().await
    }

    /// Ends the query in the log with this outcome.
    pub fn ended(&mut self, outcome: &'static str) {
        if let Some(mut run) = self.run.take() {
            run.sent(self.sent);
            run.ended(outcome);
        }
    }

    /// Rows that the server itself generated.
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

/// The answer to a statement, as far as it is not sent yet.
pub(super) enum Answer {
    /// Rows.
    Rows(Box<Running>),
    /// The command tag of a statement without rows.
    Done(String),
}

/// The columns of a result, as they are described to the client.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let column =
        |field: &Arc<arrow::datatypes::Field>| Column { name: field.name().clone(), pg_type: PgType::of_field(field) };
    schema.fields().iter().map(column).collect()
}

/// The `oid`s of the types of a plan's parameters.
pub(super) fn parameter_oids(plan: &Plan) -> Vec<u32> {
    if let Plan::Catalogue(plan) = plan
        && let Some(oids) = &plan.oids
    {
        return oids.to_vec();
    }
    plan.parameters().iter().map(|data_type| PgType::of(data_type).oid()).collect()
}
