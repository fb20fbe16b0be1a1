//! Errors of a store.

use std::io;

use super::fault::{Damaged, DamagedIndex, is_full, is_lost};

/// The result of store operations.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store refused or failed; `crate::error` maps each to an S3 error code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("the bucket '{0}' does not exist")]
    NoSuchBucket(String),
    #[error("the key '{0}' does not exist")]
    NoSuchKey(String),
    #[error("the upload '{0}' does not exist; it was completed, aborted or has expired")]
    NoSuchUpload(String),
    #[error("the bucket '{0}' exists already")]
    BucketExists(String),
    #[error("the bucket '{0}' is not empty; delete its objects first")]
    BucketNotEmpty(String),
    #[error("the condition {0} does not hold")]
    Precondition(&'static str),
    #[error("the object '{0}' was replaced meanwhile")]
    Changed(String),
    #[error("part {0} was not uploaded, or with another ETag or checksum")]
    InvalidPart(u32),
    #[error("the parts are not in ascending order")]
    PartOrder,
    #[error("part {number} has {size} bytes; every part but the last must have at least {least}")]
    PartTooSmall { number: u32, size: u64, least: u64 },
    #[error("{0}")]
    InvalidRequest(String),
    #[error("the {what} is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: u64 },
    #[error("the key '{key}' holds its share of the store: {limit} {what}")]
    OverQuota { key: String, what: &'static str, limit: u64 },
    #[error("{0}")]
    Denied(String),
    #[error("there are {limit} {what} already, which is the limit")]
    TooMany { what: &'static str, limit: usize },
    #[error("the {0} that was sent does not match the bytes received")]
    BadDigest(&'static str),
    #[error("the signature of a chunk does not match its bytes")]
    ChunkSignature,
    #[error("the request body ended early or is malformed: {0}")]
    Body(String),
    #[error("the request body stopped coming")]
    Stalled,
    #[error("this gateway is read-only")]
    ReadOnly,
    #[error("the disk of this node is full; delete objects or give it more space")]
    Full,
    #[error(
        "the disk of this node failed to keep a write, so nothing more is written to it before the node was restarted"
    )]
    Stopped,
    #[error("{0}")]
    Unsupported(String),
    #[error("the server behind this gateway did not answer as it should; the node's log says more")]
    Upstream,
    #[error("the server behind this gateway refuses it to the gateway's own credentials")]
    UpstreamDenied,
    #[error("{0}")]
    Corrupt(String),
    #[error("{0}; restore it, or the store, from a backup")]
    DamagedIndex(String),
    /// Bytes of an object are not what was stored.
    #[error("{0}")]
    Damaged(String),
    #[error("{context}: {source}")]
    Io { context: String, source: io::Error },
    #[error("the store's index failed: {0}")]
    Index(Box<redb::Error>),
}

impl StoreError {
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_full(&source) {
                return Self::Full;
            }
            if is_lost(&source) {
                return Self::Stopped;
            }
            if let Some(damaged) = Damaged::in_error(&source) {
                return Self::Damaged(damaged.to_string());
            }
            Self::Io { context: context.into(), source }
        }
    }

    /// Adds the name of the record to an error about a damaged record.
    pub fn of(self, record: impl FnOnce() -> String) -> Self {
        match self {
            Self::Corrupt(what) => Self::Corrupt(format!("{}: {what}", record())),
            other => other,
        }
    }

    /// Whether a write that failed with this error may have taken effect nevertheless, because its
    /// commit failed.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Index(_) | Self::DamagedIndex(_) | Self::Full | Self::Stopped | Self::Io { .. })
    }

    /// A blocking task that panicked or was cancelled at shutdown.
    pub fn task(error: tokio::task::JoinError) -> Self {
        Self::Io { context: "a disk task did not finish".to_owned(), source: io::Error::other(error) }
    }
}

macro_rules! from_index {
    ($($error:ty),*) => {
        $(impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                match redb::Error::from(error) {
                    redb::Error::Io(source) if is_full(&source) => Self::Full,
                    redb::Error::Io(source) if is_lost(&source) => Self::Stopped,
                    redb::Error::Io(source) if DamagedIndex::is(&source) => Self::DamagedIndex(source.to_string()),
                    other => Self::Index(Box::new(other)),
                }
            }
        })*
    };
}
from_index!(redb::DatabaseError, redb::TransactionError, redb::TableError, redb::StorageError, redb::CommitError);
