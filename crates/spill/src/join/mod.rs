//! A hash join that spills partitions of both sides when its build side does not fit into memory.
//!
//! [`HybridHashJoinExec`] wraps a `HashJoinExec`. Each output partition first consumes its build
//! side. If the side fits into memory, the rest is the wrapped join, with its dynamic filter. If
//! not, the rows are distributed over partitions by a hash of their keys; partitions that do not
//! fit go to files, and so do the rows of the probe side that belong to them. What has stayed in
//! memory is joined while the probe side is read, and each pair of files afterwards: by the same
//! means with another hash, or in chunks where a hash cannot make it smaller.
//!
//! - `exec` is the operator, `run` one execution of it: what its output partitions share, and what
//!   each of them does.
//! - `build` reads a build side into memory and files, `probe` distributes a probe side likewise.
//! - `pairs` joins pairs of files, `chunks` those that no hash makes smaller.
//! - `spec` makes the `HashJoinExec` of a part of the rows; its inputs are streams (`input`).
//! - `partition` distributes rows by a hash, `buffer` holds the rows of one partition in memory and
//!   in its file (`file`), and `budget` counts the memory.

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

#[cfg(test)]
mod tests;

pub use exec::HybridHashJoinExec;
