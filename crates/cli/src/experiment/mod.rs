//! `experiment`: measurements that anybody can repeat, defined as data in `experiments/`.
//!
//! ```text
//! definition   what is measured: contestants, queries, targets
//! data         the rows as files
//! run          measures cell after cell, in rounds
//! task         what a contestant's process is told and says
//! contestant   contestants inside this binary
//! server       contestants that are servers
//! process      cores, CPU time, peaks of memory
//! answer       whether contestants agree
//! journal      measurements so far: a run can be interrupted
//! summary      medians, wrong answers, targets
//! machine      where it was measured
//! record       tables and figures
//! ```

mod answer;
mod contestant;
mod data;
mod definition;
mod journal;
mod machine;
mod process;
mod record;
mod run;
mod server;
mod summary;
mod task;

use anyhow::Result;

use crate::args::Experiment;

/// The definition of `experiment scan`.
const SCAN: &str = include_str!("../../../../experiments/scan.toml");

/// The contestants that run in Python.
const PEERS: &str = include_str!("../../../../experiments/peers.py");

/// Draws figures.
const PLOT: &str = include_str!("../../../../experiments/plot.py");

/// Runs an experiment.
pub async fn experiment(what: Experiment) -> Result<()> {
    match what {
        Experiment::Scan(args) => run::run("scan", SCAN, args).await,
        Experiment::Contestant => contestant::run().await,
    }
}
