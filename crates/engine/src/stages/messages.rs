//! The protobuf messages of stages. A change of one comes with a new
//! [`VERSION`](super::services::VERSION).

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeMessage {
    #[prost(oneof = "Node", tags = "1, 2, 3")]
    pub(super) node: Option<Node>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Node {
    #[prost(message, tag = "1")]
    Scan(ScanMessage),
    #[prost(message, tag = "2")]
    Keys(KeysMessage),
    #[prost(message, tag = "3")]
    Sets(SetsMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScanMessage {
    /// The plan as [`crate::plan::wire`] encodes it.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plan: Vec<u8>,
    /// The URL of the store.
    #[prost(string, tag = "2")]
    pub(super) store: String,
    #[prost(uint64, tag = "3")]
    pub(super) number: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) splits: Vec<SplitMessage>,
    #[prost(uint64, tag = "5")]
    pub(super) partitions: u64,
    #[prost(bool, optional, tag = "6")]
    pub(super) is_pushed: Option<bool>,
    /// Whether the table is small and cached whole.
    #[prost(bool, tag = "9")]
    pub(super) is_kept: bool,
    /// The settings of the scan that differ from the defaults.
    #[prost(message, repeated, tag = "7")]
    pub(super) settings: Vec<SettingMessage>,
    /// What the server of each store reported to the process that planned the scan.
    #[prost(message, repeated, tag = "8")]
    pub(super) servers: Vec<ServerMessage>,
}

/// What a server reported about itself.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ServerMessage {
    #[prost(string, tag = "1")]
    pub(super) profile: String,
    #[prost(uint32, optional, tag = "2")]
    pub(super) fragment_version: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SplitMessage {
    #[prost(uint64, tag = "1")]
    pub(super) object: u64,
    #[prost(message, optional, tag = "2")]
    pub(super) range: Option<RangeMessage>,
    #[prost(message, optional, tag = "3")]
    pub(super) rows: Option<RangeMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct RangeMessage {
    #[prost(uint64, tag = "1")]
    pub(super) start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) end: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SettingMessage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeysMessage {
    #[prost(uint64, tag = "1")]
    pub(super) join: u64,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) types: Vec<Vec<u8>>,
    #[prost(bool, tag = "3")]
    pub(super) nulls_match: bool,
    #[prost(uint64, tag = "4")]
    pub(super) max_rows: u64,
    /// Whether each process has all rows of the build side.
    #[prost(bool, tag = "5")]
    pub(super) is_whole: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SetsMessage {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sets: Vec<SetMessage>,
}

/// A grouping set: for each key whether it is NULL.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SetMessage {
    #[prost(bool, repeated, tag = "1")]
    pub(super) nulls: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionMessage {
    #[prost(oneof = "Function", tags = "1, 2")]
    pub(super) function: Option<Function>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Function {
    /// Checked arithmetic of this name.
    #[prost(string, tag = "1")]
    Checked(String),
    #[prost(message, tag = "2")]
    Cast(CastMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CastMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) from: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) to: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) safe: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) settings: Vec<SettingMessage>,
    #[prost(string, repeated, tag = "2")]
    pub(super) stores: Vec<String>,
    /// Functions that no registry has.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) functions: Vec<Vec<u8>>,
}
