//! What an answer says about the work: for each split, at the end, and when something failed.

use prost::Message;

use super::{codes, malformed};
use crate::{Error, ErrorKind, Result};

/// What became of one split, said with its end mark.
#[derive(Clone, Copy, Eq, PartialEq, Message)]
pub struct SplitStats {
    /// Rows that it returned.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// Bytes of the object that were looked at.
    #[prost(uint64, tag = "2")]
    pub bytes_scanned: u64,
    /// What became of its indexes: see [`SplitStats::index`].
    #[prost(uint32, tag = "3")]
    pub index_code: u32,
    /// To how many places its indexes led.
    #[prost(uint64, tag = "4")]
    pub places: u64,
    /// Bytes that need not be looked at when the same is asked again, as the node knows what they hold. Zero from a node
    /// that does not tell.
    #[prost(uint64, tag = "5")]
    pub bytes_ruled_out: u64,
}

/// What became of the indexes that a split came with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexOutcome {
    /// It came with none.
    None,
    /// They led to its rows.
    Used,
    /// One is not there, or is another one now; the split was scanned.
    Gone,
    /// One holds what no index holds; the split was scanned.
    Unreadable,
    /// They lead to more rows than are read one by one; the split was scanned.
    TooMany,
}

/// What the whole request took.
#[derive(Clone, Copy, Eq, PartialEq, Message)]
pub struct RouteStats {
    /// Bytes of objects that were looked at.
    #[prost(uint64, tag = "1")]
    pub bytes_scanned: u64,
    /// Records decoded, in whole or in part, before filtering.
    #[prost(uint64, tag = "2")]
    pub rows_scanned: u64,
    /// Row groups of Parquet that were read.
    #[prost(uint64, tag = "3")]
    pub row_groups_scanned: u64,
    /// Row groups of Parquet that statistics ruled out.
    #[prost(uint64, tag = "4")]
    pub row_groups_pruned: u64,
    /// Bytes of text that was passed over, as nothing in it can match: earlier scans saw what it holds.
    #[prost(uint64, tag = "7")]
    pub bytes_pruned: u64,
    /// Bytes of batches or ranges returned, without framing.
    #[prost(uint64, tag = "5")]
    pub bytes_returned: u64,
    /// Time on a core of the node, in nanoseconds.
    #[prost(uint64, tag = "6")]
    pub cpu_ns: u64,
    /// Cores that scan; zero from a node that does not tell.
    #[prost(uint32, tag = "8")]
    pub cores: u32,
    /// Requests that scan or wait for their turn, this one included.
    #[prost(uint32, tag = "9")]
    pub scanning: u32,
    /// Time that threads of the node were at it, in nanoseconds: longer than `cpu_ns` where others wanted its cores. Zero from
    /// a node that does not tell.
    #[prost(uint64, tag = "10")]
    pub busy_ns: u64,
    /// Requests at a time that keep its cores busy; more only take turns. Zero from a node that does not tell.
    #[prost(uint32, tag = "11")]
    pub at_once: u32,
}

/// A failure after the answer has begun. What ended before it stays complete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// What the engine can do about it.
    pub kind: ErrorKind,
    /// Names the object.
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
    /// What became of its indexes. What a newer node says is that it had some reason to scan.
    pub fn index(&self) -> IndexOutcome {
        index_outcome::read(self.index_code).unwrap_or(IndexOutcome::Unreadable)
    }

    /// The same with what became of its indexes.
    pub fn with_index(self, outcome: IndexOutcome) -> Self {
        Self { index_code: index_outcome::code(outcome), ..self }
    }

    /// Encodes it as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads a peer's word.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(malformed)
    }
}

impl RouteStats {
    /// Encodes it as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads a peer's word.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(malformed)
    }
}

impl Failure {
    /// Encodes it as protobuf.
    pub fn to_bytes(&self) -> Vec<u8> {
        FailureMessage { kind: error_kind::code(self.kind), message: self.message.clone() }.encode_to_vec()
    }

    /// Reads a peer's word. A kind that is unknown here is one that reading plainly may mend.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let FailureMessage { kind, message } = FailureMessage::decode(bytes).map_err(malformed)?;
        Ok(Self { kind: error_kind::read(kind).unwrap_or(ErrorKind::Unsupported), message })
    }

    /// The failure as the engine meets it.
    pub fn into_error(self) -> Error {
        Error::new(self.kind, self.message)
    }
}
