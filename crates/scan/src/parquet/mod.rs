//! Parquet: typed columns by name, read row group by row group.
//!
//! Row groups that statistics rule out are not read. Of the others, the predicate's columns are decoded first and
//! the rest only where rows pass, if that rest is most of what is read; otherwise skipping through pages costs more
//! than decoding them, and all columns are decoded before the rows are filtered. Where only the first rows of an order are
//! wanted, most do not pass: their key is always decoded first.

mod adapt;
mod ahead;
mod chunks;
mod depth;
mod nested;
mod prune;
mod rows;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, RowFilter,
};
use ::parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use futures::FutureExt;
use pushdown::{Error, ErrorKind, Expr, Result};

use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::limits::FOOTER_BYTES;
use crate::output::map_columns;
use crate::positions::{Extent, joined};
use crate::top_k::FirstRows;
use crate::{ObjectReader, ScanCounters, ScanOptions, Spawner};
use adapt::{Adapter, with_declared_text};
use ahead::RowGroups;
use chunks::Chunks;
pub use chunks::parquet_metadata;
use nested::Place;
pub use prune::bounds_match;

/// Which rows are wanted, over the columns that are read.
pub(crate) struct Wanted {
    pub(crate) predicate: Option<Expr>,
    pub(crate) first: Option<FirstRows>,
}

/// A scan of a Parquet object: the rows that pass, as the output's columns.
pub(crate) struct ParquetScan {
    reader: Arc<dyn ObjectReader>,
    /// All columns that are read, as declared.
    schema: SchemaRef,
    predicate: Option<Expr>,
    first: Option<FirstRows>,
    /// The columns that come out, by their index in `schema`.
    columns: Vec<usize>,
    output: Adapter,
    /// The predicate, where it is evaluated on whole batches of all columns.
    filter: Option<Evaluator>,
    range: Option<Range<u64>>,
    /// The only rows that are read, by number, ascending.
    only: Option<Vec<Range<u64>>>,
    /// Where the next row lies, if that is asked for: its number.
    position: Option<u64>,
    batch_rows: usize,
    row_group_bytes: u64,
    counters: Arc<ScanCounters>,
    rows: Option<RowGroups>,
    spawner: Spawner,
    /// What went wrong inside the Parquet reader, which would pass on only its text.
    failed: Failure,
}

/// An error on its way past a library that keeps only the text of errors.
type Failure = Arc<Mutex<Option<Error>>>;

impl ParquetScan {
    /// `columns` are the indexes in `schema` of those that come out.
    pub(crate) fn new(
        schema: &SchemaRef,
        wanted: Wanted,
        columns: &[usize],
        reader: Arc<dyn ObjectReader>,
        extent: &Extent,
        options: &ScanOptions,
        counters: Arc<ScanCounters>,
    ) -> Result<Self> {
        let Wanted { predicate, first } = wanted;
        if let Some(predicate) = &predicate {
            // Refused before anything is read.
            Evaluator::predicate(predicate, schema)?;
        }
        let output = Adapter::new(reader.location(), Arc::new(schema.project(columns).map_err(from_arrow)?));
        Ok(Self {
            reader,
            schema: Arc::clone(schema),
            predicate,
            first,
            columns: columns.to_vec(),
            output,
            filter: None,
            range: extent.range(),
            only: extent.parts().map(joined),
            position: extent.has_positions().then_some(0),
            batch_rows: options.batch_rows.max(1),
            row_group_bytes: options.row_group_bytes,
            counters,
            rows: None,
            spawner: options.spawner.clone(),
            failed: Failure::default(),
        })
    }

    /// The next rows that pass.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        // The Parquet library panics on some damaged files (on an embedded schema, for one). Nothing is used after
        // a panic: the scan ends with this error.
        match AssertUnwindSafe(self.advance()).catch_unwind().await {
            Ok(rows) => rows,
            Err(_) => Err(self.contradiction()),
        }
    }

    async fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows.is_none() {
            self.rows = Some(self.open().await?);
        }
        while let Some(rows) = &mut self.rows {
            match rows.next().await {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => {
                    let batch = self.output.adapt(&batch)?;
                    if let Some(next) = &mut self.position {
                        return rows::numbered(&batch, next).map(Some);
                    }
                    let Some(filter) = &self.filter else { return Ok(Some(batch)) };
                    let batch = filter.filter(&batch)?.project(&self.columns).map_err(from_arrow)?;
                    if batch.num_rows() > 0 {
                        return Ok(Some(batch));
                    }
                }
                Err(error) => return Err(self.error(error)),
                Ok(None) => break,
            }
        }
        Ok(None)
    }

    async fn open(&mut self) -> Result<RowGroups> {
        let mut metadata = Arc::new(parquet_metadata(&*self.reader, FOOTER_BYTES).await?);
        if self.only.is_some() {
            metadata = rows::with_pages(metadata, &self.reader, &self.counters).await.map_err(|e| self.error(e))?;
        }
        let arrow = self.arrow_metadata(&metadata)?;
        let groups = self.row_groups(&metadata, &arrow)?;
        let (groups, selection) = match &self.only {
            None => (groups, None),
            Some(only) => rows::select(only, &metadata, &groups),
        };
        self.check_sizes(&metadata, &groups)?;
        let rows: i64 =
            groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(RowGroupMetaData::num_rows).sum();
        self.counters.rows_scanned.fetch_add(u64::try_from(rows).unwrap_or_default(), Ordering::Relaxed);
        self.counters.row_groups_scanned.fetch_add(groups.len() as u64, Ordering::Relaxed);

        let mask = |columns: Vec<usize>| ProjectionMask::roots(arrow.parquet_schema(), columns);
        let tested = self.tested_columns();
        let filter = match &self.predicate {
            None if self.first.is_none() => None,
            Some(predicate) if self.first.is_none() && !self.is_mostly_output(&tested, &metadata) => {
                self.filter = Some(Evaluator::predicate(predicate, &self.schema)?);
                self.output = Adapter::new(self.reader.location(), Arc::clone(&self.schema));
                None
            }
            _ => Some(self.row_filter(&tested, &arrow, mask)?),
        };
        let columns = self.output.columns(arrow.schema());
        let output = mask(columns);
        let chunks = Chunks {
            reader: Arc::clone(&self.reader),
            metadata: Arc::clone(&metadata),
            counters: Arc::clone(&self.counters),
        };
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(chunks, arrow)
            .with_projection(output)
            .with_row_groups(groups)
            .with_batch_size(self.batch_rows);
        if let Some(filter) = filter {
            builder = builder.with_row_filter(filter);
        }
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let rows = builder.build().map(|stream| RowGroups::new(stream, self.spawner.clone()));
        rows.map_err(|error| self.error(error))
    }

    fn arrow_metadata(&self, metadata: &Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata> {
        let options = ArrowReaderOptions::new();
        let arrow = ArrowReaderMetadata::try_new(Arc::clone(metadata), options).map_err(|error| self.error(error))?;
        let wanted = with_declared_text(arrow.schema(), &self.schema);
        if wanted == *arrow.schema() {
            return Ok(arrow);
        }
        // A layout the reader does not take for some column is no error: columns are cast then.
        let options = ArrowReaderOptions::new().with_schema(wanted);
        Ok(ArrowReaderMetadata::try_new(Arc::clone(metadata), options).unwrap_or(arrow))
    }

    /// Refuses row groups that are too large: the columns wanted of one are in memory together.
    fn check_sizes(&self, metadata: &ParquetMetaData, groups: &[usize]) -> Result<()> {
        let bytes = |group: &RowGroupMetaData| u64::try_from(group.total_byte_size()).unwrap_or_default();
        let largest = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(bytes).max().unwrap_or_default();
        if largest <= self.row_group_bytes {
            return Ok(());
        }
        let (location, most) = (self.reader.location(), self.row_group_bytes);
        let message = format!("{location}: a row group has {largest} bytes uncompressed, at most {most} are read");
        Err(Error::new(ErrorKind::Limit, message).with_code("OverMaxParquetBlockSize"))
    }

    /// The row groups of the range that may hold rows that pass.
    fn row_groups(&self, metadata: &ParquetMetaData, arrow: &ArrowReaderMetadata) -> Result<Vec<usize>> {
        let in_range = |group: &RowGroupMetaData| match &self.range {
            Some(range) => first_byte(group).is_some_and(|first| range.contains(&first)),
            None => true,
        };
        let groups = metadata.row_groups().iter().enumerate().filter(|(_, group)| in_range(group));
        let groups: Vec<usize> = groups.map(|(i, _)| i).collect();
        let Some(predicate) = &self.predicate else { return Ok(groups) };
        let kept = prune::may_match(predicate, &self.schema, arrow.schema(), metadata, &groups)?;
        let kept: Vec<usize> = groups.iter().zip(kept).filter(|(_, kept)| *kept).map(|(i, _)| *i).collect();
        self.counters.row_groups_pruned.fetch_add((groups.len() - kept.len()) as u64, Ordering::Relaxed);
        Ok(kept)
    }

    /// Whether most of what is read is of no concern to the predicate, by the bytes that are decoded.
    fn is_mostly_output(&self, of_predicate: &[usize], metadata: &ParquetMetaData) -> bool {
        let (mut filtered, mut others) = (0, 0);
        for column in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
            let Some(root) = column.column_path().parts().first() else { continue };
            let is_here = |field: &Field| Place::of(field).is_ok_and(|place| place.root == *root);
            let fields = self.schema.fields().iter().enumerate().filter(|(_, field)| is_here(field));
            let indexes: Vec<usize> = fields.map(|(index, _)| index).collect();
            if indexes.iter().any(|index| of_predicate.contains(index)) {
                filtered += column.uncompressed_size();
            } else if !indexes.is_empty() {
                others += column.uncompressed_size();
            }
        }
        others > filtered
    }

    /// What decides whether a row is wanted.
    fn tested_columns(&self) -> Vec<usize> {
        let of_predicate = self.predicate.iter().flat_map(Expr::columns);
        let mut columns: Vec<usize> =
            of_predicate.chain(self.first.iter().flat_map(|first| first.key.columns())).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What rows are wanted, as the reader takes it: the columns for it are decoded first, the others for the rows that
    /// pass.
    fn row_filter(
        &self,
        columns: &[usize],
        arrow: &ArrowReaderMetadata,
        mask: impl Fn(Vec<usize>) -> ProjectionMask,
    ) -> Result<RowFilter> {
        let mut place = |i| columns.binary_search(&i).unwrap_or(usize::MAX);
        let schema: SchemaRef = Arc::new(self.schema.project(columns).map_err(from_arrow)?);
        let adapter = Adapter::new(self.reader.location(), schema);
        let predicate = self.predicate.as_ref().map(|predicate| map_columns(predicate, &mut place));
        let predicate = predicate.map(|predicate| Evaluator::predicate(&predicate, adapter.schema())).transpose()?;
        let bound = self.first.as_ref().map(|first| first.learning_bound(adapter.schema(), &mut place)).transpose()?;
        let bound = bound.flatten();
        let decoded = mask(adapter.columns(arrow.schema()));
        let wanted = move |batch: RecordBatch| {
            let batch = adapter.adapt(&batch)?;
            let passed = match &predicate {
                Some(predicate) => predicate.matches(&batch)?,
                None => BooleanArray::from(vec![true; batch.num_rows()]),
            };
            bound.as_ref().map_or(Ok(passed.clone()), |bound| bound.matches_among(&batch, &passed))
        };
        let failed = Arc::clone(&self.failed);
        let passes: Box<dyn ArrowPredicate> = Box::new(ArrowPredicateFn::new(decoded, move |batch: RecordBatch| {
            wanted(batch).map_err(|error| {
                let text = error.to_string();
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                ArrowError::ComputeError(text)
            })
        }));
        Ok(RowFilter::new(vec![passes]))
    }

    fn error(&self, error: ParquetError) -> Error {
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return error;
        }
        match error {
            ParquetError::External(error) => match error.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(other) if other.is::<ArrowError>() => self.contradiction().with_source(other),
                Err(other) => Error::internal(format!("{}: {other}", self.reader.location())),
            },
            // Codecs and encodings that are not built in.
            ParquetError::NYI(what) => {
                let message = format!("{}: is not supported here: {what}", self.reader.location());
                let code = if what.to_lowercase().contains("codec") || what.contains("ompression") {
                    "ParquetUnsupportedCompressionCodec"
                } else {
                    "UnsupportedParquetType"
                };
                Error::unsupported(message).with_code(code)
            }
            other => self.contradiction().with_source(other),
        }
    }

    fn contradiction(&self) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{}: the Parquet file contradicts itself", self.reader.location()))
    }
}

/// Where the row group begins in the file: the first byte of its first column chunk.
fn first_byte(group: &RowGroupMetaData) -> Option<u64> {
    let column = group.columns().first()?;
    let first = column.dictionary_page_offset().filter(|at| *at > 0).unwrap_or_else(|| column.data_page_offset());
    u64::try_from(first.min(column.data_page_offset())).ok()
}
