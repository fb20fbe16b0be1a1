//! A sort that spills ranges of its keys when its input does not fit into memory.
//!
//! ```text
//!  input ─▶ buffer ─▶ sort (runs) ─▶ cut at a key ─▶ spill the upper range (chunk)
//!                                        │
//!                                        └─▶ the lower range stays in memory
//!  output ◀─ merge of what lies below the next chunk's first key ◀─ open chunks one by one
//! ```
//!
//! - [`run`]: rows are sorted in runs of bounded size as they arrive. A run is a list of small
//!   pieces with separate buffers and their last keys. So memory can be freed piece by piece, and
//!   the last keys are a sample of all buffered rows.
//! - [`ranges`]: when memory runs out, that sample determines the key at which to cut. Rows above
//!   the key are spilled as one sorted chunk, rows below it stay in memory.
//! - [`chunk`]: a spilled file of sorted rows, and the interval of its keys.
//! - [`restore`]: a chunk is opened when all rows up to its first key have been emitted. So chunks
//!   whose intervals do not overlap are read one after the other.
//!
//! The result does not depend on where the cuts are: overlapping chunks are merged.

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
