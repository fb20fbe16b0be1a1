//! Conversion of errors to exceptions: each kind of error has a class in `pushdowndb.errors`.

use std::fmt;

use pushdowndb_contract::{Error, ErrorKind};
use pyo3::prelude::*;

/// The class of this kind of error.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Denied => "DeniedError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Throttled => "ThrottledError",
        ErrorKind::Unavailable => "UnavailableError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Cancelled => "CancelledError",
        _ => "BugError",
    }
}

/// The exception for an error of the engine.
pub fn exception(error: &Error) -> PyErr {
    of_class(class(error.kind()), error)
}

/// The exception for a value or object that cannot be used.
pub fn invalid(message: impl fmt::Display) -> PyErr {
    of_class(class(ErrorKind::Invalid), message)
}

/// The exception for an internal error.
pub fn bug(message: impl fmt::Display) -> PyErr {
    of_class(class(ErrorKind::Internal), message)
}

fn of_class(class: &str, message: impl fmt::Display) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("pushdowndb.errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| class.call1((message.to_string(),)));
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}
