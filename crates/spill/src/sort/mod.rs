//! A sort that spills ranges of its keys when its input does not fit into memory.
//!
//! ```text
//!  input ─▶ buffer ─▶ sort (runs) ─▶ cut at a key ─▶ spill the upper range (chunk)
//!                                        │
//!                                        └─▶ the lower range stays in memory
//!  output ◀─ merge of what lies below the next chunk's first key ◀─ open chunks one by one
//! ```
//!
//! - [`run`]: rows are sorted in runs of bounded size when they arrive. A run is a list of small
//!   pieces with their own buffers and their last key, so memory is given back piece by piece, and
//!   the last keys are a sample of all buffered rows.
//! - [`ranges`]: when memory ends, that sample says at which key to cut. Rows above it are spilled
//!   as one sorted chunk, rows below it stay.
//! - [`chunk`]: a spilled file of sorted rows, and the interval of its keys.
//! - [`restore`]: chunks are opened when all rows up to their first key have been emitted. Chunks
//!   whose intervals do not overlap are so read one after the other.
//!
//! No result depends on where the cuts are: chunks may overlap, and are merged where they do.

mod buffer;
mod chunk;
mod exec;
mod keys;
mod memory;
mod merge;
mod ranges;
mod restore;
mod run;
mod setup;
mod share;
#[cfg(test)]
mod tests;

pub use exec::RangeSortExec;
