//! The rows of a table in memory, in a Parquet file beside the catalog file.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind as Io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::file::{CatalogFile, private};

/// The file of a table's rows. It is replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct KeptRows {
    path: PathBuf,
    table: String,
}

impl KeptRows {
    /// Returns the file with the rows of `table`, a table in memory of this catalog.
    pub(crate) fn of(catalog: &CatalogFile, table: &str) -> Self {
        let name = utf8_percent_encode(table, NON_ALPHANUMERIC);
        Self { path: catalog.rows_folder().join(format!("{name}.parquet")), table: table.to_owned() }
    }

    /// Returns the statement that the catalog file shows to its readers: it creates the table from
    /// its rows.
    pub(crate) fn statement(&self) -> String {
        let (name, path) = (self.table.replace('"', "\"\""), self.path.display().to_string().replace('\'', "''"));
        format!("CREATE TABLE \"{name}\" AS SELECT * FROM '{path}'")
    }

    /// Writes all rows.
    pub(crate) async fn write(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<()> {
        let kept = self.clone();
        let written = tokio::task::spawn_blocking(move || kept.replace(&schema, &rows));
        written.await.map_err(|error| Error::internal("writing a table in memory").with_source(error))?
    }

    /// Reads all rows.
    pub(crate) async fn read(&self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let kept = self.clone();
        let read = tokio::task::spawn_blocking(move || kept.load());
        read.await.map_err(|error| Error::internal("reading a table in memory").with_source(error))?
    }

    /// Removes the file.
    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != Io::NotFound => Err(self.failed("cannot be removed", error)),
            _ => Ok(()),
        }
    }

    fn replace(&self, schema: &SchemaRef, rows: &[RecordBatch]) -> Result<()> {
        let failed = |error| self.failed("cannot be written", error);
        let folder = self.path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder).map_err(failed)?;
        let draft = self.path.with_extension("new");
        let file = private(OpenOptions::new().create(true).truncate(true).write(true)).open(&draft).map_err(failed)?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let written = (|| {
            let mut writer = ArrowWriter::try_new(&file, Arc::clone(schema), Some(properties))?;
            rows.iter().try_for_each(|batch| writer.write(batch))?;
            writer.close()
        })();
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(Error::unsupported(format!("the rows of {} cannot be kept: {error}", self.table)));
        }
        file.sync_all().map_err(failed)?;
        fs::rename(&draft, &self.path).map_err(failed)
    }

    fn load(&self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let file = File::open(&self.path).map_err(|error| self.failed("cannot be read", error))?;
        let damaged = |error: &dyn std::fmt::Display| {
            let message = format!("{}: {error}; DROP TABLE {} forgets it", self.path.display(), self.table);
            Error::new(ErrorKind::Corrupt, message)
        };
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
        let schema = Arc::clone(reader.schema());
        let reader = reader.build().map_err(|error| damaged(&error))?;
        let rows = reader.collect::<std::result::Result<_, _>>().map_err(|error| damaged(&error))?;
        Ok((schema, rows))
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        let kind = match error.kind() {
            Io::PermissionDenied => ErrorKind::Denied,
            Io::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        let message = format!("the rows of table {} in {} {what}", self.table, self.path.display());
        Error::new(kind, message).with_source(error)
    }
}
