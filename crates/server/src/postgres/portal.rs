//! Prepared statements and portals, as a session stores them.

use pushdowndb_engine::{ParameterValue, Statement};

use super::output::Column;
use super::running::{Running, parameter_oids};
use crate::error::{PgError, code};
use crate::session::Plan;
use crate::statement::command::Command;
use crate::values::Format;
use crate::values::types::of_parameter;

/// The oid of text.
const TEXT: u32 = 25;

/// A prepared statement.
pub(super) struct Stored {
    /// The statement; `None` for an empty text.
    pub statement: Option<Statement>,
    /// What the statement asks for.
    pub command: Command,
    /// The `oid`s of the parameter types that the client declared; 0 for those it left open.
    pub given: Vec<u32>,
    /// The plan, created when it is needed.
    pub plan: Option<Plan>,
}

impl Stored {
    /// Returns a copy without the plan.
    pub fn again(&self) -> Self {
        let (statement, command, given) = (self.statement.clone(), self.command.clone(), self.given.clone());
        Self { statement, command, given, plan: None }
    }

    /// The `oid`s of the parameter types.
    pub fn types(&self) -> Vec<u32> {
        let planned = self.plan.as_ref().map(parameter_oids).unwrap_or_default();
        let count = planned.len().max(self.given.len());
        let type_of = |at: usize| match self.given.get(at) {
            Some(oid) if *oid != 0 && of_parameter(*oid).is_some() => *oid,
            _ => planned.get(at).copied().unwrap_or(TEXT),
        };
        (0..count).map(type_of).collect()
    }
}

/// A statement with the values of its parameters, or a cursor.
pub(super) struct Portal {
    /// The statement; `None` for cursors.
    pub stored: Option<Stored>,
    pub values: Vec<ParameterValue>,
    /// The formats of the result's columns.
    pub formats: Vec<Format>,
    /// The rows that were not sent yet.
    pub running: Option<Box<Running>>,
    /// The columns, once they are known.
    pub columns: Vec<Column>,
    /// Whether the portal was run to its end.
    pub is_done: bool,
    /// The command tag, which is sent again after each part of the rows.
    pub tag: &'static str,
    /// Whether the portal stays open after the transaction.
    pub is_held: bool,
}

impl Portal {
    /// A cursor over rows.
    pub fn of_cursor(mut running: Box<Running>, is_held: bool) -> Self {
        // From now on, a cancel request is for the FETCH that runs at that time, if any.
        running.cancellations = None;
        let (columns, tag) = (running.columns.clone(), running.tag);
        Self {
            stored: None,
            values: vec![],
            formats: vec![],
            running: Some(running),
            columns,
            is_done: false,
            tag,
            is_held,
        }
    }

    /// Marks the end of the rows.
    pub fn finish(&mut self) {
        self.running = None;
        self.is_done = true;
    }
}

/// The error for a prepared statement that does not exist.
pub(super) fn no_statement(name: &str) -> PgError {
    PgError::new(code::NO_STATEMENT, format!("prepared statement \"{name}\" does not exist"))
}

/// The error for a cursor or portal that does not exist.
pub(super) fn no_cursor(name: &str) -> PgError {
    PgError::new(code::NO_CURSOR, format!("cursor \"{name}\" does not exist"))
}
