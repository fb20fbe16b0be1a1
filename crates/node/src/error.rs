//! The mapping of errors to S3 error codes.

use http::StatusCode;
use pushdowndb_contract::{Error, ErrorKind};
use s3s::{S3Error, S3ErrorCode};

use crate::store::StoreError;

/// Returns the S3 error code of an error kind.
pub(crate) fn code_of(kind: ErrorKind) -> S3ErrorCode {
    match kind {
        ErrorKind::Invalid => S3ErrorCode::InvalidRequest,
        ErrorKind::Unsupported => S3ErrorCode::NotImplemented,
        ErrorKind::NotFound => S3ErrorCode::NoSuchKey,
        ErrorKind::Denied => S3ErrorCode::AccessDenied,
        ErrorKind::Conflict => S3ErrorCode::PreconditionFailed,
        ErrorKind::Limit => S3ErrorCode::EntityTooLarge,
        ErrorKind::Throttled => S3ErrorCode::SlowDown,
        ErrorKind::Unavailable => S3ErrorCode::ServiceUnavailable,
        _ => S3ErrorCode::InternalError,
    }
}

/// Converts an error to an S3 error. Details of internal errors and disk failures go to the log
/// only.
pub(crate) fn to_s3(error: &Error) -> S3Error {
    if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Unavailable) {
        tracing::error!(%error, "a request failed");
        return S3Error::with_message(code_of(error.kind()), error.message().to_owned());
    }
    if error.kind() == ErrorKind::Corrupt {
        // The message is about the client's own object, so the client gets it as well as the log.
        tracing::warn!(%error, "an object is damaged");
    }
    S3Error::with_message(code_of(error.kind()), error.to_string())
}

/// Converts an error code that s3s does not define.
fn custom(code: &'static str) -> S3ErrorCode {
    S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest)
}

impl From<StoreError> for S3Error {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NoSuchBucket(_) => S3ErrorCode::NoSuchBucket,
            StoreError::NoSuchKey(_) => S3ErrorCode::NoSuchKey,
            StoreError::NoSuchUpload(_) => S3ErrorCode::NoSuchUpload,
            StoreError::BucketExists(_) => S3ErrorCode::BucketAlreadyOwnedByYou,
            StoreError::BucketNotEmpty(_) => S3ErrorCode::BucketNotEmpty,
            StoreError::Precondition(_) | StoreError::Changed(_) => S3ErrorCode::PreconditionFailed,
            StoreError::InvalidPart(_) => S3ErrorCode::InvalidPart,
            StoreError::PartOrder => S3ErrorCode::InvalidPartOrder,
            StoreError::PartTooSmall { .. } => S3ErrorCode::EntityTooSmall,
            StoreError::InvalidRequest(_) => S3ErrorCode::InvalidRequest,
            StoreError::TooLarge { .. } => S3ErrorCode::EntityTooLarge,
            StoreError::TooMany { what: "buckets", .. } | StoreError::OverQuota { what: "buckets", .. } => {
                S3ErrorCode::TooManyBuckets
            }
            StoreError::OverQuota { .. } => {
                let mut answer = Self::with_message(custom("QuotaExceeded"), error.to_string());
                answer.set_status_code(StatusCode::FORBIDDEN);
                return answer;
            }
            StoreError::TooMany { .. } => S3ErrorCode::SlowDown,
            StoreError::BadDigest("x-amz-content-sha256") => {
                let mut answer = Self::with_message(custom("XAmzContentSHA256Mismatch"), error.to_string());
                answer.set_status_code(StatusCode::BAD_REQUEST);
                return answer;
            }
            StoreError::BadDigest(_) => S3ErrorCode::BadDigest,
            StoreError::ChunkSignature => S3ErrorCode::SignatureDoesNotMatch,
            StoreError::Body(_) => S3ErrorCode::IncompleteBody,
            StoreError::Stalled => S3ErrorCode::RequestTimeout,
            StoreError::ReadOnly | StoreError::UpstreamDenied | StoreError::Denied(_) => S3ErrorCode::AccessDenied,
            StoreError::Unsupported(_) => S3ErrorCode::NotImplemented,
            StoreError::Upstream | StoreError::Stopped => S3ErrorCode::ServiceUnavailable,
            StoreError::Full => {
                let mut answer = Self::with_message(custom("InsufficientStorage"), error.to_string());
                answer.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
                return answer;
            }
            StoreError::Damaged(_) | StoreError::DamagedIndex(_) => S3ErrorCode::InternalError,
            StoreError::Corrupt(_) | StoreError::Io { .. } | StoreError::Index(_) => {
                tracing::error!(%error, "the store failed");
                // Paths of the server go to the log only.
                let message = "the store failed; the node's log says why";
                return Self::with_message(S3ErrorCode::InternalError, message);
            }
        };
        Self::with_message(code, error.to_string())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NoSuchBucket(_) | StoreError::NoSuchKey(_) | StoreError::NoSuchUpload(_) => ErrorKind::NotFound,
            StoreError::Precondition(_) | StoreError::Changed(_) | StoreError::BucketExists(_) => ErrorKind::Conflict,
            StoreError::ReadOnly | StoreError::UpstreamDenied | StoreError::Denied(_) => ErrorKind::Denied,
            StoreError::Unsupported(_) => ErrorKind::Unsupported,
            StoreError::Corrupt(_) | StoreError::Damaged(_) | StoreError::DamagedIndex(_) | StoreError::Index(_) => {
                ErrorKind::Corrupt
            }
            StoreError::Io { .. } | StoreError::Upstream | StoreError::Stopped => ErrorKind::Unavailable,
            StoreError::TooLarge { .. }
            | StoreError::TooMany { .. }
            | StoreError::OverQuota { .. }
            | StoreError::Full => ErrorKind::Limit,
            _ => ErrorKind::Invalid,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_with_a_fitting_status() {
        for kind in ErrorKind::ALL {
            let status = code_of(kind).status_code().unwrap().as_u16();
            assert_eq!(status == 503, kind.is_retryable(), "{kind:?} {status}");
            let ours = matches!(kind, ErrorKind::Corrupt | ErrorKind::Cancelled | ErrorKind::Internal);
            assert_eq!(status == 500, ours, "{kind:?} {status}");
        }
    }
}
