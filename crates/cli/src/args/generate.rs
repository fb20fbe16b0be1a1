//! The arguments of `generate`.

use clap::{Args, Subcommand};

use super::ConnectionArgs;

#[derive(Debug, Subcommand)]
pub enum Generate {
    /// The eight TPC-H tables, and schema.sql that declares them
    Tpch(GenerateArgs),
    /// Groups of equal size and of sizes by Zipf's law, with numbers to sum
    Groups(GenerateArgs),
    /// Tables of 1, 10 and 20 columns of doubles
    Floats(GenerateArgs),
}

/// Generating data.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb generate tpch --scale 0.1 --to /tmp/tpch
  pushdowndb generate tpch --scale 10 --format parquet --parts 16 --to s3://bucket/tpch --endpoint http://127.0.0.1:9000

then
  pushdowndb -f /tmp/tpch/schema.sql -c 'SELECT count(*) FROM lineitem'")]
pub struct GenerateArgs {
    /// The scale factor: 1 is about a gigabyte of CSV, of floats three
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// csv, parquet, or json (one object a line)
    #[arg(long, default_value = "csv")]
    pub format: pushdowndb_datagen::Format,
    /// A folder, s3://bucket/prefix or s3://bucket/prefix/@http://host:9000; may be repeated, then the
    /// parts of each table go to the places in turn
    #[arg(long, value_name = "PLACE", required = true)]
    pub to: Vec<String>,
    /// Places that hold each part; with more than one, a manifest of each table says which
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub replicas: usize,
    /// Objects per table
    #[arg(long, default_value_t = 1)]
    pub parts: u32,
    /// Replace tables that are there already
    #[arg(long)]
    pub overwrite: bool,
    /// Make the bucket if it does not exist
    #[arg(long)]
    pub create_bucket: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}
