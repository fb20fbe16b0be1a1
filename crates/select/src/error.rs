//! Errors of S3 Select, with the codes that AWS documents for SelectObjectContent.

use std::fmt;

/// An error in a statement: a code that AWS documents, a message and an HTTP status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SelectError {
    /// The code of the S3 error, such as `ParseUnexpectedToken`.
    pub code: &'static str,
    /// What is wrong, where, and what to do about it.
    pub message: String,
    /// The HTTP status of the answer.
    pub status: u16,
}

impl SelectError {
    /// Creates an error in the request: status 400.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: 400 }
    }

    /// Creates an error for SQL that this implementation, or S3 Select in general, does not
    /// support.
    pub(crate) fn structure(message: impl Into<String>) -> Self {
        Self::new("UnsupportedSqlStructure", message)
    }

    /// Creates an error for incompatible types.
    pub(crate) fn types(message: impl Into<String>) -> Self {
        Self::new("InvalidDataType", message)
    }
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for SelectError {}
