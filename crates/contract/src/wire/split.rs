//! Splits and byte ranges on the wire.

use std::ops::Range;

use prost::Message;

use crate::{Error, Result, Split, limits};

#[derive(Clone, PartialEq, Message)]
pub(super) struct SplitMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, optional, tag = "2")]
    etag: Option<String>,
    #[prost(uint64, tag = "3")]
    size: u64,
    #[prost(message, optional, tag = "4")]
    range: Option<RangeMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct RangeMessage {
    #[prost(uint64, tag = "1")]
    pub(super) start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) end: u64,
}

pub(super) fn lies_in(range: &Range<u64>, size: u64) -> bool {
    range.start < range.end && range.end <= size
}

pub(super) fn write_split(split: &Split) -> SplitMessage {
    SplitMessage {
        key: split.key.to_string(),
        etag: split.etag.clone(),
        size: split.size,
        range: split.range.as_ref().map(write_range),
    }
}

pub(super) fn write_range(range: &Range<u64>) -> RangeMessage {
    RangeMessage { start: range.start, end: range.end }
}

pub(super) fn read_split(message: SplitMessage) -> Result<Split> {
    if message.key.is_empty() || message.key.len() > limits::KEY_BYTES {
        return Err(Error::invalid(format!("a key has 1 to {} bytes", limits::KEY_BYTES)));
    }
    Ok(Split {
        key: message.key.into(),
        etag: message.etag,
        size: message.size,
        range: message.range.map(|range| range.start..range.end),
    })
}
