//! Plans and starts statements. They stop if the client cancels them or disconnects.

use std::sync::Arc;

use arrow::datatypes::DataType;
use pushdowndb_engine::{ParameterValue, Statement, StatementKind};

use super::failure::{Failure, interruptible};
use super::running::{Answer, Running, columns};
use super::state::Session;
use super::wire::Wire;
use crate::activity::sessions::Cancellations;
use crate::error::PgError;
use crate::session::{Plan, Source, count, is_counted};
use crate::statement::subject;

impl Session {
    /// Plans a statement for the extended protocol.
    pub(super) async fn plan(
        &mut self,
        wire: &mut Wire,
        statement: &Statement,
        given: &[Option<DataType>],
    ) -> Result<Plan, Failure> {
        let mut cancellations = self.core.entry.cancellations();
        interruptible(wire, &mut cancellations, self.core.plan(statement, given)).await
    }

    /// Starts a statement, which may have a plan already, with the values of its parameters.
    /// `before` is the number of characters before the statement in the text of the query.
    pub(super) async fn start(
        &mut self,
        wire: &mut Wire,
        statement: &Statement,
        plan: Option<&mut Plan>,
        values: &[ParameterValue],
        before: usize,
    ) -> Result<Answer, Failure> {
        let text: Arc<str> = statement.text.as_str().into();
        let mut cancellations = self.core.entry.cancellations();
        let mut run = self.core.begin(&text)?;
        let opened = self.core.open(&mut run, statement, plan, values, before);
        let source = match interruptible(wire, &mut cancellations, opened).await {
            Ok(source) => source,
            Err(failure) => {
                run.ended(failure.code());
                return Err(failure);
            }
        };
        let tag = subject::tag(&text);
        let has_rows = match &source {
            Source::Engine(result) => result.kind == StatementKind::Rows,
            Source::Catalogue(_) => true,
            Source::Made(_) => false,
        };
        let columns = source.columns().map(|schema| columns(&schema)).unwrap_or_default();
        let (run, text) = (Some(run), (text, before));
        let mut running = Running { columns, tag, run, text, source, buffered: None, sent: 0, cancellations: None };
        if has_rows && tag == "SELECT" {
            running.cancellations = Some(cancellations);
            return Ok(Answer::Rows(Box::new(running)));
        }
        self.changed_something();
        self.finish_silently(wire, &mut running, &mut cancellations).await.map(Answer::Done)
    }

    /// Runs a statement without rows for the client to its end, such as COPY to files, whose only
    /// row is the number of rows written. Returns the command tag.
    async fn finish_silently(
        &mut self,
        wire: &mut Wire,
        running: &mut Running,
        cancellations: &mut Cancellations,
    ) -> Result<String, Failure> {
        let (text, before) = running.text.clone();
        let is_counted = is_counted(running.tag);
        let mut counted = 0_u64;
        let work = async {
            while let Some(rows) = running.next().await {
                let rows = rows.map_err(|error| PgError::of(&error, &text, before))?;
                counted += if is_counted { count(&rows) } else { 0 };
            }
            Ok(())
        };
        match interruptible(wire, cancellations, work).await {
            Ok(()) => {
                running.ended("ok");
                Ok(if is_counted { format!("{} {counted}", running.tag) } else { running.tag.to_owned() })
            }
            Err(failure) => {
                running.ended(failure.code());
                Err(failure)
            }
        }
    }
}
