//! Plans and starts statements, on the engine or the catalogue.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pushdowndb_contract::{Error, Result as OwnResult};
use pushdowndb_engine::{ParameterValue, Prepared, QueryResult, Statement};

use super::SessionCore;
use crate::activity::run::QueryRun;
use crate::catalog::{self, CataloguePlan};
use crate::error::{PgError, code};
use crate::statement::command::Command;
use crate::statement::subject;

/// The plan of a statement.
pub(crate) enum Plan {
    Engine(Box<Prepared>),
    Catalogue(Box<CataloguePlan>),
}

impl Plan {
    /// The types of the parameters.
    pub fn parameters(&self) -> &[DataType] {
        match self {
            Self::Engine(prepared) => prepared.parameters(),
            Self::Catalogue(plan) => &plan.parameters,
        }
    }

    /// The columns of the result; `None` if they are known only once the statement runs.
    pub fn columns(&self) -> Option<SchemaRef> {
        match self {
            Self::Engine(prepared) => prepared.columns().cloned(),
            Self::Catalogue(plan) => Some(plan.columns()),
        }
    }
}

/// The source of a statement's rows.
pub(crate) enum Source {
    Engine(Box<QueryResult>),
    Catalogue(SendableRecordBatchStream),
    Made(Option<RecordBatch>),
}

impl Source {
    /// The columns; `None` for in-memory rows that were taken already.
    pub fn columns(&self) -> Option<SchemaRef> {
        match self {
            Self::Engine(result) => Some(Arc::clone(&result.schema)),
            Self::Catalogue(rows) => Some(rows.schema()),
            Self::Made(rows) => rows.as_ref().map(RecordBatch::schema),
        }
    }

    /// The next batch.
    pub async fn next(&mut self) -> Option<OwnResult<RecordBatch>> {
        match self {
            Self::Engine(result) => result.next().await,
            Self::Catalogue(rows) => rows.next().await.map(|rows| rows.map_err(|error| catalog::failed(&error))),
            Self::Made(rows) => rows.take().map(Ok),
        }
    }
}

/// Whether a statement with this command tag returns a single row with the number of rows written.
pub(crate) fn is_counted(tag: &str) -> bool {
    matches!(tag, "COPY" | "INSERT 0" | "UPDATE" | "DELETE")
}

/// The number of rows in the single row that such a statement returns.
pub(crate) fn count(rows: &RecordBatch) -> u64 {
    let first = rows.columns().first().filter(|_| rows.num_rows() == 1);
    let count = first.and_then(|first| arrow::compute::cast(first, &DataType::UInt64).ok());
    count.map_or(0, |count| count.as_primitive::<UInt64Type>().value(0))
}

impl SessionCore {
    /// Parses a text that contains at most one statement. Returns the statement and what it asks
    /// for, or `None` if the text is empty.
    ///
    /// # Errors
    ///
    /// The text is not valid SQL, or has more than one statement.
    pub fn statement(&self, text: &str) -> Result<Option<(Statement, Command)>, PgError> {
        let mut statements = self.engine().parse(text).map_err(|error| PgError::of(&error, text, 0))?;
        let Some(statement) = statements.pop() else { return Ok(None) };
        if !statements.is_empty() {
            return Err(PgError::new(code::SYNTAX, "cannot insert multiple commands into a prepared statement"));
        }
        let command = Command::parse(&statement.text)?;
        Ok(Some((statement, command)))
    }

    /// Plans a statement. `given` contains the parameter types that the client has declared.
    /// Planning may list and sample objects, so it needs a slot like a running query.
    ///
    /// # Errors
    ///
    /// The statement cannot be planned, or too many queries wait.
    pub async fn plan(&self, statement: &Statement, given: &[Option<DataType>]) -> Result<Plan, PgError> {
        let text = &statement.text;
        if subject::is_about_catalogue(text) {
            let plan = self.catalogue()?.plan(text, given).await;
            return plan.map(|plan| Plan::Catalogue(Box::new(plan))).map_err(|error| PgError::of(&error, text, 0));
        }
        let place = self.server.admission.enter(&self.entry.user, self.account.user.queries).await;
        let place = place.map_err(|error| PgError::from(&error))?;
        let prepared = self.engine().prepare(statement, given).await;
        drop(place);
        prepared.map(|prepared| Plan::Engine(Box::new(prepared))).map_err(|error| PgError::of(&error, text, 0))
    }

    /// Registers a query for the log and the list of sessions.
    ///
    /// # Errors
    ///
    /// The user may not run the statement.
    pub fn begin(&self, text: &str) -> Result<QueryRun, PgError> {
        if subject::tag(text) == "VACUUM" && !self.account.user.is_admin {
            let message = "only administrators delete what queries of dead processes spilled";
            return Err(PgError::new(code::DENIED, message));
        }
        Ok(QueryRun::start(&self.entry, &self.server.counters, text))
    }

    /// Starts a statement, which may have a plan already, with the values of its parameters.
    /// `before` is the number of characters before the statement in the text of the query.
    ///
    /// # Errors
    ///
    /// The statement fails before its first row, or too many queries wait.
    pub async fn open(
        &self,
        run: &mut QueryRun,
        statement: &Statement,
        plan: Option<&mut Plan>,
        values: &[ParameterValue],
        before: usize,
    ) -> Result<Source, PgError> {
        let opened = self.source(run, statement, plan, values).await;
        opened.map_err(|error: Error| PgError::of(&error, &statement.text, before))
    }

    async fn source(
        &self,
        run: &mut QueryRun,
        statement: &Statement,
        plan: Option<&mut Plan>,
        values: &[ParameterValue],
    ) -> OwnResult<Source> {
        let catalogue = || self.catalogue().map_err(|error| Error::internal(error.message));
        match plan {
            Some(Plan::Catalogue(plan)) => Ok(Source::Catalogue(catalogue()?.run(plan, values).await?)),
            None if subject::is_about_catalogue(&statement.text) => {
                let catalogue = catalogue()?;
                let plan = catalogue.plan(&statement.text, &[]).await?;
                Ok(Source::Catalogue(catalogue.run(&plan, &[]).await?))
            }
            plan => {
                run.enter(&self.server.admission, self.account.user.queries).await?;
                let engine = self.engine();
                let result = match plan {
                    Some(Plan::Engine(prepared)) => engine.run_prepared(prepared, values, run.watch()).await?,
                    _ => engine.run(statement, run.watch()).await?,
                };
                Ok(Source::Engine(Box::new(result)))
            }
        }
    }
}
