//! Plain reads: an object of any store as `scan` reads it, pinned to the ETag it had at planning.

pub(crate) mod kept;
pub(crate) mod reader;
pub(crate) mod replicated;
pub(crate) mod source;

pub(crate) use reader::StoreReader;

/// The largest gap between ranges that is read rather than skipped: at 1 Gb/s and 8 ms, a round trip
/// costs as much.
pub(crate) const COALESCE_GAP_BYTES: u64 = 1024 * 1024;
