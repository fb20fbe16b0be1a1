//! The state of a shell.

use std::process::Stdio;
use std::sync::Arc;

use super::input::Lines;
use super::keyboard::Keyboard;
use crate::session::Session;

/// True if the shell goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Continue,
    Quit,
}

/// A session, and what was typed.
pub struct Shell {
    /// The session.
    pub session: Session,
    /// The lines of the statement that is open.
    pub lines: Lines,
    /// The statements that ran last.
    pub last: String,
    /// The terminal that is read, if there is one.
    pub keyboard: Option<Arc<Keyboard>>,
}

impl Shell {
    /// A shell that nothing was typed into yet.
    pub fn new(session: Session) -> Self {
        Self { session, lines: Lines::default(), last: String::new(), keyboard: None }
    }

    /// The stdin of programs that the shell starts.
    pub fn stdin(&self) -> Stdio {
        self.keyboard.as_ref().map_or_else(Stdio::inherit, |keyboard| keyboard.stdin())
    }

    /// The open statement, which is closed by this, or else the last one.
    pub fn take_statement(&mut self) -> String {
        match self.lines.is_empty() {
            true => self.last.clone(),
            false => self.lines.take(),
        }
    }
}
