//! Columns of a file that are decoded together, in the types that a table declares.

use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use ::parquet::basic::{Encoding, Type};
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader};
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, Type as StoredSchema};
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use pushdown::Result;

use super::adapt::{Adapter, read_as};
use super::errors::explain;
use super::pages::Pages;
use super::schema::parquet_schema;
use super::selection::Rows;
use crate::output::record_batch;

/// Values of fixed width, NULLs among them, and copies of one long value of a dictionary take at most so many bytes
/// of a batch: it has fewer rows where they are that wide.
pub(super) const BATCH_BYTES: usize = 256 << 20;

/// What a file says of its columns.
#[derive(Clone, Debug)]
pub(super) struct FileSchema {
    pub(super) schema: SchemaRef,
    /// The file as if it had one row group only.
    one: Arc<ParquetMetaData>,
}

impl FileSchema {
    pub(super) fn new(location: &str, metadata: &ParquetMetaData) -> Result<Self> {
        let (file, schema) = (metadata.file_metadata(), parquet_schema(location, metadata)?);
        let first = metadata.row_groups().iter().take(1).cloned().collect();
        Ok(Self { schema: Arc::new(schema), one: Arc::new(ParquetMetaData::new(file.clone(), first)) })
    }
}

/// Columns that are decoded together.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    adapter: Adapter,
    levels: FieldLevels,
    one: Arc<ParquetMetaData>,
    /// The columns of the file, by their place among all leaves of its schema.
    pub(super) leaves: Vec<usize>,
    /// The widest value of fixed width.
    width: usize,
}

impl Columns {
    /// The columns of `declared`.
    pub(super) fn new(location: &str, declared: SchemaRef, file: &FileSchema) -> Result<Self> {
        let (FileSchema { schema: file, one }, stored) = (file, file.one.file_metadata().schema_descr());
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
        Ok(Self { adapter, levels, one: Arc::clone(one), leaves, width: width.unwrap_or(0) })
    }

    /// The column of the file at this place among all leaves.
    pub(super) fn descriptor(&self, leaf: usize) -> ColumnDescPtr {
        self.one.file_metadata().schema_descr().column(leaf)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.adapter.schema()
    }

    /// Decodes these rows of a row group, about `batch_rows` at a time.
    pub(super) fn decode(&self, pages: Vec<(usize, Pages)>, rows: &Rows, batch_rows: usize) -> Result<Batches> {
        let longest = pages.iter().map(|(_, pages)| pages.longest).max().unwrap_or(0);
        let batch_rows = batch_rows.min(BATCH_BYTES / longest.max(self.width).max(1)).max(1);
        let pages = pages.into_iter().map(|(leaf, pages)| (leaf, Box::new(pages) as Box<dyn PageReader>));
        self.decode_pages(pages.collect(), rows, batch_rows)
    }

    /// The values of a dictionary of the only column, in order.
    pub(super) fn decode_dictionary(&self, dictionary: &Page) -> Result<Option<RecordBatch>> {
        let (Page::DictionaryPage { buf, num_values, .. }, [leaf]) = (dictionary, self.leaves.as_slice()) else {
            return Ok(None);
        };
        let values = *num_values as usize;
        let page = OnePage(Some(plain_page(&self.descriptor(*leaf), buf, *num_values)));
        let pages = vec![(*leaf, Box::new(page) as Box<dyn PageReader>)];
        let batch = self.decode_pages(pages, &Rows::all(values), values.max(1))?.next()?;
        Ok(batch.filter(|batch| batch.num_rows() == values))
    }

    fn decode_pages(
        &self,
        pages: Vec<(usize, Box<dyn PageReader>)>,
        rows: &Rows,
        batch_rows: usize,
    ) -> Result<Batches> {
        if self.leaves.is_empty() {
            return Ok(Batches { adapter: self.adapter.clone(), source: Source::Absent(rows.len()), batch_rows });
        }
        let group: Arc<dyn FileReader> =
            Arc::new(OneGroup { metadata: Arc::clone(&self.one), pages: Mutex::new(pages) });
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
    pages: Mutex<Vec<(usize, Box<dyn PageReader>)>>,
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
        own.ok_or_else(|| ParquetError::General("a column that was not fetched".into()))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, _: Option<StoredSchema>) -> ParquetResult<RowIter<'_>> {
        no_rows()
    }
}

/// A page of these values, which are written as those of a dictionary are, none of them NULL.
fn plain_page(column: &ColumnDescriptor, values: &Bytes, count: u32) -> Page {
    let mut buffer = Vec::new();
    if column.max_def_level() > 0 {
        // One run of ones.
        let mut header = u64::from(count) << 1;
        while header >= 0x80 {
            buffer.push(header as u8 | 0x80);
            header >>= 7;
        }
        buffer.extend([header as u8, 1]);
    }
    let levels = buffer.len() as u32;
    buffer.extend_from_slice(values);
    Page::DataPageV2 {
        buf: buffer.into(),
        num_values: count,
        encoding: Encoding::PLAIN,
        num_nulls: 0,
        num_rows: count,
        def_levels_byte_len: levels,
        rep_levels_byte_len: 0,
        is_compressed: false,
        statistics: None,
    }
}

/// A column chunk of one page.
struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        let rows = |page: &Page| page.num_values() as usize;
        Ok(self.0.as_ref().map(|page| PageMetadata { num_rows: Some(rows(page)), num_levels: None, is_dict: false }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0 = None;
        Ok(())
    }
}
