//! Errors of S3 Select, with the codes that AWS documents for SelectObjectContent.

use std::fmt;

/// Why a statement cannot be answered: a documented code, a message and an HTTP status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SelectError {
    /// The code of the S3 error, as in `ParseUnexpectedToken`.
    pub code: &'static str,
    /// What is wrong, where, and the way out.
    pub message: String,
    /// The HTTP status of the answer.
    pub status: u16,
}

impl SelectError {
    /// An error in the request: status 400.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: 400 }
    }

    /// Something the dialect has and this implementation lacks, or that no S3 Select has.
    pub(crate) fn structure(message: impl Into<String>) -> Self {
        Self::new("UnsupportedSqlStructure", message)
    }

    /// Values of types that do not go together.
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
