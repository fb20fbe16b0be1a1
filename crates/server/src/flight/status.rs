//! Conversion of errors to gRPC statuses.

use arrow::error::ArrowError;
use tonic::{Code, Status};

use crate::error::{PgError, code};

/// Maximum bytes of a message, which is sent in a header.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Converts an error to a status.
pub(super) fn of(error: &PgError) -> Status {
    let mut message = error.message.clone();
    if let Some(hint) = &error.hint {
        message.push_str(": ");
        message.push_str(hint);
    }
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
    }
    Status::new(grpc_code(error.code), format!("{message} (SQLSTATE {})", error.code))
}

/// Converts an error of the Arrow library to a status.
pub(super) fn of_arrow(error: &ArrowError) -> Status {
    Status::internal(error.to_string())
}

/// The status for a malformed request.
pub(super) fn malformed(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("malformed request: {error}"))
}

fn grpc_code(sqlstate: &str) -> Code {
    match sqlstate {
        code::CANCELLED => Code::Cancelled,
        code::DENIED => Code::PermissionDenied,
        code::INVALID_AUTHORIZATION | code::INVALID_PASSWORD => Code::Unauthenticated,
        code::UNSUPPORTED => Code::Unimplemented,
        code::NO_STATEMENT | "42P01" | "58P01" => Code::NotFound,
        "42P07" => Code::AlreadyExists,
        "40001" => Code::Aborted,
        code::SHUTDOWN | "58030" => Code::Unavailable,
        "XX001" => Code::DataLoss,
        _ if sqlstate.starts_with("53") || sqlstate.starts_with("54") => Code::ResourceExhausted,
        _ if sqlstate.starts_with("XX") => Code::Internal,
        _ => Code::InvalidArgument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_kind_and_fit_into_a_header() {
        let error = PgError::new(code::DENIED, "é".repeat(10_000)).with_hint("ask");
        let status = of(&error);
        assert_eq!(status.code(), Code::PermissionDenied);
        assert!(status.message().len() < 5000 && status.message().ends_with("(SQLSTATE 42501)"));
        assert_eq!(of(&PgError::new("42601", "x")).code(), Code::InvalidArgument);
    }
}
