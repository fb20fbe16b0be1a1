//! Errors of S3 Select with the codes that AWS documents for SelectObjectContent.

use http::StatusCode;
use pushdown::{Compression, Error, ErrorKind, Format};
use pushdowndb_select::SelectError;
use s3s::{S3Error, S3ErrorCode};

/// A statement that does not parse or bind.
pub(super) fn of_select(error: SelectError) -> S3Error {
    let code = S3ErrorCode::from_bytes(error.code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest);
    let mut answer = S3Error::with_message(code, error.message);
    if let Ok(status) = StatusCode::from_u16(error.status) {
        answer.set_status_code(status);
    }
    answer
}

/// What scans say of values, and the code S3 has for it. A scan knows kinds of errors only.
const OF_TEXT: [(&str, S3ErrorCode); 9] = [
    ("cannot parse '", S3ErrorCode::CastFailed),
    ("is not UTF-8", S3ErrorCode::InvalidTextEncoding),
    ("is not JSON", S3ErrorCode::JSONParsingError),
    ("the record is not complete", S3ErrorCode::JSONParsingError),
    ("more than one value where one record", S3ErrorCode::JSONParsingError),
    ("quote", S3ErrorCode::CSVParsingError),
    ("a record is longer than", S3ErrorCode::OverMaxRecordSize),
    ("out of the range", S3ErrorCode::IntegerOverflow),
    ("verflow", S3ErrorCode::IntegerOverflow),
];

/// A scan that failed, before or after the first rows.
pub(super) fn of_scan(error: &Error, format: &Format) -> S3Error {
    let text = error.to_string();
    let known = || OF_TEXT.iter().find(|(part, _)| text.contains(part)).map(|(_, code)| code.clone());
    let code = match (error.kind(), format) {
        (ErrorKind::Corrupt, _) if format.compression() != Compression::None && text.contains("cut off") => {
            S3ErrorCode::TruncatedInput
        }
        (ErrorKind::Corrupt, _) if format.compression() != Compression::None => S3ErrorCode::InvalidCompressionFormat,
        (ErrorKind::Corrupt, Format::Parquet) => S3ErrorCode::ParquetParsingError,
        (ErrorKind::Corrupt, Format::Csv(_)) => S3ErrorCode::CSVParsingError,
        (ErrorKind::Corrupt, Format::Json(_)) => S3ErrorCode::JSONParsingError,
        (ErrorKind::Unsupported, _) => S3ErrorCode::UnsupportedSqlStructure,
        (ErrorKind::Limit, _) => S3ErrorCode::OverMaxRecordSize,
        (ErrorKind::Invalid, _) => known().unwrap_or(S3ErrorCode::InvalidRequest),
        _ => return crate::error::to_s3(error),
    };
    S3Error::with_message(code, text)
}
