//! Running a fragment over an object.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use pushdowndb_contract::{Expr, Fragment, NamedExpr, Output, Result};

use crate::batch::slice_bytes;
use crate::counters::ScanCounters;
use crate::error::from_arrow;
use crate::expr::evaluator::Evaluator;
use crate::expr::weight::text_bytes;
use crate::io::reader::ObjectReader;
use crate::limits;
use crate::operators::sink::{Sink, result_schema};
use crate::options::ScanOptions;
use crate::range::positions::{POSITION_COLUMNS, with_positions};
use crate::range::scan_range::ScanRange;
use crate::run::parallel::{ParallelScan, PieceFactory, PieceOutput};
use crate::runtime::interrupt::{Interrupt, check_interrupt};
use crate::runtime::memory::{MemoryBudget, Reservation};
use crate::runtime::time_slice::TimeSlice;

/// Returns the schema of the batches that [`scan`] returns.
pub fn output_schema(fragment: &Fragment) -> Result<SchemaRef> {
    result_schema(fragment)
}

/// Runs `fragment` over the object, or over the part of it that `extent` selects; `None` selects
/// all.
///
/// Aggregates without groups return exactly one row. Reading stops when the stream is dropped, and
/// when a LIMIT is reached.
///
/// # Errors
///
/// Returns an error if the fragment is inconsistent, or if the range cannot be read on its own.
/// Errors in the object are returned by the stream.
pub fn scan(
    fragment: Arc<Fragment>,
    reader: Arc<dyn ObjectReader>,
    extent: impl Into<ScanRange>,
    options: ScanOptions,
    counters: Arc<ScanCounters>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (extent, interrupt) = (extent.into(), options.interrupt.clone());
    interrupt.scope_sync(|| open(fragment, reader, extent, options, counters))
}

fn open(
    fragment: Arc<Fragment>,
    reader: Arc<dyn ObjectReader>,
    extent: ScanRange,
    options: ScanOptions,
    counters: Arc<ScanCounters>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    check_interrupt()?;
    extent.check(&fragment, reader.location())?;
    let schema = output_schema(&fragment)?;
    let schema = if extent.has_positions() { with_positions(&schema) } else { schema };
    let options = at_most_limit(&fragment, in_small_batches(&fragment, options));
    let whole = PieceFactory { fragment: Arc::clone(&fragment), reader, options, counters };
    let (pieces, input, mut output) = ParallelScan::open(whole, extent.clone())?;
    if let (true, Output::Rows(columns)) = (extent.has_positions(), &mut output) {
        let first = input.fields().len().saturating_sub(POSITION_COLUMNS.len());
        let position =
            |(place, name): (usize, &&str)| NamedExpr { expr: Expr::Column(first + place), name: (*name).to_owned() };
        columns.extend(POSITION_COLUMNS.iter().enumerate().map(position));
    }
    let options = pieces.options();
    let sink = Sink::new(&fragment, &output, &input, Arc::clone(&schema), &options.of_sink())?;
    let (batch_rows, interrupt) = (options.batch_rows, options.interrupt.clone());
    let memory = options.memory.clone();
    Ok(results(Rows::OfObject(pieces), sink, schema, batch_rows, &memory, interrupt))
}

/// Runs `fragment` over decoded rows. Its schema must be that of the rows; its format is ignored.
pub fn scan_rows(
    fragment: &Fragment,
    rows: Vec<RecordBatch>,
    options: &ScanOptions,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let schema = output_schema(fragment)?;
    let sink = Sink::new(fragment, &fragment.output, &fragment.schema, Arc::clone(&schema), &options.of_sink())?;
    let predicate = fragment.predicate.as_ref();
    let predicate = predicate.map(|predicate| Evaluator::predicate(predicate, &fragment.schema)).transpose()?;
    let decoded = DecodedRows { batches: rows.into_iter(), predicate };
    let interrupt = options.interrupt.clone();
    Ok(results(Rows::Decoded(decoded), sink, schema, options.batch_rows, &options.memory, interrupt))
}

/// Streams the results of `rows`. An interrupted scan returns only its error.
fn results(
    rows: Rows,
    sink: Sink,
    schema: SchemaRef,
    batch_rows: usize,
    memory: &MemoryBudget,
    interrupt: Interrupt,
) -> BoxStream<'static, Result<RecordBatch>> {
    let enough = batch_rows.div_ceil(2);
    let small = BatchCoalescer::new(schema, enough).with_biggest_coalesce_batch_size(Some(enough));
    let slice = TimeSlice::default();
    let given = memory.empty();
    let scan = Scan { source: Some(rows), sink: Some(sink), small, small_bytes: 0, rest: None, slice, given };
    stream::try_unfold(scan, move |mut scan| {
        interrupt.scope(async move {
            let batch = scan.next().await;
            check_interrupt()?;
            let Some(batch) = batch? else { return Ok(None) };
            scan.reserve(&batch)?;
            Ok(Some((batch, scan)))
        })
    })
    .boxed()
}

/// Limits the rows of a batch if there are many columns.
fn in_small_batches(fragment: &Fragment, options: ScanOptions) -> ScanOptions {
    let row = fragment.columns().len().max(1).saturating_mul(limits::FIELD_BYTES);
    let most = (limits::MAX_BATCH_FIELDS_BYTES / row).max(limits::MIN_BATCH_ROWS);
    ScanOptions { batch_rows: options.batch_rows.min(most), ..options }
}

/// Limits the rows of a batch to a LIMIT, so that later rows are not decoded and need not be valid.
fn at_most_limit(fragment: &Fragment, options: ScanOptions) -> ScanOptions {
    let rows = match (&fragment.output, fragment.limit) {
        (Output::Rows(_), Some(limit)) if fragment.order.is_empty() && fragment.predicate.is_none() => limit,
        _ => return options,
    };
    let batch_rows = usize::try_from(rows).unwrap_or(usize::MAX).clamp(1, options.batch_rows.max(1));
    ScanOptions { batch_rows, ..options }
}

/// A source of the rows that pass.
enum Rows {
    OfObject(ParallelScan),
    Decoded(DecodedRows),
}

impl Rows {
    async fn next(&mut self) -> Result<Option<PieceOutput>> {
        match self {
            Self::OfObject(pieces) => pieces.next().await,
            Self::Decoded(rows) => Ok(rows.next().transpose()?.map(PieceOutput::Rows)),
        }
    }
}

struct DecodedRows {
    batches: std::vec::IntoIter<RecordBatch>,
    predicate: Option<Evaluator>,
}

impl Iterator for DecodedRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(self.predicate.as_ref().map_or_else(|| Ok(batch.clone()), |predicate| predicate.filter(&batch)))
    }
}

struct Scan {
    source: Option<Rows>,
    sink: Option<Sink>,
    /// Combines small batches. This copies rows: otherwise, a few rows of Parquet text would keep
    /// the pages alive into which they point.
    small: BatchCoalescer,
    /// The approximate bytes of these batches.
    small_bytes: usize,
    /// Rows of the source that are still to be processed, and how many to process at a time; fewer
    /// if their results are large.
    rest: Option<(RecordBatch, usize)>,
    slice: TimeSlice,
    /// Memory for the batch that was returned last, and its copies.
    given: Reservation,
}

/// Batches of results of at least this size are reserved, with their copies: as they are, encoded,
/// and waiting.
const MIN_COUNTED_BYTES: usize = 1024 * 1024;
const COPIES: usize = 3;

impl Scan {
    /// Reserves memory for a batch that is returned, until the next batch is returned.
    fn reserve(&self, batch: &RecordBatch) -> Result<()> {
        let bytes: usize = batch.columns().iter().map(text_bytes).sum();
        let counted = if bytes < MIN_COUNTED_BYTES { 0 } else { bytes.saturating_mul(COPIES) };
        // The batch already exists, and its copies are created one after the other.
        let reserved = self.given.resize(counted).or_else(|_| self.given.resize(counted / COPIES));
        reserved.map_err(|shortage| shortage.error("a batch of results", "OverMaxRecordSize"))
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let (Some(source), Some(sink)) = (&mut self.source, &mut self.sink) {
            check_interrupt()?;
            if let Some(batch) = self.small.next_completed_batch() {
                return Ok(Some(batch));
            }
            if sink.is_full() {
                self.source = None;
                break;
            }
            let (batch, at_once) = match self.rest.take() {
                Some(rest) => rest,
                None => match source.next().await? {
                    Some(PieceOutput::Rows(batch)) => {
                        let rows = sink.rows_at_once(&batch);
                        (batch, rows)
                    }
                    Some(PieceOutput::PartialAggregate(totals)) => {
                        sink.merge(totals)?;
                        self.slice.others().await;
                        continue;
                    }
                    None => break,
                },
            };
            let rows = sink.rows_at_once(&batch).min(at_once.max(1));
            let results = match sink.push(&batch.slice(0, rows)) {
                Err(error) if rows > 1 && sink.may_retry(&error) => {
                    self.rest = Some((batch, rows / 2));
                    continue;
                }
                results => results?,
            };
            if rows < batch.num_rows() {
                self.rest = Some((batch.slice(rows, batch.num_rows() - rows), at_once));
            }
            if let Some(batch) = results {
                self.gather(batch)?;
            }
            self.slice.others().await;
        }
        self.small.finish_buffered_batch().map_err(from_arrow)?;
        if let Some(batch) = self.small.next_completed_batch() {
            return Ok(Some(batch));
        }
        self.sink.take().map_or(Ok(None), Sink::finish)
    }

    fn gather(&mut self, batch: RecordBatch) -> Result<()> {
        // Without this, small rows that wait would cause every following large batch to be split
        // and copied.
        if self.small.biggest_coalesce_batch_size().is_some_and(|large| batch.num_rows() > large) {
            self.flush()?;
        }
        let (rows, bytes) = (batch.num_rows(), batch.columns().iter().map(slice_bytes).sum::<usize>());
        self.small.push_batch(batch).map_err(from_arrow)?;
        // When a batch is completed, only rows of the last batch are still buffered.
        let waiting = self.small.get_buffered_rows();
        self.small_bytes = if waiting > rows { self.small_bytes + bytes } else { bytes / rows.max(1) * waiting };
        // A few rows may have many bytes.
        if self.small_bytes > limits::MAX_BATCH_TEXT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.small_bytes = 0;
        self.small.finish_buffered_batch().map_err(from_arrow)
    }
}
