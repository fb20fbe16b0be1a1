//! Decoding several columns together, in the declared types.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use ::parquet::basic::{Encoding, Type};
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader};
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor, Type as StoredSchema};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use parking_lot::Mutex;
use pushdowndb_contract::Result;

use crate::batch::record_batch;
use crate::parquet::decode::adapt::{Adapter, read_as};
use crate::parquet::errors::explain;
use crate::parquet::meta::nested::Place;
use crate::parquet::meta::schema::parquet_schema;
use crate::parquet::read::page_memory::{PageMemory, dictionary_bytes, too_large};
use crate::parquet::read::pages::Pages;
use crate::parquet::read::selection::Rows;
use crate::runtime::memory::{MemoryBudget, Reservation};

/// The maximum bytes of fixed-width values, including NULLs, and of copies of long dictionary
/// values in a batch, for all columns together. If rows are wider, batches have fewer rows.
pub(crate) const MAX_BATCH_BYTES: usize = 64 << 20;

/// The bytes of a value of unknown size: a string view or a decimal.
const VALUE_BYTES: usize = 16;

/// Minimum number of rows of a batch.
const MIN_ROWS: usize = 64;

/// The columns of a file. Roots are the top-level columns, which have names; leaves are the columns
/// below them that contain the values.
#[derive(Clone, Debug)]
pub(crate) struct FileSchema {
    pub(crate) schema: SchemaRef,
    /// The metadata of the file, as if it had a single row group.
    one: Arc<ParquetMetaData>,
    /// The index of the first root with each name.
    roots: HashMap<String, usize>,
    /// The indexes of the leaves of each root.
    leaves: Vec<Range<usize>>,
}

impl FileSchema {
    pub(crate) fn new(location: &str, metadata: &ParquetMetaData) -> Result<Self> {
        let (file, schema) = (metadata.file_metadata(), parquet_schema(location, metadata)?);
        let first = metadata.row_groups().iter().take(1).cloned().collect();
        let mut roots = HashMap::with_capacity(schema.fields().len());
        for (root, field) in schema.fields().iter().enumerate() {
            roots.entry(field.name().clone()).or_insert(root);
        }
        let stored = file.schema_descr();
        let mut leaves = vec![0..0; schema.fields().len()];
        for leaf in 0..stored.num_columns() {
            if let Some(of_root) = leaves.get_mut(stored.get_column_root_idx(leaf)) {
                let start = if of_root.end == 0 { leaf } else { of_root.start };
                *of_root = start..leaf + 1;
            }
        }
        let one = Arc::new(ParquetMetaData::new(file.clone(), first));
        Ok(Self { schema: Arc::new(schema), one, roots, leaves })
    }

    /// Returns the root called `name`, in constant time.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.schema.fields().get(*self.roots.get(name)?).map(AsRef::as_ref)
    }

    /// Returns the `declared` columns of a `table` under their names in this file. A name that the
    /// file does not have is replaced by the only name that differs from it in case alone, unless
    /// that is another column of the table.
    pub(crate) fn named(&self, declared: &SchemaRef, table: &Schema) -> SchemaRef {
        let is_missing = |field: &Field| Place::is_root(field) && !self.roots.contains_key(field.name());
        if !declared.fields().iter().any(|field| is_missing(field)) {
            return Arc::clone(declared);
        }
        let own = |field: &FieldRef| {
            let name = field.name().to_lowercase();
            let is_like =
                |own: &&FieldRef| own.name().to_lowercase() == name && table.column_with_name(own.name()).is_none();
            let mut alike = self.schema.fields().iter().filter(is_like);
            match alike.next().filter(|_| is_missing(field) && alike.next().is_none()) {
                Some(own) => Arc::new(field.as_ref().clone().with_name(own.name())),
                None => Arc::clone(field),
            }
        };
        Arc::new(Schema::new(declared.fields().iter().map(own).collect::<Vec<_>>()))
    }

    /// Returns the schema of only these roots, both as a Parquet and as an Arrow schema.
    fn project(&self, roots: &[usize]) -> ParquetResult<(SchemaDescriptor, Fields)> {
        let whole = self.one.file_metadata().schema_descr().root_schema();
        let stored = roots.iter().filter_map(|root| whole.get_fields().get(*root)).cloned().collect();
        let stored = StoredSchema::group_type_builder(whole.name()).with_fields(stored).build()?;
        let fields = roots.iter().filter_map(|root| self.schema.fields().get(*root)).cloned().collect();
        Ok((SchemaDescriptor::new(Arc::new(stored)), fields))
    }
}

/// Columns that are decoded together.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    adapter: Adapter,
    /// The levels in the schema of only `leaves`.
    levels: FieldLevels,
    one: Arc<ParquetMetaData>,
    /// Leaf indexes of the columns.
    pub(crate) leaves: Vec<usize>,
    /// The bytes of fixed-width values in a row.
    width: usize,
}

impl Columns {
    /// Creates a decoder for the columns of `declared`. Takes time proportional to their number,
    /// not to the number of the file's columns: a scan has a decoder for each column, and a file
    /// may have thousands of columns.
    pub(crate) fn new(location: &str, declared: SchemaRef, file: &FileSchema) -> Result<Self> {
        let adapter = Adapter::new(location, declared);
        let mut roots = adapter.roots(|name| file.roots.get(name).copied());
        roots.sort_unstable();
        roots.dedup();
        let (stored, fields) = file.project(&roots).map_err(|error| explain(location, error))?;
        let levels = |hint: Option<&Fields>| parquet_to_arrow_field_levels(&stored, ProjectionMask::all(), hint);
        let levels = levels(Some(&read_as(&fields, adapter.schema())))
            // If the reader does not accept the layout of some column, other layouts are tried, and
            // columns are cast.
            .or_else(|_| levels(Some(&read_as(&fields, &Schema::new(fields.clone())))))
            .or_else(|_| levels(None))
            .map_err(|error| explain(location, error))?;
        let leaves: Vec<usize> = roots.iter().filter_map(|root| file.leaves.get(*root).cloned()).flatten().collect();
        let width = |column: &ColumnDescPtr| {
            let own = usize::try_from(column.type_length()).unwrap_or_default();
            if column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY { own.max(VALUE_BYTES) } else { VALUE_BYTES }
        };
        let width = stored.columns().iter().map(width).sum();
        Ok(Self { adapter, levels, one: Arc::clone(&file.one), leaves, width })
    }

    pub(crate) fn descriptor(&self, leaf: usize) -> ColumnDescPtr {
        self.one.file_metadata().schema_descr().column(leaf)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.adapter.schema()
    }

    /// Decodes the selected `rows` of a row group, about `batch_rows` at a time. The memory of
    /// batches is reserved in `memory`.
    pub(crate) fn decode(
        &self,
        pages: Vec<(usize, Pages)>,
        rows: &Rows,
        batch_rows: usize,
        memory: &PageMemory,
    ) -> Result<Batches> {
        let longest = pages.iter().map(|(_, pages)| pages.longest).fold(0, usize::saturating_add);
        let row = longest.saturating_add(self.width).max(1);
        let mut batch_rows = batch_rows.min(MAX_BATCH_BYTES / row).max(1);
        // Memory for the rows as decoded, and in the declared types.
        let of_batch = loop {
            match memory.budget().try_reserve(row.saturating_mul(batch_rows.min(rows.len())).saturating_mul(2)) {
                Ok(reserved) => break reserved,
                Err(_) if batch_rows > MIN_ROWS => batch_rows = (batch_rows / 2).max(MIN_ROWS),
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

    /// Decodes a dictionary page of the only column. Returns its values in order, and their memory
    /// reservation.
    pub(crate) fn decode_dictionary(
        &self,
        dictionary: &Page,
        memory: &MemoryBudget,
    ) -> Result<Option<(RecordBatch, Reservation)>> {
        // Memory for a copy of the page, and for the values.
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
        let leaves = self.leaves.clone();
        let group: Arc<dyn FileReader> =
            Arc::new(OneGroup { metadata: Arc::clone(&self.one), leaves, pages: Mutex::new(pages) });
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, batch_rows, rows.selection())
                .map_err(|error| explain(self.adapter.location(), error))?;
        let source = Source::Reader(Box::new(reader));
        Ok(Batches { adapter: self.adapter.clone(), source, batch_rows, memory: None })
    }
}

/// The decoded rows of a row group, as batches.
#[derive(Debug)]
pub(crate) struct Batches {
    adapter: Adapter,
    source: Source,
    batch_rows: usize,
    memory: Option<BatchMemory>,
}

/// Memory that is reserved for a batch.
#[derive(Debug)]
struct BatchMemory {
    /// For values of known width.
    _of_batch: Reservation,
    /// For values whose width is known only when their pages are read.
    of_values: Arc<Reservation>,
    pages: PageMemory,
}

enum Source {
    Reader(Box<ParquetRecordBatchReader>),
    /// The number of remaining rows, if the file has none of the columns.
    Absent(usize),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl Batches {
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(memory) = &self.memory {
            // The previous batch has been dropped, or the rest of its memory is reserved elsewhere.
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

/// Presents a row group as a file with a single row group. Each column can be taken once.
struct OneGroup {
    metadata: Arc<ParquetMetaData>,
    /// The indexes of the decoded leaves in the file. The library numbers these leaves from zero.
    leaves: Vec<usize>,
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
        let leaf = self.0.leaves.get(leaf);
        let mut pages = self.0.pages.lock();
        let place = pages.iter().position(|(own, _)| Some(own) == leaf);
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

/// Builds a data page without NULLs from these values, which are encoded as in a dictionary page.
fn plain_page(column: &ColumnDescriptor, values: &Bytes, count: u32) -> Page {
    let mut buffer = Vec::new();
    if column.max_def_level() > 0 {
        // A single run of ones.
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

/// A reader of a column chunk with a single page.
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
