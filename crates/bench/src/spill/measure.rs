//! The input and the result of a measurement.

use std::path::PathBuf;

use super::answer::Answer;
use super::place::Place;
use super::queries::Query;

/// One query to be run by one contestant.
#[derive(Clone, Debug)]
pub struct Work {
    pub query: Query,
    /// The memory limit in bytes.
    pub memory: u64,
    pub threads: usize,
    /// The folder of the tables.
    pub tables: PathBuf,
    pub place: Place,
    /// The folder for data that is spilled to disk.
    pub disk: PathBuf,
    /// The sizes of an uploaded part and of a block of the sort by blocks, in bytes.
    pub part_bytes: usize,
    pub block_bytes: usize,
    /// Maximum runs of blocks that are merged at once.
    pub fan_in: usize,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub wall_s: f64,
    pub cpu_s: f64,
    pub answer: Answer,
    /// What was spilled; `None` if the contestant does not report it.
    pub spilled: Option<Spilled>,
}

/// What was spilled, including the clean-up at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spilled {
    /// The time waited for writes and reads, summed over partitions.
    pub wait_s: f64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    /// Numbers of requests. On the local disk, `puts` and `gets` are parts written and read, and
    /// the others are 0.
    pub puts: u64,
    pub gets: u64,
    pub deletes: u64,
    pub lists: u64,
}

impl Spilled {
    /// The total number of requests.
    pub fn operations(&self) -> u64 {
        self.puts + self.gets + self.deletes + self.lists
    }
}
