//! Errors of the client.

use std::io;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};

/// Creates the error for an invalid setting.
pub(crate) fn refused(message: String) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP client", source: message.into() }
}

pub(crate) fn failed(kind: HttpErrorKind, message: String) -> HttpError {
    HttpError::new(kind, io::Error::other(message))
}

pub(crate) fn silent(patience: Duration) -> HttpError {
    failed(HttpErrorKind::Timeout, format!("no answer for {} s", patience.as_secs_f32()))
}
