//! The program `pushdowndb-bench`: reproducible measurements, defined as data in `experiments/`.
//!
//! ```text
//! args         the arguments
//! scan/        how fast one core scans a local file, beside other programs
//! spill/       sorts, aggregates and joins larger than memory: what they spill, beside DuckDB
//! grid/        queries through links: the paper's figures, regrets, other engines, trouble
//! disks/       a table over several nodes with a slow disk each, behind one bus
//! workers/     whole queries on one process and on several workers
//! queries      the queries of sql/tpch
//! link         two network namespaces and the link between them
//! contestant/  the measured programs and libraries, each run in its own process
//! latency      a proxy that answers like an object store in the cloud
//! journal      measurements so far: a run can be interrupted
//! record       records: tables, dates, pictures
//! spread       medians, least and greatest
//! programs     the measured programs, and those that run beside them
//! machine      where it is measured
//! signals      Ctrl-C
//! ```
//!
//! `scan`, `spill`, `grid`, `disks` and `workers` are kinds of experiment. They use the other
//! modules, but not each other.

#![forbid(unsafe_code)]

mod args;
mod contestant;
mod disks;
mod grid;
mod journal;
mod latency;
mod link;
mod machine;
mod programs;
mod queries;
mod record;
mod scan;
mod signals;
mod spill;
mod spread;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};
use clap::Parser;

use crate::args::{Cli, Command};

/// The allocator of `pushdowndb`, so that engine and scans are measured with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    if matches!(command, Command::Contestant) {
        contestant::small_pages();
    }
    // Uses as many threads as `pushdowndb`.
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Scan(args) => scan::run(args).await,
            Command::Spill(args) => spill::run(args).await,
            Command::All(args) => grid::run(&[""], args).await,
            Command::Figures(args) => grid::run(&["fig"], args).await,
            Command::Regret(args) => grid::run(&["regret"], args).await,
            Command::Peers(args) => grid::run(&["peers"], args).await,
            Command::Chaos(args) => grid::run(&["chaos"], args).await,
            Command::Disks(args) => disks::run(args).await,
            Command::Workers(args) => workers::run(args).await,
            Command::Report(args) => grid::report(&args),
            Command::Plot(args) => record::plot(&args),
            Command::Latency(args) => latency::run(args).await,
            Command::Datafusion(args) => contestant::plain(&args).await,
            // Runs on a thread of the runtime, as scripts of `pushdowndb` do.
            Command::Contestant => tokio::spawn(contestant::run()).await?,
        }
    })
}
