//! Errors of S3 Select, with the codes that AWS documents for SelectObjectContent.

use http::StatusCode;
use pushdowndb_contract::{Compression, Error, ErrorKind, Format};
use pushdowndb_select::SelectError;
use s3s::{S3Error, S3ErrorCode};

/// Converts an error of parsing or binding a statement.
pub(super) fn of_select(error: SelectError) -> S3Error {
    let code = S3ErrorCode::from_bytes(error.code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest);
    let mut answer = S3Error::with_message(code, error.message);
    if let Ok(status) = StatusCode::from_u16(error.status) {
        answer.set_status_code(status);
    }
    answer
}

/// Converts an error of a scan.
pub(super) fn of_scan(error: &Error, format: &Format) -> S3Error {
    let code = match (error.code(), error.kind(), format) {
        (Some(code), ..) => S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest),
        (_, ErrorKind::Corrupt, _) if format.compression() != Compression::None => {
            S3ErrorCode::InvalidCompressionFormat
        }
        (_, ErrorKind::Corrupt, Format::Parquet) => S3ErrorCode::ParquetParsingError,
        (_, ErrorKind::Corrupt, Format::Csv(_)) => S3ErrorCode::CSVParsingError,
        (_, ErrorKind::Corrupt, Format::Json(_)) => S3ErrorCode::JSONParsingError,
        (_, ErrorKind::Unsupported, _) => S3ErrorCode::UnsupportedSqlStructure,
        (_, ErrorKind::Limit, _) => S3ErrorCode::OverMaxRecordSize,
        (_, ErrorKind::Invalid, _) => by_text(&error.to_string()),
        _ => return crate::error::to_s3(error),
    };
    S3Error::with_message(code, printable(&error.to_string()))
}

/// The code for an evaluation error of a library, recognized by its message.
fn by_text(text: &str) -> S3ErrorCode {
    let words = [
        ("cannot parse '", S3ErrorCode::CastFailed),
        ("out of the range", S3ErrorCode::IntegerOverflow),
        ("verflow", S3ErrorCode::IntegerOverflow),
        ("division by zero", S3ErrorCode::EvaluatorInvalidArguments),
        ("ivide by zero", S3ErrorCode::EvaluatorInvalidArguments),
    ];
    let known = words.into_iter().find(|(part, _)| text.contains(part)).map(|(_, code)| code);
    known.unwrap_or(S3ErrorCode::InvalidRequest)
}

/// Maximum length of a message, in bytes. A frame header holds at most 64 KiB.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Replaces control characters, which XML and terminals do not accept: messages quote the object.
pub(crate) fn printable(text: &str) -> String {
    let short = text.get(..text.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or_default();
    short.chars().map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_short_and_printable() {
        assert_eq!(printable("a\0b\n\u{ffff}é"), "a\u{fffd}b\u{fffd}\u{fffd}é");
        let long = printable(&"é".repeat(10_000));
        assert_eq!(long.len(), MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_code_that_an_error_carries_counts() {
        let error = Error::invalid("x").with_code("OverMaxRecordSize");
        assert_eq!(*of_scan(&error, &Format::Parquet).code(), S3ErrorCode::OverMaxRecordSize);
        let corrupt = Error::new(ErrorKind::Corrupt, "x");
        assert_eq!(*of_scan(&corrupt, &Format::Parquet).code(), S3ErrorCode::ParquetParsingError);
    }
}
