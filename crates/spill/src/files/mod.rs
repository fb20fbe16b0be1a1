//! Files of spilled data: parts in memory, on a local disk, and in an object store.
//!
//! ```text
//! operator ─ write ─▶ the part being filled (memory)
//!                          │ full, or the file is finished: CRC32C, AES-256-GCM if asked for
//!                          ├─▶ local disk, within the quota and the reserve
//!                          ├─▶ memory: the end of a file that is too small for an upload
//!                          └─▶ object store: one object, a few uploads at a time
//! operator ◀─ read ── parts in order, each checked before a byte of it is given out; then the
//!                     part being filled; waits until the writer has finished
//! ```
//!
//! A [`SpillProcess`] stands for an engine process, and a [`QuerySpill`] for a query: DataFusion's
//! operators and ours make their files by it. While a query runs nothing is listed: a file has its
//! parts in memory, and a manifest in the object store (one object a query, written before the
//! first part is) states which parts may exist, for whoever cleans up after a process that was
//! killed.
//!
//! # Memory
//!
//! Each file that is being written holds a part that is filled: at most 1 MiB if the disk takes it,
//! [`QueryOptions::part_bytes`] if not. All of them hold at most [`QueryOptions::buffer_bytes`] and
//! for each writer 64 KiB, or an eighth of a part without a disk. A fourth of `buffer_bytes` may be
//! kept of small files. Uploads under way hold [`QueryOptions::uploads`] parts. Each reader holds
//! the part that it gives out; all of them hold at most `buffer_bytes` that are read ahead.
//!
//! # Threads
//!
//! Requests and reads run on threads of this module, so a writer that blocks a thread of the query
//! does not stop what it waits for. See [`RemoteStore`] for what that asks of the client.

mod cleanup;
mod content;
mod disk;
mod error;
mod file;
mod folder;
mod manifest;
mod options;
mod part;
mod process;
mod query;
mod reader;
mod remote;
mod runtime;
mod seal;
mod slots;
#[cfg(test)]
mod tests;
mod tiers;
mod usage;
mod vacuum;
mod writer;

pub use cleanup::Freed;
pub use options::{DiskOptions, QueryOptions, RemoteStore};
pub use process::SpillProcess;
pub use query::{QueryEnd, QuerySpill};
pub use usage::{SpillMeter, SpillUsage};
pub use vacuum::vacuum;
