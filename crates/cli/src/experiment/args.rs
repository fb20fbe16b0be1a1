//! What `pushdowndb experiment` is asked for.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// How fast one core scans lineitem in every format, beside MinIO, DuckDB, Polars, DataFusion and ripgrep
    Scan(ScanArgs),
    /// The figures of the PushdownDB paper: strategies of filter, join, group-by and top-k; operators and TPC-H; Parquet
    Figures(GridArgs),
    /// What is chosen for TPC-H and the operators, against every fixed setting: seconds and dollars
    Regret(GridArgs),
    /// DuckDB, Polars and DataFusion on the same objects, link and core
    Peers(GridArgs),
    /// A node that is loaded, throttled, refusing or flapping
    Chaos(GridArgs),
    /// Figures, regret, peers and chaos, one after the other
    All(GridArgs),
    /// Writes docs/evaluation.md from the records of all of these
    Report(ReportArgs),
    /// Runs one query of an experiment, told on stdin
    #[command(hide = true)]
    Contestant,
}

/// Measuring.
#[derive(Args, Debug)]
pub struct ScanArgs {
    /// The folder for measurements, data and servers; a run that was interrupted goes on there
    /// [default: experiment-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The folder for the tables, which are large and can be used again [default: data in --out]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder for the record of the results [default: --out]
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// The scale of TPC-H [default: the experiment's, 1]
    #[arg(long)]
    pub scale: Option<f64>,
    /// How often each figure is measured [default: the experiment's, 3]
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Only what has one of these names of formats, queries or contestants; each further --only narrows that:
    /// --only csv,parquet --only q6 --only node,engine
    #[arg(long, value_name = "NAMES")]
    pub only: Vec<String>,
    /// The binary of MinIO [default: the one that .ci/minio built]
    #[arg(long, value_name = "FILE")]
    pub minio: Option<PathBuf>,
    /// Another definition than the one that is built in; experiments/ holds those
    #[arg(long, value_name = "FILE")]
    pub definition: Option<PathBuf>,
}

/// Measuring queries through links: a node on the first core, an engine on the second.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb experiment all --estimate                                     how long it takes
  pushdowndb experiment figures --only fig01 --only '40 MB/s' --runs 1     one figure, quickly
  pushdowndb experiment figures --scale 0.01 --loopback                    without root, without caps
  pushdowndb experiment all --budget 60 --record experiments/results       an hour; the next run goes on there

Links with a cap need root, Linux and iproute2; plots need Python with matplotlib; peers need duckdb, polars and pyarrow.
What is missing is left out and said to be.")]
pub struct GridArgs {
    /// The folder for measurements and the node; a run that was interrupted goes on there [default: experiments-out]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The folder for the objects, which are large and can be used again [default: store in --out]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder for records of the results, a .csv and a .svg each [default: --out]
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Times the scale of each definition
    #[arg(long)]
    pub scale: Option<f64>,
    /// How often each figure is measured [default: the definition's]
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Only what has one of these names of definitions, conditions, formats, points or series; each further --only
    /// narrows that
    #[arg(long, value_name = "NAMES")]
    pub only: Vec<String>,
    /// Stop after so many minutes and write down what is there
    #[arg(long, value_name = "MINUTES")]
    pub budget: Option<f64>,
    /// Say how long it takes, and measure nothing
    #[arg(long)]
    pub estimate: bool,
    /// Use the loopback, and no caps
    #[arg(long)]
    pub loopback: bool,
}

/// Writing the evaluation.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The folder of the records
    #[arg(long, value_name = "DIR", default_value = "experiments/results")]
    pub results: PathBuf,
    /// The document
    #[arg(long, value_name = "FILE", default_value = "docs/evaluation.md")]
    pub into: PathBuf,
}
