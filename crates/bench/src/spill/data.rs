//! The tables, generated once as Parquet.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pushdowndb_datagen::{Destination, Format, Options, generate};

/// The number of objects per table: enough for every thread to start with one.
const PARTS: u32 = 6;

/// The tables that queries read.
pub const TABLES: [&str; 3] = ["customer", "orders", "lineitem"];

/// Returns the folder below `data` with TPC-H's tables at a `scale`, one subfolder each, and
/// generates them if they are missing.
pub async fn tables(data: &Path, scale: f64) -> Result<PathBuf> {
    let folder = data.join(format!("parquet-{scale}"));
    // `schema.sql` is written last, so if it exists, all files are complete.
    if !folder.join("schema.sql").exists() {
        eprintln!("generating TPC-H at scale {scale} into {}", folder.display());
        let options = Options { scale, format: Format::Parquet, parts: PARTS, overwrite: true };
        generate(options, &Destination::folder(&folder)?, |_| {}).await?;
    }
    Ok(std::path::absolute(folder)?)
}
