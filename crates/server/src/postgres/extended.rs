//! The extended query protocol: prepared statements and portals.

use arrow::datatypes::DataType;
use pushdowndb_engine::Inputs;

use super::failure::Failure;
use super::input::Bind;
use super::output::{self, Column};
use super::portal::{Portal, Stored, no_cursor, no_statement};
use super::rows::DataRows;
use super::running::{Answer, columns};
use super::state::Session;
use super::wire::Wire;
use crate::error::{PgError, code};
use crate::session::{Plan, SessionCore};
use crate::statement::command::Command;
use crate::statement::subject::is_about_catalogue;
use crate::values::types::{PgType, Scalar, of_parameter};
use crate::values::{Format, parameters};

/// Maximum portals of a session.
const MAX_PORTALS: usize = 1_000;

impl Session {
    /// Parses a statement. `given` contains the `oid`s of its parameter types.
    pub(super) fn stored(&self, text: String, given: Vec<u32>) -> Result<Stored, PgError> {
        let found = self.core.statement(&text)?;
        let (statement, command) = found.map_or((None, Command::Query), |(found, command)| (Some(found), command));
        Ok(Stored { statement, command, given, plan: None })
    }

    /// Stores a prepared statement under a name.
    pub(super) fn keep_statement(&mut self, name: String, stored: Stored) -> Result<(), PgError> {
        SessionCore::may_prepare(self.statements.len())?;
        self.statements.insert(name, stored);
        Ok(())
    }

    /// Stores a portal under a name.
    pub(super) fn keep_portal(&mut self, name: String, portal: Portal) -> Result<(), PgError> {
        if self.portals.len() >= MAX_PORTALS {
            let message = format!("a session has at most {MAX_PORTALS} open cursors: close some");
            return Err(PgError::new(code::LIMIT, message));
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Handles a Parse message.
    pub(super) fn parse(
        &mut self,
        wire: &mut Wire,
        name: String,
        query: String,
        types: Vec<u32>,
    ) -> Result<(), Failure> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(PgError::new(code::DUPLICATE_STATEMENT, message).into());
        }
        let stored = self.stored(query, types)?;
        self.check_transaction(&stored.command)?;
        self.check_syntax(&stored)?;
        self.keep_statement(name, stored)?;
        output::bare(&mut wire.out, b'1');
        Ok(())
    }

    /// Refuses a statement that is not valid SQL, which PostgreSQL does before it is bound.
    /// Statements about the catalog have a parser of their own.
    fn check_syntax(&self, stored: &Stored) -> Result<(), PgError> {
        let (Some(statement), Command::Query) = (&stored.statement, &stored.command) else { return Ok(()) };
        if is_about_catalogue(&statement.text) {
            return Ok(());
        }
        let parsed = self.core.engine().is_query(statement, &Inputs::default());
        parsed.map(drop).map_err(|error| PgError::of(&error, &statement.text, 0))
    }

    /// Plans a prepared statement, unless it has a plan.
    async fn planned(&mut self, wire: &mut Wire, stored: &mut Stored) -> Result<(), Failure> {
        let (Some(statement), Command::Query, None) = (&stored.statement, &stored.command, &stored.plan) else {
            return Ok(());
        };
        let given: Vec<Option<DataType>> = stored.given.iter().map(|oid| of_parameter(*oid)).collect();
        stored.plan = Some(self.plan(wire, statement, &given).await?);
        Ok(())
    }

    /// Handles a Bind message.
    pub(super) async fn bind(&mut self, wire: &mut Wire, bind: Bind) -> Result<(), Failure> {
        let invalid = |message: String| Failure::Error(PgError::new(code::PROTOCOL, message));
        let mut stored = self.statements.remove(&bind.statement).ok_or_else(|| no_statement(&bind.statement))?;
        // The plan is needed for the parameter types, unless the client declared all of them.
        let all_given =
            stored.given.len() == bind.values.len() && stored.given.iter().all(|oid| of_parameter(*oid).is_some());
        let planned = match all_given {
            true => Ok(()),
            false => self.planned(wire, &mut stored).await,
        };
        let types = stored.types();
        // The first portal takes the plan; the statement is planned again for the next portal.
        let plan = stored.plan.take();
        let for_portal = Stored { plan, ..stored.again() };
        self.statements.insert(bind.statement.clone(), stored);
        planned?;
        self.check_transaction(&for_portal.command)?;
        if bind.values.len() != types.len() {
            let (name, given, needed) = (&bind.statement, bind.values.len(), types.len());
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement \"{name}\" requires {needed}"
            );
            return Err(invalid(message));
        }
        let format = |code: &i16| Format::of_code(*code).ok_or_else(|| invalid(format!("there is no format {code}")));
        let formats: Vec<Format> = bind.formats.iter().map(format).collect::<Result<_, _>>()?;
        if formats.len() > 1 && formats.len() != bind.values.len() {
            return Err(invalid("there are other numbers of formats and of parameters".to_owned()));
        }
        let mut values = Vec::with_capacity(bind.values.len());
        for (at, (value, oid)) in bind.values.iter().zip(&types).enumerate() {
            let format = formats.get(if formats.len() > 1 { at } else { 0 }).copied().unwrap_or(Format::Text);
            let value = parameters::read(value.as_deref(), *oid, format, at + 1);
            values.push(value.map_err(|error| PgError::from(&error))?);
        }
        let formats = bind.result_formats.iter().map(format).collect::<Result<_, _>>()?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(PgError::new(code::DUPLICATE_CURSOR, message).into());
        }
        let portal = Portal {
            stored: Some(for_portal),
            values,
            formats,
            running: None,
            columns: vec![],
            is_done: false,
            tag: "SELECT",
            is_held: false,
        };
        self.keep_portal(bind.portal, portal)?;
        output::bare(&mut wire.out, b'2');
        Ok(())
    }

    /// Handles a Describe message for a statement.
    pub(super) async fn describe_statement(&mut self, wire: &mut Wire, name: &str) -> Result<(), Failure> {
        let mut stored = self.statements.remove(name).ok_or_else(|| no_statement(name))?;
        let planned = self.planned(wire, &mut stored).await;
        let (types, columns) = (stored.types(), self.columns_of(&stored));
        self.statements.insert(name.to_owned(), stored);
        planned?;
        output::parameter_description(&mut wire.out, &types);
        describe(wire, &columns?, &[])
    }

    /// Handles a Describe message for a portal.
    pub(super) async fn describe_portal(&mut self, wire: &mut Wire, name: &str) -> Result<(), Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let mut done = Ok(());
        if let Some(stored) = &mut portal.stored {
            done = self.planned(wire, stored).await;
            if done.is_ok() && portal.running.is_none() && !portal.is_done {
                portal.columns = self.columns_of(stored)?;
            }
        }
        let described = done.and_then(|()| describe(wire, &portal.columns, &portal.formats));
        self.portals.insert(name.to_owned(), portal);
        described
    }

    /// The columns of a statement's result; empty if it has no rows for the client.
    fn columns_of(&self, stored: &Stored) -> Result<Vec<Column>, PgError> {
        let text = |name: &str| Column { name: name.to_owned(), pg_type: PgType::scalar(Scalar::Text) };
        Ok(match &stored.command {
            Command::Query => {
                let text = stored.statement.as_ref().map(|statement| statement.text.as_str()).unwrap_or_default();
                let has_rows = crate::statement::subject::tag(text) == "SELECT";
                let schema = stored.plan.as_ref().filter(|_| has_rows).and_then(Plan::columns);
                schema.map(|schema| columns(&schema)).unwrap_or_default()
            }
            Command::Show(name) => vec![text(name)],
            Command::ShowAll => ["name", "setting", "description"].map(text).into(),
            Command::ShowQueries => {
                let rows = crate::catalog::queries(&self.core.shown());
                rows.map(|rows| columns(rows.schema_ref())).unwrap_or_default()
            }
            Command::Fetch { name, .. } => self.portals.get(name).ok_or_else(|| no_cursor(name))?.columns.clone(),
            _ => vec![],
        })
    }

    /// Handles an Execute message.
    pub(super) async fn execute(&mut self, wire: &mut Wire, name: &str, max_rows: u32) -> Result<(), Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let done = self.run_portal(wire, &mut portal, max_rows).await;
        if done.is_ok() {
            // A portal that has failed is not put back, and its resources are released.
            self.portals.insert(name.to_owned(), portal);
        }
        done
    }

    async fn run_portal(&mut self, wire: &mut Wire, portal: &mut Portal, max_rows: u32) -> Result<(), Failure> {
        if let Some(stored) = &mut portal.stored {
            self.check_transaction(&stored.command)?;
            let Some(statement) = stored.statement.clone() else {
                output::bare(&mut wire.out, b'I');
                return Ok(());
            };
            if portal.running.is_none() && !portal.is_done {
                let answer = match stored.command.clone() {
                    Command::Query => {
                        if !portal.values.is_empty() {
                            self.planned(wire, stored).await?;
                        }
                        self.start(wire, &statement, stored.plan.as_mut(), &portal.values, 0).await?
                    }
                    // These statements send their rows as they run; their columns were described
                    // before.
                    command => self.command(wire, &statement, command, 0, false).await?,
                };
                match answer {
                    Answer::Done(tag) => {
                        portal.is_done = true;
                        output::complete(&mut wire.out, &tag);
                        return Ok(());
                    }
                    Answer::Rows(running) => {
                        portal.tag = running.tag;
                        portal.columns = running.columns.clone();
                        portal.running = Some(running);
                    }
                }
            }
        }
        let limit = (max_rows > 0).then(|| u64::from(max_rows));
        let Some(running) = portal.running.as_deref_mut() else {
            output::complete(&mut wire.out, &format!("{} 0", portal.tag));
            return Ok(());
        };
        let sent = self.send_rows(wire, running, limit, &mut DataRows { formats: &portal.formats }).await?;
        if sent.is_suspended {
            output::bare(&mut wire.out, b's');
            return Ok(());
        }
        output::complete(&mut wire.out, &format!("{} {}", portal.tag, sent.rows));
        portal.finish();
        Ok(())
    }

    /// Runs the prepared statement `name` for EXECUTE.
    pub(super) async fn execute_statement(
        &mut self,
        wire: &mut Wire,
        name: &str,
        values: Vec<Option<String>>,
    ) -> Result<Answer, Failure> {
        let mut stored = self.statements.get(name).ok_or_else(|| no_statement(name))?.again();
        let Some(statement) = stored.statement.clone() else { return Ok(Answer::Done("SELECT 0".to_owned())) };
        if stored.command != Command::Query {
            return Err(PgError::new(code::UNSUPPORTED, "EXECUTE runs queries; send others as they are").into());
        }
        self.planned(wire, &mut stored).await?;
        let types = stored.types();
        if types.len() != values.len() {
            let message = format!("prepared statement \"{name}\" has {} parameters, not {}", types.len(), values.len());
            return Err(PgError::new(code::SYNTAX, message).into());
        }
        let mut bound = Vec::with_capacity(values.len());
        for (at, (value, oid)) in values.iter().zip(&types).enumerate() {
            let value = parameters::read(value.as_deref().map(str::as_bytes), *oid, Format::Text, at + 1);
            bound.push(value.map_err(|error| PgError::from(&error))?);
        }
        self.start(wire, &statement, stored.plan.as_mut(), &bound, 0).await
    }
}

fn describe(wire: &mut Wire, columns: &[Column], formats: &[Format]) -> Result<(), Failure> {
    if columns.is_empty() {
        output::bare(&mut wire.out, b'n');
        return Ok(());
    }
    if formats.len() > 1 && formats.len() != columns.len() {
        let message = format!("there are {} formats for {} columns", formats.len(), columns.len());
        return Err(PgError::new(code::PROTOCOL, message).into());
    }
    output::row_description(&mut wire.out, columns, |column| {
        formats.get(if formats.len() > 1 { column } else { 0 }).copied().unwrap_or(Format::Text)
    });
    Ok(())
}
