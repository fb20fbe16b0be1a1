//! Reads from a far server, for the engine's tables and behind a gateway.
//!
//! A near server answers at once, so a read is one request with a streamed body. A far server
//! ([`ReadLimit::is_far`]) answers after tens of milliseconds and gives each connection only a part
//! of its bandwidth. A read from it is therefore cut into parts of about [`PART_BYTES`], each
//! fetched by a task of its own, many at the same time ([`whole`], [`in_order`]). A part that takes
//! much longer than others is requested a second time (hedged), and the first response is used. A
//! [`ReadLimit`] for each server bounds the number of parts in flight. (AnyBlob: Durner, Leis,
//! Neumann, VLDB 2023; YourSQL, Section 3.2.3.)

mod hedge;
mod limit;
mod parts;

pub use limit::{ReadLimit, ReadSlot};
pub use parts::{MAX_PART_BYTES, RangeSource, in_order, whole};

/// The target size of a part of a read, in bytes.
///
/// With a latency of 30 ms and 90 MB/s, a part takes about 75 ms, two fifths of which are latency.
/// Larger parts would lose less time to latency, but take more memory for the same number of reads
/// in flight.
pub const PART_BYTES: u64 = 4 * 1024 * 1024;
