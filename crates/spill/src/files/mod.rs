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
//! A [`SpillProcess`] stands for an engine process, and a [`QuerySpill`] for a query, through which
//! DataFusion's operators and those of this crate create their files. While a query runs, nothing
//! is listed: a file keeps the list of its parts in memory. For cleaning up after a killed process,
//! a manifest in the object store says which parts may exist. It is one object per query, written
//! before the first part.
//!
//! # Memory
//!
//! Each file that is being written holds the part that is being filled: at most 1 MiB if the disk
//! takes it, otherwise [`QueryOptions::part_bytes`]. Together, these parts hold at most
//! [`QueryOptions::buffer_bytes`] plus, for each writer, 64 KiB (or an eighth of a part without a
//! disk). Up to a fourth of `buffer_bytes` may be kept as the content of small files. Uploads in
//! flight hold [`QueryOptions::uploads`] parts. Each reader holds the part that it returns bytes
//! of; all readers together hold at most `buffer_bytes` of parts that are read ahead.
//!
//! # Threads
//!
//! Requests and reads run on threads of this module, so a writer that blocks a thread of the query
//! does not block the upload that it waits for. [`RemoteStore`] says what this requires of the
//! client.

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
