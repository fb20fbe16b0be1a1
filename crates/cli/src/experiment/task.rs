//! What the process of a contestant is told and what it says: JSON on its stdin and stdout.
//!
//! A process of its own for each measurement: nothing is warm but the page cache, peaks of memory are its own, and
//! it can be pinned to its cores. CPU time is the query's, without the start of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::definition::{DataFormat, Kind};

/// What a process is asked to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Local(Task),
    Remote(RemoteTask),
    /// Only how the query would run.
    Plan(RemoteTask),
}

/// One query of one contestant over one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Task {
    pub kind: Kind,
    pub format: DataFormat,
    /// The file that is the table `lineitem`.
    pub file: PathBuf,
    pub statement: String,
    pub threads: usize,
    /// How often our engine is asked, as a contestant is.
    pub asks: usize,
    /// The rows of the table `keys`, which has the one column `k`.
    pub keys: Vec<i64>,
}

/// One query of one contestant over tables in a bucket; the `AWS_*` variables say how to reach it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RemoteTask {
    pub kind: Kind,
    pub format: DataFormat,
    /// Statements that declare the tables, in our dialect.
    pub declarations: String,
    pub tables: Vec<RemoteTable>,
    pub statement: String,
    /// Settings of pushdown, without that prefix; only our engine has them.
    pub settings: BTreeMap<String, String>,
    pub threads: usize,
    /// At which millisecond of a second of the clock our engine begins.
    pub start_ms: Option<u32>,
    /// The folder of what our engine has learned of tables and endpoints.
    pub cache: PathBuf,
    /// Price books that bills are written by.
    pub price_books: Vec<String>,
}

/// A table for those who do not speak our dialect.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RemoteTable {
    pub name: String,
    /// Its only object.
    pub url: String,
    /// Names and SQL types of its columns.
    pub columns: Vec<(String, String)>,
}

/// What a query asked of storage, and what that costs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Traffic {
    /// Both ways.
    pub bytes: u64,
    pub requests: u64,
    /// CPU seconds of storage, for fragments.
    pub storage_cpu_s: f64,
    /// Dollars by price book.
    pub dollars: BTreeMap<String, f64>,
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
    /// Of our engine over tables in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// The first times, in which threads are started, memory is touched and footers are read.
const WARM_UP: usize = 2;

/// Asks so many times. Of the third and later ones it gives the one that took the median time, of fewer the last.
pub async fn asked<F: Future<Output = Result<Measured>>>(times: usize, mut ask: impl FnMut() -> F) -> Result<Measured> {
    let (warm, counted) = match times {
        0..=WARM_UP => (times.saturating_sub(1), 1),
        _ => (WARM_UP, times - WARM_UP),
    };
    for _ in 0..warm {
        ask().await?;
    }
    let mut all = Vec::with_capacity(counted);
    for _ in 0..counted {
        all.push(ask().await?);
    }
    all.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    let peak_bytes = all.iter().filter_map(|measured| measured.peak_bytes).max();
    Ok(Measured { peak_bytes, ..all.swap_remove((counted - 1) / 2) })
}
