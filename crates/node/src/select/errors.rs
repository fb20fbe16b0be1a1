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

/// A scan that failed, before or after the first rows.
pub(super) fn of_scan(error: &Error, format: &Format) -> S3Error {
    let code = match (error.kind(), format) {
        (ErrorKind::Corrupt, _) if format.compression() != Compression::None => S3ErrorCode::TruncatedInput,
        (ErrorKind::Invalid | ErrorKind::Corrupt, Format::Parquet) => S3ErrorCode::ParquetParsingError,
        (ErrorKind::Corrupt, Format::Csv(_)) => S3ErrorCode::CSVParsingError,
        (ErrorKind::Corrupt, Format::Json(_)) => S3ErrorCode::JSONParsingError,
        (ErrorKind::Unsupported, _) => S3ErrorCode::UnsupportedSqlStructure,
        (ErrorKind::Limit, _) => S3ErrorCode::OverMaxRecordSize,
        _ => return crate::error::to_s3(error),
    };
    S3Error::with_message(code, error.to_string())
}
