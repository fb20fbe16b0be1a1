//! The arguments of `pushdowndb-bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measurements of PushdownDB that anybody can repeat; experiments/ defines them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// How fast one core scans lineitem in every format, beside MinIO, DuckDB, Polars, DataFusion
    /// and ripgrep
    Scan(ScanArgs),
    /// A sort, an aggregate and a join with less memory than data: time, bytes and requests of ours
    /// beside what Databend had first, DataFusion and DuckDB
    Spill(SpillArgs),
    /// The figures of the PushdownDB paper: strategies of filter, join, group-by and top-k;
    /// operators and TPC-H; Parquet
    Figures(GridArgs),
    /// What is chosen for TPC-H and the operators, against every fixed setting: seconds and dollars
    Regret(GridArgs),
    /// DuckDB, Polars and DataFusion on the same objects, link and core
    Peers(GridArgs),
    /// A node that is loaded, throttled, refusing or flapping
    Chaos(GridArgs),
    /// Tables over one to eight nodes, each with a slow disk, behind one bus: the figures of Active
    /// Disks; and what a thousand nodes would do
    Disks(DisksArgs),
    /// Whole queries on one process and on several workers, each with a share of a core
    Workers(WorkersArgs),
    /// Figures, regret, peers and chaos, one after the other
    All(GridArgs),
    /// Writes docs/evaluation.md from the records of all of these
    Report(ReportArgs),
    /// Draws records as pictures: RECORD.svg beside each RECORD.csv; needs Python with matplotlib
    Plot(PlotArgs),
    /// Runs a query over TPC-H's tables by plain DataFusion with its own readers, and prints the
    /// number of rows
    Datafusion(PlainArgs),
    /// Runs a proxy that makes a nearby server answer like an object store in the cloud: it delays
    /// each answer and caps the rate of each connection
    Latency(LatencyArgs),
    /// Runs one query of an experiment, read from stdin
    #[command(hide = true)]
    Contestant,
}

/// The arguments that all measurements share.
#[derive(Args, Debug)]
pub struct Common {
    /// The folder for measurements, servers and their data; a run that was interrupted goes on
    /// there [default: experiment-scan for scan, experiments-out for all others]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The folder for tables or objects, which are large and can be used again [default: a folder
    /// in --out]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder for records of the results [default: --out]
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// How often each figure is measured [default: the definition's]
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Only what has one of these names of definitions, conditions, formats, queries (points) or
    /// contestants (series); each further --only narrows that: --only csv,parquet --only q6 --only
    /// node,engine
    #[arg(long, value_name = "NAMES")]
    pub only: Vec<String>,
    /// The program that is measured [default: pushdowndb in the folder of this program]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

impl Common {
    /// Whether `--only` selects an item with these `names`.
    pub fn takes(&self, names: &[&str]) -> bool {
        self.only.iter().all(|group| group.split(',').any(|name| names.contains(&name)))
    }
}

/// Measuring scans.
#[derive(Args, Debug)]
pub struct ScanArgs {
    #[command(flatten)]
    pub common: Common,
    /// The scale of TPC-H [default: the experiment's, 1]
    #[arg(long)]
    pub scale: Option<f64>,
    /// The binary of MinIO [default: the one that .ci/minio built]
    #[arg(long, value_name = "FILE")]
    pub minio: Option<PathBuf>,
    /// Another definition than the one that is built in; experiments/ holds those
    #[arg(long, value_name = "FILE")]
    pub definition: Option<PathBuf>,
}

/// Measuring what is spilled.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb-bench spill                                              to the local disk, with DuckDB beside
  pushdowndb-bench spill --to s3://bucket/spilled --only seed         to a bucket; AWS_* say how to reach it
  pushdowndb-bench spill --scale 1 --runs 1 --only ours,duckdb        a tenth of the data and of the memory")]
pub struct SpillArgs {
    /// The scale of TPC-H
    #[arg(long, default_value_t = 10.0)]
    pub scale: f64,
    /// The memory of the query `seed`, such as 150MB; that of the others changes with it [default:
    /// 15MB times the scale]
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub memory: Option<u64>,
    /// Threads, and partitions of each operator
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// How often each figure is measured
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Where spilled data goes: disk, s3://bucket/prefix, or file:///folder as a store of objects
    #[arg(long, default_value = "disk", value_name = "PLACE")]
    pub to: String,
    /// The folder for what is spilled to disk
    #[arg(long, value_name = "DIR", default_value = "experiment-spill")]
    pub out: PathBuf,
    /// The folder for the tables, which are large and can be used again [default: a folder in
    /// --out]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The folder for the record of the results [default: --out]
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Only queries or contestants with one of these names; each further --only narrows that:
    /// --only seed --only before,ours
    #[arg(long, value_name = "NAMES")]
    pub only: Vec<String>,
    /// The runs that the sort by blocks merges at once; enough of them make it spill rows once
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub fan_in: u32,
    /// Blocks and parts in the ratio to memory that they have at scale 10: a model of that with
    /// little data
    #[arg(long)]
    pub model: bool,
    /// Print the tables as a section of a document
    #[arg(long)]
    pub markdown: bool,
}

/// Parses a size such as `150MB`; KB, MB and GB are powers of 1000.
fn byte_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        other => return Err(format!("unit {other}: B, KB, MB or GB")),
    };
    match digits.parse::<f64>() {
        Ok(count) if count > 0.0 && count.is_finite() => Ok((count * unit) as u64),
        _ => Err("a number above 0 with a unit, such as 150MB".into()),
    }
}

/// Measuring queries through links: a node on the first core, an engine on the second.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb-bench all --estimate                                     how long it takes
  pushdowndb-bench figures --only fig01 --only '40 MB/s' --runs 1     one figure, quickly
  pushdowndb-bench figures --scale 0.01 --loopback                    without root, without caps
  pushdowndb-bench all --budget 60 --record experiments/results       an hour; the next run goes on there

Links with a cap need root, Linux and iproute2; peers need Python with duckdb, polars and pyarrow.
What is missing is left out and named.")]
pub struct GridArgs {
    #[command(flatten)]
    pub common: Common,
    /// Times the scale of each definition
    #[arg(long)]
    pub scale: Option<f64>,
    /// Stop after this number of minutes and write down what is there
    #[arg(long, value_name = "MINUTES")]
    pub budget: Option<f64>,
    /// Say how long it takes, and measure nothing
    #[arg(long)]
    pub estimate: bool,
    /// Use the loopback, and no caps
    #[arg(long)]
    pub loopback: bool,
}

/// Measuring tables over several nodes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb-bench disks                                              measures; needs root, Linux, iproute2
  pushdowndb-bench disks --loopback --scale 0.01 --runs 1             without root, without a bus
  pushdowndb-bench disks --simulate benches/record/DATE-disks.csv     10, 100 and 1000 nodes, on paper")]
pub struct DisksArgs {
    #[command(flatten)]
    pub common: Common,
    /// The scale of TPC-H [default: the experiment's]
    #[arg(long)]
    pub scale: Option<f64>,
    /// Use the loopback, and no bus
    #[arg(long)]
    pub loopback: bool,
    /// Measure nothing: say what more nodes would do, by the rates of this record
    #[arg(long, value_name = "RECORD.csv")]
    pub simulate: Option<PathBuf>,
}

/// Measuring workers.
#[derive(Args, Debug)]
pub struct WorkersArgs {
    #[command(flatten)]
    pub common: Common,
    /// The scale of TPC-H [default: the experiment's]
    #[arg(long)]
    pub scale: Option<f64>,
    /// Let all processes take what they can of the machine
    #[arg(long)]
    pub no_shares: bool,
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

/// Drawing records.
#[derive(Args, Debug)]
pub struct PlotArgs {
    /// The records, such as experiments/results/*.csv
    #[arg(required = true, value_name = "RECORD.csv")]
    pub records: Vec<PathBuf>,
    /// The folder for the pictures [default: that of each record]
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
}

/// A query by DataFusion alone.
#[derive(Args, Debug)]
pub struct PlainArgs {
    /// Where the tables are: a folder or s3://bucket, which the AWS_* variables say how to reach
    #[arg(value_name = "LOCATION")]
    pub location: String,
    /// csv or parquet
    #[arg(value_name = "FORMAT", value_parser = ["csv", "parquet"])]
    pub format: String,
    /// A file with one query
    #[arg(value_name = "QUERY.sql")]
    pub query: PathBuf,
}

/// Delaying answers.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Example:
  pushdowndb serve --store data --listen 127.0.0.1:9000 &
  pushdowndb-bench latency --listen 127.0.0.1:9100 --to 127.0.0.1:9000 &
  pushdowndb --endpoint http://127.0.0.1:9100 -c \"SELECT count(*) FROM 's3://bucket/*.csv'\"")]
pub struct LatencyArgs {
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:9100")]
    pub listen: SocketAddr,
    /// The server
    #[arg(long, default_value = "127.0.0.1:9000")]
    pub to: SocketAddr,
    /// The time before the first byte of each answer
    #[arg(long, default_value = "30ms", value_name = "TIME")]
    pub first: humantime::Duration,
    /// The most megabytes of answers of a connection in a second; 0: no cap
    #[arg(long, default_value_t = 90.0)]
    pub mbps: f64,
}
