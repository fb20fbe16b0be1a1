//! Requests on the fragment route: a fragment over many splits, or many byte ranges of one object.

use std::ops::Range;
use std::time::Duration;

use prost::Message;

use super::fragment::{FragmentMessage, read_fragment, write_fragment};
use super::lookup::{Lookups, LookupsMessage, read_lookups, write_lookups};
use super::split::{RangeMessage, SplitMessage, lies_in, read_split, write_range, write_split};
use super::{
    INDEX_VERSION, NUMBERS_VERSION, OLDEST_VERSION, VERSION, codes, malformed, missing, read_list, unknown, write_list,
};
use crate::{Error, Expr, Fragment, Result, Split, limits};

/// A request on the fragment route.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A request for rows or aggregates.
    Fragment(Box<FragmentRequest>),
    /// A request for bytes.
    Ranges(RangesRequest),
}

/// A fragment over splits of objects of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentRequest {
    /// The fragment to run on each split.
    pub fragment: Fragment,
    /// The splits; events of the response refer to them by index.
    pub splits: Vec<Split>,
    /// The maximum time for the response; the node may set a shorter one.
    pub deadline: Duration,
    /// The compression of batches.
    pub encoding: Encoding,
    /// The memory for groups per split of an aggregate, in bytes; the node may use less. When it is
    /// full, further groups are returned as partial aggregates, which the engine merges. With
    /// `None`, each group of a split is returned once.
    pub partial_group_bytes: Option<u64>,
    /// The index lookups.
    pub lookups: Lookups,
    /// True if each row gets two more columns with the position of its record, as in an index. Only
    /// for whole objects whose records can be read one by one.
    pub positions: bool,
    /// True if text columns may be returned as Arrow type `Dictionary(UInt8, Utf8)`. Each batch
    /// says which of its columns are.
    pub dictionaries: bool,
}

/// Byte ranges of one object, returned in order.
#[derive(Clone, Debug, PartialEq)]
pub struct RangesRequest {
    /// The object; its range is ignored.
    pub object: Split,
    /// The ranges, which must lie within the object; not empty.
    pub ranges: Vec<Range<u64>>,
}

/// The compression of the bodies of Arrow batches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Encoding {
    /// No compression.
    None,
    /// LZ4 frames: fast.
    #[default]
    Lz4,
    /// Zstandard: smaller.
    Zstd,
}

#[derive(Clone, PartialEq, Message)]
struct RequestMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, optional, tag = "2")]
    fragment: Option<FragmentMessage>,
    /// A list of [`SplitMessage`].
    #[prost(bytes = "vec", tag = "3")]
    splits: Vec<u8>,
    #[prost(uint64, tag = "4")]
    deadline_ms: u64,
    #[prost(uint32, tag = "5")]
    encoding: u32,
    /// A list of [`RangeMessage`]: ranges of the only split, which are read instead of running a
    /// fragment.
    #[prost(bytes = "vec", optional, tag = "6")]
    ranges: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "7")]
    partial_group_bytes: Option<u64>,
    /// Used since version 2.
    #[prost(message, optional, tag = "8")]
    lookups: Option<LookupsMessage>,
    /// Used since version 2.
    #[prost(bool, tag = "9")]
    positions: bool,
    /// Used since version 2.
    #[prost(bool, tag = "10")]
    dictionaries: bool,
}

codes! {
    encoding: Encoding, "encoding" {
        Encoding::None = 1;
        Encoding::Lz4 = 2;
        Encoding::Zstd = 3;
    }
}

impl Request {
    /// Encodes the request. Returns an `Unsupported` error if it exceeds the limits of a peer.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let message = match self {
            Self::Fragment(request) => {
                request.check()?;
                let lookups = (!request.lookups.is_empty()).then(|| write_lookups(&request.lookups)).transpose()?;
                let newer = lookups.is_some() || request.positions || request.dictionaries;
                let version = match newer {
                    _ if has_numbers(request) => NUMBERS_VERSION,
                    true => INDEX_VERSION,
                    false => OLDEST_VERSION,
                };
                RequestMessage {
                    version,
                    fragment: Some(write_fragment(&request.fragment)?),
                    splits: write_list(request.splits.iter().map(write_split))?,
                    deadline_ms: u64::try_from(request.deadline.as_millis()).unwrap_or(u64::MAX),
                    encoding: encoding::code(request.encoding),
                    ranges: None,
                    partial_group_bytes: request.partial_group_bytes,
                    lookups,
                    positions: request.positions,
                    dictionaries: request.dictionaries,
                }
            }
            Self::Ranges(request) => {
                check_ranges(request)?;
                RequestMessage {
                    version: OLDEST_VERSION,
                    splits: write_list([write_split(&request.object)])?,
                    ranges: Some(write_list(request.ranges.iter().map(write_range))?),
                    ..RequestMessage::default()
                }
            }
        };
        let bytes = message.encode_to_vec();
        if bytes.len() > limits::FRAGMENT_REQUEST_BYTES {
            return Err(Error::unsupported(format!(
                "a request of {} bytes is too large for the fragment route",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Decodes a peer's request. The module describes the errors.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > limits::FRAGMENT_REQUEST_BYTES {
            return Err(Error::invalid(format!("a request has at most {} bytes", limits::FRAGMENT_REQUEST_BYTES)));
        }
        let message = RequestMessage::decode(bytes).map_err(malformed)?;
        if !(OLDEST_VERSION..=VERSION).contains(&message.version) {
            return Err(unknown("version", message.version));
        }
        if message.version < INDEX_VERSION && (message.lookups.is_some() || message.positions || message.dictionaries) {
            return Err(Error::invalid("a request says more than its version has"));
        }
        let splits = read_list::<SplitMessage>(&message.splits, limits::FRAGMENT_SPLITS, "splits")?;
        let splits = splits.into_iter().map(read_split).collect::<Result<Vec<_>>>()?;
        match (message.fragment, message.ranges) {
            (Some(fragment), None) => {
                let request = FragmentRequest {
                    fragment: read_fragment(fragment)?,
                    splits,
                    deadline: Duration::from_millis(message.deadline_ms),
                    encoding: encoding::read(message.encoding)?,
                    partial_group_bytes: message.partial_group_bytes,
                    lookups: message.lookups.as_ref().map(read_lookups).transpose()?.unwrap_or_default(),
                    positions: message.positions,
                    dictionaries: message.dictionaries,
                };
                request.check()?;
                if message.version < NUMBERS_VERSION && has_numbers(&request) {
                    return Err(Error::invalid("a request says more than its version has"));
                }
                Ok(Self::Fragment(Box::new(request)))
            }
            (None, Some(ranges)) => {
                let [object] = <[Split; 1]>::try_from(splits).map_err(|_| missing("the object of its ranges"))?;
                let ranges = read_list::<RangeMessage>(&ranges, limits::FRAGMENT_RANGES, "ranges")?;
                let request = RangesRequest { object, ranges: ranges.into_iter().map(|r| r.start..r.end).collect() };
                check_ranges(&request)?;
                Ok(Self::Ranges(request))
            }
            _ => Err(missing("a fragment or ranges")),
        }
    }
}

impl FragmentRequest {
    fn check(&self) -> Result<()> {
        check_splits(&self.splits)?;
        if self.positions && self.splits.iter().any(|split| split.range.is_some()) {
            return Err(Error::invalid("positions are those of whole objects"));
        }
        if self.positions && !self.lookups.is_empty() {
            return Err(Error::invalid("positions are those of all records, and not of some that are looked up"));
        }
        self.lookups.check(&self.splits, self.fragment.schema.fields().len())
    }
}

/// Returns whether one of the request's filters is a set of integers.
fn has_numbers(request: &FragmentRequest) -> bool {
    fn of(expr: &Expr) -> bool {
        matches!(expr, Expr::Bloom { filter, .. } if filter.is_of_numbers()) || expr.children().into_iter().any(of)
    }
    let projected = request.fragment.project.iter().flatten().map(|column| &column.expr);
    let probes = request.lookups.probes.iter().map(|probe| &probe.predicate);
    request.fragment.exprs().chain(projected).chain(probes).any(of)
}

fn check_splits(splits: &[Split]) -> Result<()> {
    if splits.is_empty() || splits.len() > limits::FRAGMENT_SPLITS {
        return Err(Error::invalid(format!("a request has 1 to {} splits", limits::FRAGMENT_SPLITS)));
    }
    match splits.iter().find(|split| split.range.as_ref().is_some_and(|range| !lies_in(range, split.size))) {
        Some(split) => Err(Error::invalid(format!("a range of '{}' does not lie in the object", split.key))),
        None => Ok(()),
    }
}

fn check_ranges(request: &RangesRequest) -> Result<()> {
    let RangesRequest { object, ranges } = request;
    if ranges.is_empty() || ranges.len() > limits::FRAGMENT_RANGES {
        return Err(Error::invalid(format!("a request has 1 to {} ranges", limits::FRAGMENT_RANGES)));
    }
    if !ranges.iter().all(|range| lies_in(range, object.size)) {
        return Err(Error::invalid(format!("a range of '{}' does not lie in the object", object.key)));
    }
    let total = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
    if total.is_none_or(|total| total > limits::FRAGMENT_RANGE_BYTES) {
        return Err(Error::invalid(format!("ranges are at most {} bytes together", limits::FRAGMENT_RANGE_BYTES)));
    }
    Ok(())
}
