//! Columns of a file that are decoded together, in the types that a table declares.

use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use ::parquet::basic::Type;
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::PageReader;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader};
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::Type as StoredSchema;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use pushdown::Result;

use super::adapt::{Adapter, read_as};
use super::errors::explain;
use super::pages::Pages;
use super::selection::Rows;
use crate::output::record_batch;

/// Values of fixed width, NULLs among them, and copies of one long value of a dictionary take at most so many bytes
/// of a batch: it has fewer rows where they are that wide.
const BATCH_BYTES: usize = 256 << 20;

/// Columns that are decoded together.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    adapter: Adapter,
    levels: FieldLevels,
    metadata: Arc<ParquetMetaData>,
    /// The columns of the file, by their place among all leaves of its schema.
    pub(super) leaves: Vec<usize>,
    /// The widest value of fixed width.
    width: usize,
}

impl Columns {
    /// The columns of `declared`, of a file with the schema `file`.
    pub(super) fn new(location: &str, declared: SchemaRef, file: &Schema, metadata: &ParquetMetaData) -> Result<Self> {
        let stored = metadata.file_metadata().schema_descr();
        let adapter = Adapter::new(location, declared);
        let mask = ProjectionMask::roots(stored, adapter.columns(file));
        let hint = read_as(file, adapter.schema());
        let levels = parquet_to_arrow_field_levels(stored, mask.clone(), Some(hint.fields()))
            // A layout the reader does not take for some column is no error: columns are cast then.
            .or_else(|_| parquet_to_arrow_field_levels(stored, mask.clone(), Some(read_as(file, file).fields())))
            .or_else(|_| parquet_to_arrow_field_levels(stored, mask.clone(), None))
            .map_err(|error| explain(location, error))?;
        let leaves: Vec<usize> = (0..stored.num_columns()).filter(|leaf| mask.leaf_included(*leaf)).collect();
        let widths = leaves.iter().map(|leaf| stored.column(*leaf));
        let widths = widths.filter(|column| column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY);
        let width = widths.map(|column| usize::try_from(column.type_length()).unwrap_or_default()).max();
        let metadata = Arc::new(cut_to_one(metadata));
        Ok(Self { adapter, levels, metadata, leaves, width: width.unwrap_or(0) })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.adapter.schema()
    }

    /// Decodes these rows of a row group, about `batch_rows` at a time.
    pub(super) fn decode(&self, pages: Vec<(usize, Pages)>, rows: &Rows, batch_rows: usize) -> Result<Batches> {
        if self.leaves.is_empty() {
            return Ok(Batches { adapter: self.adapter.clone(), source: Source::Absent(rows.len()), batch_rows });
        }
        let longest = pages.iter().map(|(_, pages)| pages.longest).max().unwrap_or(0);
        let batch_rows = batch_rows.min(BATCH_BYTES / longest.max(self.width).max(1)).max(1);
        let group: Arc<dyn FileReader> =
            Arc::new(OneGroup { metadata: Arc::clone(&self.metadata), pages: Mutex::new(pages) });
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, batch_rows, rows.selection())
                .map_err(|error| explain(self.adapter.location(), error))?;
        Ok(Batches { adapter: self.adapter.clone(), source: Source::Reader(Box::new(reader)), batch_rows })
    }
}

/// Rows of a row group on their way out of the decoders.
#[derive(Debug)]
pub(super) struct Batches {
    adapter: Adapter,
    source: Source,
    batch_rows: usize,
}

enum Source {
    Reader(Box<ParquetRecordBatchReader>),
    /// So many rows are left, of columns that the file does not have.
    Absent(usize),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl Batches {
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match &mut self.source {
            Source::Reader(reader) => match reader.next() {
                Some(batch) => {
                    batch.map_err(|error| explain(self.adapter.location(), ParquetError::External(Box::new(error))))?
                }
                None => return Ok(None),
            },
            Source::Absent(0) => return Ok(None),
            Source::Absent(left) => {
                let rows = self.batch_rows.min(*left);
                *left -= rows;
                record_batch(&Arc::new(Schema::empty()), Vec::new(), rows)?
            }
        };
        self.adapter.adapt(&batch).map(Some)
    }
}

/// A row group as the library takes it: as a file of one row group. Each column is taken once.
struct OneGroup {
    metadata: Arc<ParquetMetaData>,
    pages: Mutex<Vec<(usize, Pages)>>,
}

/// The only row group.
struct Group<'a>(&'a OneGroup, &'a RowGroupMetaData);

fn no_rows<T>() -> ParquetResult<T> {
    Err(ParquetError::NYI("reading row by row".into()))
}

impl FileReader for OneGroup {
    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    fn num_row_groups(&self) -> usize {
        1
    }

    fn get_row_group(&self, _: usize) -> ParquetResult<Box<dyn RowGroupReader + '_>> {
        let group = self.metadata.row_groups().first();
        let group = group.ok_or_else(|| ParquetError::General("a file without row groups".into()))?;
        Ok(Box::new(Group(self, group)))
    }

    fn get_row_iter(&self, _: Option<StoredSchema>) -> ParquetResult<RowIter<'_>> {
        no_rows()
    }
}

impl RowGroupReader for Group<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.1
    }

    fn num_columns(&self) -> usize {
        self.1.num_columns()
    }

    fn get_column_page_reader(&self, leaf: usize) -> ParquetResult<Box<dyn PageReader>> {
        let mut pages = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pages.iter().position(|(own, _)| *own == leaf);
        let own = place.map(|place| pages.swap_remove(place).1);
        own.map(|pages| Box::new(pages) as Box<dyn PageReader>)
            .ok_or_else(|| ParquetError::General("a column that was not fetched".into()))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, _: Option<StoredSchema>) -> ParquetResult<RowIter<'_>> {
        no_rows()
    }
}

/// The file as if it had one row group only.
fn cut_to_one(metadata: &ParquetMetaData) -> ParquetMetaData {
    let first = metadata.row_groups().iter().take(1).cloned().collect();
    ParquetMetaData::new(metadata.file_metadata().clone(), first)
}
