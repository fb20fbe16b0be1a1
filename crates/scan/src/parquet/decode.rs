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
use super::page_memory::{PageMemory, too_large};
use super::pages::{Pages, dictionary_bytes};
use super::schema::parquet_schema;
use super::selection::Rows;
use crate::output::record_batch;
use crate::{MemoryBudget, Reservation};

/// Values of fixed width, NULLs among them, and copies of long values of dictionaries take at most so many bytes of a batch,
/// all columns together: it has fewer rows where they are that wide.
pub(super) const BATCH_BYTES: usize = 64 << 20;

/// What a value takes where no dictionary and no type says more: a view of a text, or a decimal.
const VALUE_BYTES: usize = 16;

/// A batch has at least so many rows, if there are as many.
const LEAST_ROWS: usize = 64;

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
    /// What a row takes of fixed width.
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
        let width = |leaf: &usize| {
            let column = stored.column(*leaf);
            let own = usize::try_from(column.type_length()).unwrap_or_default();
            if column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY { own.max(VALUE_BYTES) } else { VALUE_BYTES }
        };
        let width = leaves.iter().map(width).sum();
        Ok(Self { adapter, levels, one: Arc::clone(one), leaves, width })
    }

    /// The column of the file at this place among all leaves.
    pub(super) fn descriptor(&self, leaf: usize) -> ColumnDescPtr {
        self.one.file_metadata().schema_descr().column(leaf)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.adapter.schema()
    }

    /// Decodes these rows of a row group, about `batch_rows` at a time. What a batch takes is drawn from `memory`.
    pub(super) fn decode(
        &self,
        pages: Vec<(usize, Pages)>,
        rows: &Rows,
        batch_rows: usize,
        memory: &PageMemory,
    ) -> Result<Batches> {
        let longest = pages.iter().map(|(_, pages)| pages.longest).fold(0, usize::saturating_add);
        let row = longest.saturating_add(self.width).max(1);
        let mut batch_rows = batch_rows.min(BATCH_BYTES / row).max(1);
        // As decoded, and in the types that are declared.
        let of_batch = loop {
            match memory.budget().try_reserve(row.saturating_mul(batch_rows.min(rows.len())).saturating_mul(2)) {
                Ok(reserved) => break reserved,
                Err(_) if batch_rows > LEAST_ROWS => batch_rows = (batch_rows / 2).max(LEAST_ROWS),
                Err(shortage) => return Err(explain(self.adapter.location(), too_large(shortage))),
            }
        };
        let of_values = Arc::new(memory.budget().empty());
        let pages = pages.into_iter().map(|(leaf, pages)| {
            let pages = pages.sharing(&of_values);
            (leaf, Box::new(pages) as Box<dyn PageReader>)
        });
        let batches = self.decode_pages(pages.collect(), rows, batch_rows)?;
        let memory = Some(BatchMemory { _of_batch: of_batch, of_values, pages: memory.clone() });
        Ok(Batches { memory, ..batches })
    }

    /// The values of a dictionary of the only column, in order, and what is reserved for them.
    pub(super) fn decode_dictionary(
        &self,
        dictionary: &Page,
        memory: &MemoryBudget,
    ) -> Result<Option<(RecordBatch, Reservation)>> {
        // A copy of the page, and the values.
        let copies = dictionary.buffer().len().saturating_add(dictionary_bytes(dictionary));
        let reserved = memory.try_reserve(copies);
        let reserved = reserved.map_err(|shortage| explain(self.adapter.location(), too_large(shortage)))?;
        let (Page::DictionaryPage { buf, num_values, .. }, [leaf]) = (dictionary, self.leaves.as_slice()) else {
            return Ok(None);
        };
        let values = *num_values as usize;
        let page = OnePage(Some(plain_page(&self.descriptor(*leaf), buf, *num_values)));
        let pages = vec![(*leaf, Box::new(page) as Box<dyn PageReader>)];
        let batch = self.decode_pages(pages, &Rows::all(values), values.max(1))?.next()?;
        Ok(batch.filter(|batch| batch.num_rows() == values).map(|batch| (batch, reserved)))
    }

    fn decode_pages(
        &self,
        pages: Vec<(usize, Box<dyn PageReader>)>,
        rows: &Rows,
        batch_rows: usize,
    ) -> Result<Batches> {
        if self.leaves.is_empty() {
            let source = Source::Absent(rows.len());
            return Ok(Batches { adapter: self.adapter.clone(), source, batch_rows, memory: None });
        }
        let group: Arc<dyn FileReader> =
            Arc::new(OneGroup { metadata: Arc::clone(&self.one), pages: Mutex::new(pages) });
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, batch_rows, rows.selection())
                .map_err(|error| explain(self.adapter.location(), error))?;
        let source = Source::Reader(Box::new(reader));
        Ok(Batches { adapter: self.adapter.clone(), source, batch_rows, memory: None })
    }
}

/// Rows of a row group on their way out of the decoders.
#[derive(Debug)]
pub(super) struct Batches {
    adapter: Adapter,
    source: Source,
    batch_rows: usize,
    memory: Option<BatchMemory>,
}

/// What a batch takes.
#[derive(Debug)]
struct BatchMemory {
    /// For values whose width is known before.
    _of_batch: Reservation,
    /// For those that pages turn out to have.
    of_values: Arc<Reservation>,
    pages: PageMemory,
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
        if let Some(memory) = &self.memory {
            // The batch before is gone, or others have reserved what is left of it.
            memory.of_values.shrink(usize::MAX);
        }
        let batch = match &mut self.source {
            Source::Reader(reader) => match reader.next() {
                Some(batch) => batch.map_err(|error| {
                    let refusal = self.memory.as_ref().and_then(|memory| memory.pages.refusal());
                    let error = refusal.unwrap_or_else(|| ParquetError::External(Box::new(error)));
                    explain(self.adapter.location(), error)
                })?,
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
