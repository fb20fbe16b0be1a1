//! Tasks and measurements of contestants: JSON on stdin and stdout of their processes.
//!
//! Each measurement has its own process: only the page cache is warm, the peak memory is that of
//! the query, and the process can be pinned to cores. CPU time excludes the start of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::kind::{DataFormat, Kind};

/// The input of a contestant's process.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Local(Task),
    Remote(RemoteTask),
    /// A request for the plan of a query.
    Plan(RemoteTask),
}

/// One query of one contestant over one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Task {
    pub kind: Kind,
    pub format: DataFormat,
    /// The file with the table `lineitem`.
    pub file: PathBuf,
    pub statement: String,
    pub threads: usize,
    /// The number of runs of the query in the process, for the engine.
    pub runs: usize,
    /// The rows of the table `keys`, which has the one column `k`.
    pub keys: Vec<i64>,
}

/// One query of one contestant over tables in a bucket; the `AWS_*` variables say how to reach it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RemoteTask {
    pub kind: Kind,
    pub format: DataFormat,
    /// Statements that declare the tables, in PushdownDB's dialect.
    pub declarations: String,
    pub tables: Vec<RemoteTable>,
    pub statement: String,
    /// Settings without the prefix `pushdown.`, for PushdownDB's engine only.
    pub settings: BTreeMap<String, String>,
    pub threads: usize,
    /// The millisecond within a second of the clock at which PushdownDB's engine starts.
    pub start_ms: Option<u32>,
    /// The folder of the engine's statistics and endpoint profiles.
    pub cache: PathBuf,
    /// Price books by which the cost is computed.
    pub price_books: Vec<String>,
    /// The file with the token of the workers that the settings name.
    #[serde(default)]
    pub workers_token: Option<PathBuf>,
}

/// A table for contestants without `CREATE EXTERNAL TABLE`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RemoteTable {
    pub name: String,
    /// The URL of its only object.
    pub url: String,
    /// Names and SQL types of its columns.
    pub columns: Vec<(String, String)>,
}

/// The requests of a query and their cost.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Traffic {
    /// Bytes over the network in both directions.
    pub bytes: u64,
    pub requests: u64,
    /// CPU seconds of storage, which are known for fragments only.
    pub storage_cpu_s: f64,
    /// Dollars by price book.
    pub dollars: BTreeMap<String, f64>,
}

/// The result of a measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// CPU seconds, user and system, of all threads.
    pub cpu_s: f64,
    pub wall_s: f64,
    /// The peak memory of the process; unknown for shell commands.
    pub peak_bytes: Option<u64>,
    pub answer: Answer,
    /// The traffic of the engine, for tables in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// Number of runs before the measured ones: they start threads, touch memory and read footers.
const WARM_UP: usize = 2;

/// Runs `ask` a number of `times`. Returns the run with the median time among the third and later
/// runs, or the last run if there are fewer.
pub async fn median_run<F: Future<Output = Result<Measured>>>(
    times: usize,
    mut ask: impl FnMut() -> F,
) -> Result<Measured> {
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
