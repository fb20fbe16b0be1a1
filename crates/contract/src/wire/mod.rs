//! Messages of the fragment route of a PushdownDB node, as protobuf (`docs/fragment-route.md`).
//!
//! The language is closed and decoded in full before anything runs. Any sequence of bytes decodes,
//! within the bounds of [`crate::limits`], to a request or to an error. An unknown code is
//! [`crate::ErrorKind::Unsupported`], so that the engine falls back to plain reads; a contradiction
//! is [`crate::ErrorKind::Invalid`]. A new field that changes the rows of a response needs a new
//! [`VERSION`], because protobuf skips unknown fields.
//!
//! A list is one field of bytes that contains length-delimited messages. Its messages are counted
//! while they are decoded, so that a short request cannot allocate much memory. Trees are encoded
//! as lists, too: expressions in postfix order, types in prefix order.

mod answer;
mod event;
mod expr;
mod fingerprint;
mod format;
mod fragment;
mod lookup;
mod request;
mod split;
#[cfg(test)]
mod tests;
mod types;

pub use answer::{Failure, IndexOutcome, RouteStats, SplitStats};
pub use event::{EventParts, RouteEvent};
pub use expr::{read_expr, write_expr};
pub use lookup::{IndexObject, Lookups, Probe};
pub use request::{Encoding, FragmentRequest, RangesRequest, Request};
pub use types::{read_schema, read_type, write_schema, write_type};

use prost::Message;

use crate::{Error, Result};

/// The newest version of the fragment route that this build speaks. A request states the oldest
/// version that has all of its features.
///
/// - 1: fragments over splits, ranges of an object;
/// - 2: indexes for row lookups on the node ([`Lookups`]), rows with their positions, text as
///   dictionaries;
/// - 3: filters that are sets of integers, as bits or as gaps ([`crate::BloomFilter::of_numbers`]).
pub const VERSION: u32 = 3;

/// The first version with [`Lookups`] and positions.
pub const INDEX_VERSION: u32 = 2;

/// The first version with sets of integers.
pub const NUMBERS_VERSION: u32 = 3;

/// The oldest version that this build speaks.
const OLDEST_VERSION: u32 = 1;

/// The header in every response of a node that lists the versions of the fragment route it speaks,
/// separated by commas.
pub const VERSION_HEADER: &str = "x-pushdowndb-fragment";

/// The query of the route's URL: `POST /bucket?pushdowndb-fragment`.
pub const QUERY: &str = "pushdowndb-fragment";

/// The value of [`VERSION_HEADER`] for this build.
pub const VERSIONS: &str = "1, 2, 3";

/// Returns the highest version that both sides speak, given the peer's `header`; `None` if there is
/// none.
pub fn common_version(header: &str) -> Option<u32> {
    let versions = header.split(',').filter_map(|version| version.trim().parse().ok());
    versions.filter(|version| (OLDEST_VERSION..=VERSION).contains(version)).max()
}

/// Encodes messages as one list.
fn write_list<M: Message>(messages: impl IntoIterator<Item = M>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for message in messages {
        message.encode_length_delimited(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(bytes)
}

/// Decodes a list of at most `limit` messages.
fn read_list<M: Message + Default>(mut bytes: &[u8], limit: usize, what: &str) -> Result<Vec<M>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        if messages.len() >= limit {
            return Err(Error::invalid(format!("a request has more than {limit} {what}")));
        }
        messages.push(M::decode_length_delimited(&mut bytes).map_err(malformed)?);
    }
    Ok(messages)
}

fn malformed(error: prost::DecodeError) -> Error {
    Error::invalid(format!("a message is malformed: {error}"))
}

fn missing(what: &str) -> Error {
    Error::invalid(format!("the request is malformed: it lacks {what}"))
}

fn unknown(what: &str, code: u32) -> Error {
    Error::unsupported(format!("{what} {code} is unknown here; the peer is of another version"))
}

/// Assigns each variant its permanent code on the wire, and generates the conversions.
macro_rules! codes {
    ($($name:ident: $type:ty, $what:literal { $($variant:path = $code:literal;)* })*) => {
        $(mod $name {
            use super::*;

            pub fn code(value: $type) -> u32 {
                match value {
                    $($variant => $code,)*
                }
            }

            pub fn read(code: u32) -> crate::Result<$type> {
                match code {
                    $($code => Ok($variant),)*
                    other => Err(crate::wire::unknown($what, other)),
                }
            }
        })*
    };
}
use codes;
