//! What the process of a contestant is told and what it says: JSON on its stdin and stdout.
//!
//! A process of its own for each measurement: nothing is warm but the page cache, peaks of memory are its own, and
//! it can be pinned to its cores. CPU time is the query's, without the start of the process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::definition::{DataFormat, Kind};

/// One query of one contestant over one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Task {
    pub kind: Kind,
    pub format: DataFormat,
    /// The file that is the table `lineitem`.
    pub file: PathBuf,
    pub statement: String,
    pub threads: usize,
    /// The rows of the table `keys`, which has the one column `k`.
    pub keys: Vec<i64>,
}

/// What a measurement gave.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// CPU seconds, user and system, of all threads.
    pub cpu_s: f64,
    pub wall_s: f64,
    /// The most memory that the process ever held; unknown of commands.
    pub peak_bytes: Option<u64>,
    pub answer: Answer,
}
