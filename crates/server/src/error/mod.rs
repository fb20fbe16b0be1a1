//! Errors with the codes of PostgreSQL, by which clients distinguish them.
//!
//! ```text
//! codes  the code of an error, by its kind and text
//! place  where in a statement an error is
//! ```

mod codes;
mod place;

use pushdowndb_contract::Error;

pub(crate) use codes::code;
use codes::code_of;

/// An error as it is sent to the client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PgError {
    /// Whether the connection ends.
    pub is_fatal: bool,
    /// The SQLSTATE code.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// Advice on how to avoid the error.
    pub hint: Option<String>,
    /// The position of the error in the text of the query, in characters from 1.
    pub position: Option<usize>,
}

/// A message that accompanies the results.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// The SQLSTATE code.
    pub code: &'static str,
    /// The text.
    pub message: String,
}

impl Notice {
    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: "WARNING", code, message: message.into() }
    }
}

impl PgError {
    /// An error of one statement.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { is_fatal: false, code, message: message.into(), hint: None, position: None }
    }

    /// An error after which the connection is closed.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self { is_fatal: true, ..Self::new(code, message) }
    }

    /// The error of a query that was cancelled.
    pub fn cancelled() -> Self {
        Self::new(code::CANCELLED, "canceling statement due to user request")
    }

    /// Adds advice to the error.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The error of a statement that begins after `before` characters of the query's text.
    pub fn of(error: &Error, statement: &str, before: usize) -> Self {
        let message = error.to_string();
        let position = place::of(&message, statement).map(|position| before + position);
        Self { position, ..Self::new(code_of(error, &message), message) }
    }
}

impl From<&Error> for PgError {
    fn from(error: &Error) -> Self {
        let message = error.to_string();
        Self::new(code_of(error, &message), message)
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::ErrorKind;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_class() {
        let mut classes: Vec<&str> = Vec::new();
        for kind in ErrorKind::ALL {
            let code = PgError::from(&Error::new(kind, "it failed")).code;
            assert_eq!(code.len(), 5, "{kind:?}");
            classes.push(code);
        }
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), ErrorKind::ALL.len(), "{classes:?}");
    }

    #[test]
    fn the_position_counts_characters_of_the_whole_query() {
        let error = Error::invalid("Expected: x, found: y at Line: 2, Column: 3");
        assert_eq!(PgError::of(&error, "é\nab c", 10).position, Some(15));
        assert_eq!(PgError::of(&error, "one line", 0).position, None, "not in this text");
        let error = Error::invalid("Expected: x at Line: 0, Column: 0");
        assert_eq!(PgError::of(&error, "x", 0).position, None);
    }
}
