//! What crosses the wire on the fragment route of our own node, as protobuf (`docs/fragment-route.md`).
//!
//! A closed language, decoded in full before anything runs: whatever the bytes are, decoding ends, within the bounds
//! of [`crate::limits`], in a request or an error. What a peer of another version means by a number that is unknown
//! here is [`crate::ErrorKind::Unsupported`], so that the engine reads plainly instead; what contradicts itself is
//! [`crate::ErrorKind::Invalid`]. Fields that change which rows come out never come without a new [`VERSION`], because
//! protobuf skips fields that it does not know.
//!
//! A list is one field of bytes, its messages one after the other, each behind its length. So it is counted while it
//! is decoded, and few bytes cannot ask for much memory. A tree is a list too: expressions in postfix order, types in
//! prefix order.

mod answer;
mod expr;
mod format;
mod fragment;
mod lookup;
mod request;
#[cfg(test)]
mod tests;
mod types;

pub use answer::{Failure, IndexOutcome, RouteStats, SplitStats};
pub use lookup::{IndexObject, Lookups, Probe};
pub use request::{Encoding, FragmentRequest, RangesRequest, Request};

use prost::Message;

use crate::{Error, Result};

/// The newest version of the fragment route that this build speaks. A request says the oldest one that has all of it.
///
/// - 1: fragments over splits, ranges of an object;
/// - 2: indexes that the node looks rows up in ([`Lookups`]), rows with their positions, text as
///   dictionaries;
/// - 3: filters that are sets of whole numbers, as bits or as gaps ([`crate::BloomFilter::of_numbers`]).
pub const VERSION: u32 = 3;

/// The version that brought [`Lookups`] and positions.
pub const INDEX_VERSION: u32 = 2;

/// The version that brought sets of whole numbers.
pub const NUMBERS_VERSION: u32 = 3;

/// The oldest version that this build speaks.
const OLDEST_VERSION: u32 = 1;

/// In every answer of a node: the versions of the fragment route that it speaks, separated by commas.
pub const VERSION_HEADER: &str = "x-pushdowndb-fragment";

/// In answers of a node on a machine where many threads want to run: the share of a core that a scan would get, as a number.
pub const SHARE_HEADER: &str = "x-pushdowndb-share";

/// The query of the route's address: `POST /bucket?pushdowndb-fragment`.
pub const QUERY: &str = "pushdowndb-fragment";

/// What a node of this build says in [`VERSION_HEADER`].
pub const VERSIONS: &str = "1, 2, 3";

/// The highest version that both sides speak, by the header of the other side.
pub fn common_version(header: &str) -> Option<u32> {
    let versions = header.split(',').filter_map(|version| version.trim().parse().ok());
    versions.filter(|version| (OLDEST_VERSION..=VERSION).contains(version)).max()
}

/// Messages as one list.
fn write_list<M: Message>(messages: impl IntoIterator<Item = M>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for message in messages {
        message.encode_length_delimited(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(bytes)
}

/// The messages of a list, at most `limit`.
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

/// Gives each of these its number on the wire, for good.
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
