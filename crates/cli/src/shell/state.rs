//! The state of a shell.

use std::process::Stdio;
use std::sync::Arc;

use super::input::Lines;
use super::keyboard::Keyboard;
use crate::session::Session;

/// Whether the shell continues or quits after a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Continue,
    Quit,
}

/// A session, and the input of its shell.
pub struct Shell {
    /// The session.
    pub session: Session,
    /// The lines of the open statement.
    pub lines: Lines,
    /// The text of the statements that ran last.
    pub last: String,
    /// The terminal that input is read from, if there is one.
    pub keyboard: Option<Arc<Keyboard>>,
}

impl Shell {
    /// Creates a shell without input.
    pub fn new(session: Session) -> Self {
        Self { session, lines: Lines::default(), last: String::new(), keyboard: None }
    }

    /// The stdin of programs that the shell starts.
    pub fn stdin(&self) -> Stdio {
        self.keyboard.as_ref().map_or_else(Stdio::inherit, |keyboard| keyboard.stdin())
    }

    /// Removes and returns the open statement, or returns the last one if none is open.
    pub fn take_statement(&mut self) -> String {
        match self.lines.is_empty() {
            true => self.last.clone(),
            false => self.lines.take(),
        }
    }
}
