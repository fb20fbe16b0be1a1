//! The simple query protocol: texts of one or more statements.

use pushdowndb_engine::Statement;

use super::copying::CopyRows;
use super::failure::Failure;
use super::output;
use super::portal::{Portal, Stored, no_cursor, no_statement};
use super::rows::{DataRows, RowWriter, Skipped};
use super::running::{Answer, Running};
use super::state::Session;
use super::wire::Wire;
use crate::error::{PgError, code};
use crate::session::Reply;
use crate::statement::command::Command;
use crate::statement::copy::{CopyFormat, CopyOut};
use crate::values::Format;

impl Session {
    /// Runs the statements of a query, up to the first error.
    pub(super) async fn query(&mut self, wire: &mut Wire, text: &str) -> Result<(), Failure> {
        let statements = self.core.engine().parse(text).map_err(|error| PgError::of(&error, text, 0))?;
        if statements.is_empty() {
            output::bare(&mut wire.out, b'I');
        }
        let mut from = 0;
        for statement in statements {
            // Statements are parts of the text, in the same order.
            let found = text.get(from..).and_then(|rest| rest.find(&statement.text)).unwrap_or_default();
            let start = from + found;
            from = start + statement.text.len();
            let before = text.get(..start).unwrap_or_default().chars().count();
            let command = Command::parse(&statement.text)?;
            self.check_transaction(&command)?;
            match self.command(wire, &statement, command, before, true).await? {
                Answer::Done(tag) => output::complete(&mut wire.out, &tag),
                Answer::Rows(mut running) => {
                    output::row_description(&mut wire.out, &running.columns, |_| Format::Text);
                    let sent = self.send_rows(wire, &mut running, None, &mut DataRows { formats: &[] }).await?;
                    output::complete(&mut wire.out, &format!("{} {}", running.tag, sent.rows));
                }
            }
        }
        Ok(())
    }

    /// Runs a statement up to its first row. If `describes`, statements that send their rows
    /// themselves describe the columns before.
    pub(super) async fn command(
        &mut self,
        wire: &mut Wire,
        statement: &Statement,
        command: Command,
        before: usize,
        describes: bool,
    ) -> Result<Answer, Failure> {
        let done = |tag: &str| Ok(Answer::Done(tag.to_owned()));
        match command {
            Command::Query => self.start(wire, statement, None, &[], before).await,
            Command::Begin
            | Command::Commit
            | Command::Rollback
            | Command::Savepoint(_)
            | Command::Release(_)
            | Command::RollbackTo(_) => {
                let tag = self.transact(wire, &command).await?;
                done(tag)
            }
            Command::Set { name, value, is_local: false } => {
                self.set(wire, &name, value.as_deref()).await?;
                done("SET")
            }
            Command::Set { name, value, is_local: true } => {
                self.set_local(wire, &name, value.as_deref()).await?;
                done("SET")
            }
            Command::Reset(Some(name)) => {
                self.set(wire, &name, None).await?;
                done("RESET")
            }
            Command::DiscardAll => {
                self.discard_all().await?;
                self.report_settings(wire);
                done("DISCARD ALL")
            }
            Command::Prepare { name, query } => {
                if self.statements.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(PgError::new(code::DUPLICATE_STATEMENT, message).into());
                }
                let stored = self.stored(query, vec![])?;
                self.keep_statement(name, stored)?;
                done("PREPARE")
            }
            Command::Execute { name, values } => self.execute_statement(wire, &name, values).await,
            Command::Deallocate(None) => {
                self.statements.clear();
                done("DEALLOCATE ALL")
            }
            Command::Deallocate(Some(name)) => match self.statements.remove(&name) {
                Some(_) => done("DEALLOCATE"),
                None => Err(no_statement(&name).into()),
            },
            Command::Declare { name, query, is_held } => {
                if self.portals.contains_key(&name) {
                    let message = format!("cursor \"{name}\" already exists");
                    return Err(PgError::new(code::DUPLICATE_CURSOR, message).into());
                }
                let stored: Stored = self.stored(query, vec![])?;
                let (Some(inner), Command::Query) = (stored.statement.clone(), stored.command.clone()) else {
                    return Err(PgError::new(code::SYNTAX, "a cursor is declared for a query").into());
                };
                let Answer::Rows(running) = self.start(wire, &inner, None, &[], before).await? else {
                    return Err(PgError::new(code::SYNTAX, "a cursor is declared for a query").into());
                };
                self.keep_portal(name, Portal::of_cursor(running, is_held))?;
                done("DECLARE CURSOR")
            }
            Command::Fetch { name, count } => {
                self.fetch(wire, &name, count, &mut DataRows { formats: &[] }, describes).await
            }
            Command::Move { name, count } => self.fetch(wire, &name, count, &mut Skipped, false).await,
            Command::CloseCursor(None) => {
                self.portals.clear();
                done("CLOSE CURSOR ALL")
            }
            Command::CloseCursor(Some(name)) => match self.portals.remove(&name) {
                Some(_) => done("CLOSE CURSOR"),
                None => Err(no_cursor(&name).into()),
            },
            Command::Copy(copy) => self.copy_out(wire, &copy, before).await.map(Answer::Done),
            command => match self.core.answer(&command).await? {
                Some(Reply::Rows(rows)) => Ok(Answer::Rows(Box::new(Running::made(rows, "SHOW")))),
                Some(Reply::Done(tag)) => {
                    if command == Command::Reset(None) {
                        self.report_settings(wire);
                    }
                    done(tag)
                }
                None => Err(PgError::new(code::UNSUPPORTED, "this statement is not answered here").into()),
            },
        }
    }

    /// Copies the rows of a query to the client.
    async fn copy_out(&mut self, wire: &mut Wire, copy: &CopyOut, before: usize) -> Result<String, Failure> {
        let stored = self.stored(copy.query.clone(), vec![])?;
        let (Some(inner), Command::Query) = (stored.statement, stored.command) else {
            return Err(PgError::new(code::SYNTAX, "COPY takes a query").into());
        };
        let Answer::Rows(mut running) = self.start(wire, &inner, None, &[], before).await? else {
            return Err(PgError::new(code::SYNTAX, "COPY takes a query").into());
        };
        let mut writer = CopyRows::new(copy);
        let format = if copy.format == CopyFormat::Binary { Format::Binary } else { Format::Text };
        output::copy_out(&mut wire.out, format, running.columns.len());
        writer.begin(&running.columns, &mut wire.out);
        let sent = self.send_rows(wire, &mut running, None, &mut writer).await?;
        writer.end(&mut wire.out);
        output::bare(&mut wire.out, b'c');
        Ok(format!("COPY {}", sent.rows))
    }

    /// Runs FETCH, or MOVE with a writer that skips rows. The rows are sent here, so that the
    /// portal of the cursor stays in the session.
    async fn fetch(
        &mut self,
        wire: &mut Wire,
        name: &str,
        count: Option<u64>,
        writer: &mut dyn RowWriter,
        describes: bool,
    ) -> Result<Answer, Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        if describes {
            output::row_description(&mut wire.out, &portal.columns, |_| Format::Text);
        }
        let mut rows = 0;
        if let Some(running) = portal.running.as_deref_mut() {
            // If sending fails, the cursor is not put back, and its resources are released.
            let sent = self.send_rows(wire, running, count, writer).await?;
            rows = sent.rows;
            if !sent.is_suspended {
                portal.finish();
            }
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(Answer::Done(format!("{} {rows}", if writer.is_shown() { "FETCH" } else { "MOVE" })))
    }
}
