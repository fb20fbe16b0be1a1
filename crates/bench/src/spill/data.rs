//! The tables, generated once as Parquet.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pushdowndb_datagen::{Destination, Format, Options, generate};

/// The objects of a table: enough for every thread to begin with one.
const PARTS: u32 = 6;

/// The tables that queries read.
pub const TABLES: [&str; 3] = ["customer", "orders", "lineitem"];

/// The folder of TPC-H's tables at a `scale`, one folder each, below `data`.
pub async fn tables(data: &Path, scale: f64) -> Result<PathBuf> {
    let folder = data.join(format!("parquet-{scale}"));
    // The declarations are written last: with them all files are whole.
    if !folder.join("schema.sql").exists() {
        eprintln!("generating TPC-H at scale {scale} into {}", folder.display());
        let options = Options { scale, format: Format::Parquet, parts: PARTS, overwrite: true };
        generate(options, &Destination::folder(&folder)?, |_| {}).await?;
    }
    Ok(std::path::absolute(folder)?)
}
