//! Statistics and failures in a response.

use prost::Message;

use super::{codes, malformed};
use crate::{Error, ErrorKind, Result};

/// Statistics of one split, sent with its end event.
#[derive(Clone, Copy, Eq, PartialEq, Message)]
pub struct SplitStats {
    /// Rows returned.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// Bytes of the object that were scanned.
    #[prost(uint64, tag = "2")]
    pub bytes_scanned: u64,
    /// The encoded outcome of the split's index lookups, see [`SplitStats::index`].
    #[prost(uint32, tag = "3")]
    pub index_code: u32,
    /// Row positions that the split's indexes returned.
    #[prost(uint64, tag = "4")]
    pub places: u64,
    /// Bytes that the same request could skip next time, because of zones. Zero if not reported.
    #[prost(uint64, tag = "5")]
    pub bytes_ruled_out: u64,
}

/// The outcome of the index lookups of a split.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexOutcome {
    /// The split came without indexes.
    None,
    /// The indexes returned the rows.
    Used,
    /// An index object is missing or has changed; the split was scanned.
    Gone,
    /// An index object is malformed; the split was scanned.
    Unreadable,
    /// The indexes returned too many rows to read individually; the split was scanned.
    TooMany,
}

/// Statistics of a request.
#[derive(Clone, Copy, Eq, PartialEq, Message)]
pub struct RouteStats {
    /// Bytes of objects that were scanned.
    #[prost(uint64, tag = "1")]
    pub bytes_scanned: u64,
    /// Records decoded, in whole or in part, before filtering.
    #[prost(uint64, tag = "2")]
    pub rows_scanned: u64,
    /// Parquet row groups that were read.
    #[prost(uint64, tag = "3")]
    pub row_groups_scanned: u64,
    /// Parquet row groups pruned by statistics.
    #[prost(uint64, tag = "4")]
    pub row_groups_pruned: u64,
    /// Bytes of text pruned by zones of earlier scans.
    #[prost(uint64, tag = "7")]
    pub bytes_pruned: u64,
    /// Bytes of batches or ranges returned, without framing.
    #[prost(uint64, tag = "5")]
    pub bytes_returned: u64,
    /// CPU time of the node, in nanoseconds.
    #[prost(uint64, tag = "6")]
    pub cpu_ns: u64,
    /// The number of cores for scans; zero if not reported.
    #[prost(uint32, tag = "8")]
    pub cores: u32,
    /// Requests that scan or are queued, including this one.
    #[prost(uint32, tag = "9")]
    pub scanning: u32,
    /// Time for which threads of the node were runnable, in nanoseconds; more than `cpu_ns` if the
    /// machine has other load. Zero if not reported.
    #[prost(uint64, tag = "10")]
    pub busy_ns: u64,
    /// The number of concurrent requests that keep the node's cores busy. Zero if not reported.
    #[prost(uint32, tag = "11")]
    pub at_once: u32,
}

/// A failure after the response has begun. Splits that ended before it are complete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The message, which names the object.
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
struct FailureMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    message: String,
}

codes! {
    index_outcome: IndexOutcome, "outcome" {
        IndexOutcome::None = 0;
        IndexOutcome::Used = 1;
        IndexOutcome::Gone = 2;
        IndexOutcome::Unreadable = 3;
        IndexOutcome::TooMany = 4;
    }
    error_kind: ErrorKind, "kind of error" {
        ErrorKind::Invalid = 1;
        ErrorKind::Unsupported = 2;
        ErrorKind::NotFound = 3;
        ErrorKind::Denied = 4;
        ErrorKind::Conflict = 5;
        ErrorKind::Limit = 6;
        ErrorKind::Throttled = 7;
        ErrorKind::Unavailable = 8;
        ErrorKind::Corrupt = 9;
        ErrorKind::Cancelled = 10;
        ErrorKind::Internal = 11;
    }
}

impl SplitStats {
    /// Returns the outcome of the split's index lookups. A code that only newer nodes know is
    /// [`IndexOutcome::Unreadable`].
    pub fn index(&self) -> IndexOutcome {
        index_outcome::read(self.index_code).unwrap_or(IndexOutcome::Unreadable)
    }

    /// Sets the outcome of the split's index lookups.
    pub fn with_index(self, outcome: IndexOutcome) -> Self {
        Self { index_code: index_outcome::code(outcome), ..self }
    }

    /// Encodes the message as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Decodes a message of a peer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(malformed)
    }
}

impl RouteStats {
    /// Encodes the message as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Decodes a message of a peer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(malformed)
    }
}

impl Failure {
    /// Encodes the message as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        FailureMessage { kind: error_kind::code(self.kind), message: self.message.clone() }.encode_to_vec()
    }

    /// Decodes a message of a peer. An unknown kind of error becomes [`ErrorKind::Unsupported`], so
    /// that the engine falls back to plain reads.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let FailureMessage { kind, message } = FailureMessage::decode(bytes).map_err(malformed)?;
        Ok(Self { kind: error_kind::read(kind).unwrap_or(ErrorKind::Unsupported), message })
    }

    /// Converts the failure to an error.
    pub fn into_error(self) -> Error {
        Error::new(self.kind, self.message)
    }
}
