//! Reads of a far server, for the engine's tables and behind a gateway.
//!
//! A near server answers at once, so a read is one request whose body is streamed. A far one
//! ([`ReadLimit::is_far`]) answers after tens of milliseconds and gives each connection a part of its
//! bandwidth, so a read is cut into parts of [`PART_BYTES`] that are fetched at the same time, whole
//! and in tasks of their own ([`whole`], [`in_order`]). A part that takes much longer than others is
//! requested a second time, and the first answer taken. How many are in flight is bounded by a
//! [`ReadLimit`] for each server. (AnyBlob: Durner, Leis, Neumann, VLDB 2023; YourSQL, Section
//! 3.2.3.)

mod hedge;
mod limit;
mod parts;

pub use limit::{ReadLimit, ReadSlot};
pub use parts::{MAX_PART_BYTES, RangeSource, in_order, whole};

/// Bytes of a part. At 30 ms and 90 MB/s it takes 75 ms, so that two fifths of the time are lost to
/// latency; larger parts would take more memory for the same number of reads in flight.
pub const PART_BYTES: u64 = 4 * 1024 * 1024;
