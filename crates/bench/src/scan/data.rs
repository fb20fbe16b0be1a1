//! The rows of an experiment as files, generated once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use pushdowndb_datagen::{Destination, Format, Options, generate};

use crate::contestant::DataFormat;

/// A file that holds the table `lineitem`.
#[derive(Clone, Debug)]
pub struct Table {
    pub file: PathBuf,
    /// The number of bytes from which speeds are computed: of the file for Parquet, of the
    /// uncompressed text otherwise.
    pub bytes: u64,
}

/// The folder with the files.
#[derive(Clone, Debug)]
pub struct Data(pub PathBuf);

impl Data {
    /// Returns the table in a format at a scale, and generates it if it is missing.
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
        // `schema.sql` is written last, so if it exists, all files are complete.
        if !folder.join("schema.sql").exists() {
            eprintln!("generating TPC-H at scale {scale} into {}", folder.display());
            let options = Options { scale, format, parts: 1, overwrite: true };
            generate(options, &Destination::folder(&folder)?, |_| {}).await?;
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
