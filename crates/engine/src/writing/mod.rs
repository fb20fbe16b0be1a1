//! COPY: writing objects, and keeping or replacing those in the folder.
//!
//! ```text
//! CopyFormat    a format of DataFusion with options for a folder that holds objects
//! folder        FolderSink: lists before it writes, cleans up after it
//! insert        INSERT INTO a table of objects
//! partitions    PARTITIONED BY: the spelling of NULL in a path
//! endpoints     COPY to endpoints of its own
//! csv           CSV that tells NULL from the empty text
//! ```

pub(crate) mod csv;
pub(crate) mod endpoints;
pub(crate) mod existing;
pub(crate) mod folder;
pub(crate) mod insert;
pub(crate) mod partitions;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, GetExt, Result as DfResult, Statistics};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

use crate::error::to_datafusion;
use existing::Existing;
use folder::FolderSink;

/// Replaces the `builder`'s formats by those of this module.
pub(crate) fn take_over(builder: &mut SessionStateBuilder) {
    for format in builder.file_formats().iter_mut().flatten() {
        *format = Arc::new(CopyFormats(Arc::clone(format)));
    }
}

/// Makes a format with the options of a COPY.
#[derive(Debug)]
struct CopyFormats(Arc<dyn FileFormatFactory>);

impl GetExt for CopyFormats {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for CopyFormats {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> DfResult<Arc<dyn FileFormat>> {
        let mut options = options.clone();
        let existing = Existing::taken_from(&mut options).map_err(to_datafusion)?;
        if self.get_ext() == "parquet" {
            give_level(&mut options);
        }
        Ok(Arc::new(CopyFormat { format: self.0.create(state, &options)?, existing }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.0.default()
    }
}

/// Adds the usual level to a compression of Parquet, unless `options` have one.
fn give_level(options: &mut HashMap<String, String>) {
    let level = options.remove("format.compression_level");
    let Some(compression) = options.get_mut("format.compression") else { return };
    let name = compression.to_ascii_lowercase();
    let usual = match name.as_str() {
        "zstd" => "3",
        "gzip" => "6",
        "brotli" => "5",
        _ => return,
    };
    *compression = format!("{name}({})", level.as_deref().unwrap_or(usual));
}

/// A format that COPY writes.
#[derive(Debug)]
struct CopyFormat {
    format: Arc<dyn FileFormat>,
    existing: Existing,
}

#[async_trait]
impl FileFormat for CopyFormat {
    fn get_ext(&self) -> String {
        self.format.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> DfResult<String> {
        self.format.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.format.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> DfResult<SchemaRef> {
        self.format.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DfResult<Statistics> {
        self.format.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.format.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let is_one = config.table_paths.first().is_some_and(|path| config.file_output_mode.single_file_output(path));
        let is_folder = !is_one || !config.table_partition_cols.is_empty();
        let before = match is_folder {
            true => folder::look(state, &config, &self.format.get_ext(), self.existing).await.map_err(to_datafusion)?,
            false => vec![],
        };
        let write = match self.format.downcast_ref::<CsvFormat>() {
            Some(format) => csv::sink(Arc::clone(&input), state, format, config.clone(), order.clone())?,
            None => {
                let plan =
                    self.format.create_writer_physical_plan(Arc::clone(&input), state, config.clone(), order.clone());
                let plan = plan.await?;
                let write = plan.downcast_ref::<DataSinkExec>().cloned();
                write.ok_or_else(|| DataFusionError::Internal("a format that writes without a sink".to_owned()))?
            }
        };
        if !is_folder {
            return Ok(Arc::new(write));
        }
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(FolderSink::new(write, config, before)), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.format.file_source(schema)
    }
}
