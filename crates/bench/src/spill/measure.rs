//! What is measured, and on what.

use std::path::PathBuf;

use super::answer::Answer;
use super::place::Place;
use super::queries::Query;

/// One query to be run by one contestant.
#[derive(Clone, Debug)]
pub struct Work {
    pub query: Query,
    /// The limit of memory, in bytes.
    pub memory: u64,
    pub threads: usize,
    /// The folder of the tables.
    pub tables: PathBuf,
    pub place: Place,
    /// The folder for what is spilled to disk.
    pub disk: PathBuf,
    /// The sizes of an uploaded part and of a block of the sort by blocks, in bytes.
    pub part_bytes: usize,
    pub block_bytes: usize,
    /// The most runs of blocks that are merged at once.
    pub fan_in: usize,
}

/// What a contestant took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub wall_s: f64,
    pub cpu_s: f64,
    pub answer: Answer,
    /// `None` if the contestant does not tell.
    pub spilled: Option<Spilled>,
}

/// What was spilled, with the clean-up at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spilled {
    /// The time that was waited to write and read, summed over partitions.
    pub wait_s: f64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    /// Requests; on the local disk the parts written and read, and no others.
    pub puts: u64,
    pub gets: u64,
    pub deletes: u64,
    pub lists: u64,
}

impl Spilled {
    /// All requests.
    pub fn operations(&self) -> u64 {
        self.puts + self.gets + self.deletes + self.lists
    }
}
