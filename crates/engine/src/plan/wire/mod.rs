//! The protobuf encoding of a [`ScanPlan`].
//!
//! Expressions, types and fragments are encoded as on the fragment route
//! ([`pushdowndb_contract::wire`]). Adding a field that affects the rows of a scan requires a new
//! [`VERSION`].

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use prost::Message;

/// The version of the encoding.
const VERSION: u32 = 2;

#[derive(Clone, PartialEq, Message)]
struct PlanMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    location: String,
    /// Fragment with the format, file schema and predicate. Its output is the aggregates, or else
    /// no columns.
    #[prost(bytes = "vec", tag = "4")]
    fragment: Vec<u8>,
    #[prost(bool, tag = "5")]
    compression_by_name: bool,
    #[prost(bytes = "vec", tag = "6")]
    partition_columns: Vec<u8>,
    #[prost(string, optional, tag = "7")]
    profile: Option<String>,
    #[prost(message, repeated, tag = "8")]
    objects: Vec<ObjectMessage>,
    #[prost(uint64, tag = "9")]
    partitions: u64,
    #[prost(uint64, repeated, tag = "10")]
    projection: Vec<u64>,
    #[prost(uint64, optional, tag = "11")]
    limit: Option<u64>,
    #[prost(uint64, tag = "12")]
    group_bytes: u64,
    #[prost(message, optional, tag = "13")]
    states: Option<StatesMessage>,
    #[prost(message, optional, tag = "14")]
    top_k: Option<TopKMessage>,
    #[prost(message, repeated, tag = "15")]
    key_filters: Vec<KeyFilterMessage>,
    #[prost(message, optional, tag = "16")]
    without_keys: Option<WithoutKeysMessage>,
    #[prost(message, optional, tag = "17")]
    sample: Option<SampleMessage>,
    #[prost(string, tag = "18")]
    store: String,
}

/// A sample of stretches.
#[derive(Clone, Copy, PartialEq, Message)]
struct SampleMessage {
    #[prost(uint64, tag = "1")]
    share: u64,
    #[prost(uint64, tag = "2")]
    seed: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMessage {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(uint64, tag = "2")]
    size: u64,
    #[prost(string, optional, tag = "3")]
    etag: Option<String>,
    #[prost(sint64, tag = "4")]
    modified_s: i64,
    #[prost(uint32, tag = "5")]
    modified_ns: u32,
    /// The values of the partition columns.
    #[prost(message, repeated, tag = "6")]
    values: Vec<ValueMessage>,
    /// The object's own columns, if they differ from the table's.
    #[prost(message, optional, tag = "7")]
    columns: Option<NamesMessage>,
    #[prost(uint64, repeated, tag = "8")]
    replicas: Vec<u64>,
}

/// A value as text; NULL if it is absent.
#[derive(Clone, PartialEq, Message)]
struct ValueMessage {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct NamesMessage {
    #[prost(string, repeated, tag = "1")]
    names: Vec<String>,
}

/// The columns of partial aggregates.
#[derive(Clone, PartialEq, Message)]
struct StatesMessage {
    #[prost(bytes = "vec", tag = "1")]
    schema: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    states: Vec<StateMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct StateMessage {
    #[prost(uint64, tag = "1")]
    call: u64,
    #[prost(bool, tag = "2")]
    zero_is_null: bool,
}

#[derive(Clone, PartialEq, Message)]
struct TopKMessage {
    #[prost(message, optional, tag = "1")]
    first: Option<KeyMessage>,
    #[prost(message, repeated, tag = "2")]
    rest: Vec<KeyMessage>,
    /// Whether `rest` has all further sort keys. If not, the field `rest` of the decoded top-k is
    /// `None`.
    #[prost(bool, tag = "3")]
    is_complete: bool,
    #[prost(uint64, tag = "4")]
    k: u64,
}

/// A sort key.
#[derive(Clone, PartialEq, Message)]
struct KeyMessage {
    #[prost(bytes = "vec", tag = "1")]
    expr: Vec<u8>,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
struct KeyFilterMessage {
    #[prost(uint64, tag = "1")]
    join: u64,
    #[prost(uint64, tag = "2")]
    join_keys: u64,
    #[prost(bool, tag = "3")]
    nulls_match: bool,
    #[prost(uint64, tag = "4")]
    index: u64,
    #[prost(bytes = "vec", tag = "5")]
    key_type: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    key: Vec<u8>,
    #[prost(bool, tag = "7")]
    negated: bool,
    #[prost(sint64, tag = "8")]
    offset: i64,
    #[prost(string, tag = "9")]
    of: String,
    #[prost(string, optional, tag = "10")]
    side: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct WithoutKeysMessage {
    #[prost(bytes = "vec", optional, tag = "1")]
    predicate: Option<Vec<u8>>,
    #[prost(double, tag = "2")]
    rows: f64,
}
