//! `experiment`: measurements that anybody can repeat, defined as data in `experiments/`.
//!
//! ```text
//! args         what is asked for
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
//! remote       contestants inside this binary, over tables in a bucket
//! grid         queries through links, by settings: the paper's figures, regrets, others, trouble
//! ```
//!
//! All but the last two measure scans of local files.

mod answer;
pub mod args;
mod contestant;
mod data;
mod definition;
mod grid;
mod journal;
mod machine;
mod process;
mod record;
mod remote;
mod run;
mod server;
mod summary;
mod task;

use anyhow::Result;

use args::Experiment;

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
        Experiment::All(args) => grid::run(&[""], args).await,
        Experiment::Figures(args) => grid::run(&["fig"], args).await,
        Experiment::Regret(args) => grid::run(&["regret"], args).await,
        Experiment::Peers(args) => grid::run(&["peers"], args).await,
        Experiment::Chaos(args) => grid::run(&["chaos"], args).await,
        Experiment::Report(args) => grid::report(&args),
        // As scripts run: on a thread of the runtime.
        Experiment::Contestant => tokio::spawn(contestant::run()).await?,
    }
}
