//! A hash join that spills partitions of both sides when its build side does not fit into memory.
//!
//! [`HybridHashJoinExec`] wraps a `HashJoinExec`. Each output partition first reads its build side.
//! If that fits into memory, the wrapped join does the rest, with its dynamic filter. If not, the
//! rows are partitioned by a hash of their keys; partitions that do not fit are spilled to files,
//! as are the rows of the probe side that belong to them. The partitions that stayed in memory are
//! joined while the probe side is read. Afterwards each pair of files is joined: in the same way
//! with another hash, or in chunks if hashing cannot make it smaller.
//!
//! - `exec` has the operator, and `run` one execution of it: the state that its output partitions
//!   share, and the work of each of them.
//! - `build` reads a build side into memory and files, and `probe` partitions a probe side; `views`
//!   merges batches of a build side whose text columns have too many buffers.
//! - `pairs` joins pairs of files, and `chunks` those that hashing cannot make smaller.
//! - `spec` creates the `HashJoinExec` for a part of the rows; its inputs are streams (`input`).
//! - `partition` partitions rows by a hash, `buffer` holds the rows of one partition in memory and
//!   in its file (`file`), and `budget` accounts for memory.

mod budget;
mod buffer;
mod build;
mod chunks;
mod exec;
mod file;
mod input;
mod output;
mod pairs;
mod partition;
mod probe;
mod run;
mod spec;
mod views;

#[cfg(test)]
mod tests;

pub use exec::HybridHashJoinExec;
