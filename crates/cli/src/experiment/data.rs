//! The rows of an experiment as files: made once, kept in a folder, used again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use pushdowndb_tpchgen::{Format, Options, generate};

use super::definition::DataFormat;
use crate::destination;

/// A file that holds the table `lineitem`.
#[derive(Clone, Debug)]
pub struct Table {
    pub file: PathBuf,
    /// Bytes that speed is told in: of Parquet those of the file, of text those before compression.
    pub bytes: u64,
}

/// The folder of the files.
#[derive(Clone, Debug)]
pub struct Data(pub PathBuf);

impl Data {
    /// The table in a format at a scale, made if it is not there.
    pub async fn lineitem(&self, format: DataFormat, scale: f64) -> Result<Table> {
        let plain = match format {
            DataFormat::Csv | DataFormat::Gzip => Format::Csv,
            DataFormat::Ndjson => Format::Json,
            DataFormat::Parquet => Format::Parquet,
        };
        let name = if format == DataFormat::Gzip { DataFormat::Csv } else { format };
        let file = self.generated(plain, &format!("{name}-{scale}"), scale).await?;
        let bytes = file.metadata()?.len();
        if format != DataFormat::Gzip {
            return Ok(Table { file, bytes });
        }
        let folder = self.0.join(format!("{format}-{scale}"));
        let packed = folder.join("lineitem.csv.gz");
        if !packed.exists() {
            eprintln!("compressing {}", file.display());
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            let part = packed.with_extension("part");
            let mut encoder = GzEncoder::new(File::create(&part)?, Compression::default());
            io::copy(&mut File::open(&file)?, &mut encoder)?;
            encoder.finish()?.sync_all()?;
            fs::rename(part, &packed)?;
        }
        Ok(Table { file: packed, bytes })
    }

    async fn generated(&self, format: Format, name: &str, scale: f64) -> Result<PathBuf> {
        let folder = self.0.join(name);
        // The declarations are written last: with them all files are whole.
        if !folder.join("schema.sql").exists() {
            eprintln!("generating TPC-H at scale {scale} into {}", folder.display());
            let options = Options { scale, format, parts: 1, overwrite: true };
            generate(options, &destination::folder(&folder.to_string_lossy())?, |_| {}).await?;
        }
        only_file(&folder.join("lineitem"))
    }
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries
        .next()
        .with_context(|| format!("{} is empty", folder.display()))?
        .map(|entry| entry.path())
        .map_err(Into::into)
}

/// Reads all files below a folder, so that they are in the page cache.
pub fn warm(path: &Path) -> Result<()> {
    if path.is_file() {
        io::copy(&mut File::open(path)?, &mut io::sink())?;
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        warm(&entry?.path())?;
    }
    Ok(())
}
