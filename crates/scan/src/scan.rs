//! Running a fragment over an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use pushdown::{Expr, Format, Fragment, JsonOptions, NamedExpr, Output, Result};

use crate::ObjectReader;
use crate::csv::{CsvPlan, CsvScan};
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::evaluate::lower::check_depth;
use crate::evaluate::weight::text_bytes;
use crate::extent::Extent;
use crate::interrupt::{Interrupt, check_interrupt};
use crate::json::JsonScan;
use crate::limits;
use crate::matcher::{Matching, SearchVerdict};
use crate::output::{Sink, columns_of, map_output, only_keys, renumber, result_schema};
use crate::parquet::{KnownFooter, LastPlans, PAGES_AT_ONCE, ParquetScan};
use crate::pieces::{Found, Opening, Pieces};
use crate::positions::{POSITION_COLUMNS, with_positions};
use crate::pruning::zones::{ZoneColumn, ZoneRecorder, Zones, decides, wants_keys};
use crate::row_filter::RowFilter;
use crate::top_k::{FirstRows, Threshold};
use crate::{BlockBuffers, Helpers, MemoryBudget, Reservation, Spawner, TimeSlice};

/// What a scan has done so far. Shared: it can be read while the scan runs.
#[derive(Debug, Default)]
pub struct ScanCounters {
    /// Bytes of the object that were looked at: text as stored, so compressed if it is; for Parquet what was read of
    /// column chunks.
    pub bytes_scanned: AtomicU64,
    /// The same after decompression of the object as a whole.
    pub bytes_processed: AtomicU64,
    /// Records decoded, in whole or in part, before filtering.
    pub rows_scanned: AtomicU64,
    /// Row groups of Parquet that were read.
    pub row_groups_scanned: AtomicU64,
    /// Row groups of Parquet that statistics ruled out.
    pub row_groups_pruned: AtomicU64,
    /// Bytes of text that zones ruled out.
    pub bytes_pruned: AtomicU64,
}

impl ScanCounters {
    /// Counts what another one has counted as well.
    pub(crate) fn add(&self, other: Self) {
        for (count, more) in [
            (&self.bytes_scanned, other.bytes_scanned),
            (&self.bytes_processed, other.bytes_processed),
            (&self.rows_scanned, other.rows_scanned),
            (&self.row_groups_scanned, other.row_groups_scanned),
            (&self.row_groups_pruned, other.row_groups_pruned),
            (&self.bytes_pruned, other.bytes_pruned),
        ] {
            count.fetch_add(more.into_inner(), Ordering::Relaxed);
        }
    }
}

/// How a scan works. Only [`Self::partial_group_bytes`], [`Self::passes_on_first_rows`] and [`Self::threshold`] have an
/// effect on what it answers, and [`Self::helpers`] on the last digits of floating-point numbers.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// The longest record of a text object, in bytes; a longer one is an error.
    pub record_bytes: usize,
    /// The largest row group of a Parquet object that is read, in bytes as its footer says they are uncompressed.
    pub row_group_bytes: u64,
    /// Of a larger row group the columns wanted are read in parts of about so many bytes, as they are stored, where the
    /// file has an index of its pages. Two parts are in memory at a time.
    pub row_group_part_bytes: u64,
    /// Whether a task of its own reads and searches the next row group while rows of the one before are taken; otherwise the
    /// scan does, which is better where there are as many scans as threads.
    pub fetches_beside: bool,
    /// For callers that merge results: an aggregate with groups keeps as many groups as take about so many bytes, then passes
    /// other rows on, aggregated a little. So a group may come out several times, each time with the aggregates of some
    /// of its rows; each row counts once. `None`: each group comes out once, and more than [`crate::limits`] allow are
    /// an error. Has no effect where groups are ordered, limited or projected.
    pub partial_group_bytes: Option<usize>,
    /// For callers that merge results: where the first rows of an ORDER BY … LIMIT take too much memory, they come out and others
    /// are looked for, so that more than the limit may come; otherwise that is an error.
    pub passes_on_first_rows: bool,
    /// Shared by scans that work on one ORDER BY … LIMIT together: each leaves rows out that cannot be among the first
    /// of all of them.
    pub threshold: Arc<Threshold>,
    /// What is known of the object's values. The scan passes over what that rules out, and adds what it sees.
    pub zones: Option<Arc<Zones>>,
    /// Whether text is searched for bytes that a record must hold to pass.
    pub matching: Matching,
    /// Shared by scans of one fragment with one threshold: what the first of them learn and prepare.
    pub learned: Arc<Learned>,
    /// Where the object's footer may be known, if it is Parquet.
    pub footer: Option<KnownFooter>,
    /// What pages of Parquet are decompressed into; scans that come one after the other may share it.
    pub pages: Arc<BlockBuffers>,
    /// Where the scan takes its memory from: pages, dictionaries, groups, first rows, and batches of results.
    pub memory: MemoryBudget,
    /// Ends the scan, in the middle of whatever it computes. By default it is that of the task which runs the scan.
    pub interrupt: Interrupt,
    /// Starts what the scan does beside itself.
    pub spawner: Spawner,
    /// Scan pieces of the object beside each other; without them it is scanned from its beginning to its end.
    pub helpers: Option<Helpers>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            batch_rows: 8192,
            record_bytes: limits::RECORD_BYTES,
            row_group_bytes: u64::MAX,
            row_group_part_bytes: limits::ROW_GROUP_PART_BYTES,
            fetches_beside: true,
            partial_group_bytes: None,
            passes_on_first_rows: false,
            zones: None,
            footer: None,
            pages: BlockBuffers::new(0, PAGES_AT_ONCE),
            matching: Matching::default(),
            learned: Arc::default(),
            memory: MemoryBudget::unbounded(),
            interrupt: Interrupt::default(),
            spawner: Spawner::default(),
            helpers: None,
            threshold: Arc::default(),
        }
    }
}

/// What scans of one fragment share, be it of pieces of an object or of several objects.
#[derive(Debug, Default)]
pub struct Learned {
    /// Whether searching text pays.
    pub(crate) search: SearchVerdict,
    /// How Parquet objects are read.
    pub(crate) parquet: LastPlans,
}

/// The schema of the batches that [`scan`] gives.
pub fn output_schema(fragment: &Fragment) -> Result<SchemaRef> {
    result_schema(fragment)
}

/// Runs the fragment over the object, or over what [`Extent`] says of it: a range of bytes, or `None` for all.
///
/// Aggregates without groups give exactly one row. Dropping the stream stops reading; so does a LIMIT that is reached.
///
/// # Errors
///
/// The fragment contradicts itself, or nobody can tell which records of the object those are. What is wrong with the object
/// is an error of the stream.
pub fn scan(
    fragment: Arc<Fragment>,
    reader: Arc<dyn ObjectReader>,
    extent: impl Into<Extent>,
    options: ScanOptions,
    counters: Arc<ScanCounters>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (extent, interrupt) = (extent.into(), options.interrupt.clone());
    interrupt.scope_sync(|| open(fragment, reader, extent, options, counters))
}

fn open(
    fragment: Arc<Fragment>,
    reader: Arc<dyn ObjectReader>,
    extent: Extent,
    options: ScanOptions,
    counters: Arc<ScanCounters>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    check_interrupt()?;
    extent.check(&fragment, reader.location())?;
    let schema = output_schema(&fragment)?;
    let schema = if extent.has_positions() { with_positions(&schema) } else { schema };
    let options = at_most_limit(&fragment, in_small_batches(&fragment, options));
    let whole = Opening { fragment: Arc::clone(&fragment), reader, options, counters };
    let (pieces, input, mut output) = Pieces::open(whole, extent.clone())?;
    if let (true, Output::Rows(columns)) = (extent.has_positions(), &mut output) {
        let first = input.fields().len().saturating_sub(POSITION_COLUMNS.len());
        let position =
            |(place, name): (usize, &&str)| NamedExpr { expr: Expr::Column(first + place), name: (*name).to_owned() };
        columns.extend(POSITION_COLUMNS.iter().enumerate().map(position));
    }
    let options = pieces.options();
    let sink = Sink::new(&fragment, &output, &input, Arc::clone(&schema), options)?;
    let (batch_rows, interrupt) = (options.batch_rows, options.interrupt.clone());
    let memory = options.memory.clone();
    Ok(results(Rows::OfObject(pieces), sink, schema, batch_rows, &memory, interrupt))
}

/// Runs the fragment over rows that are decoded already: its schema is theirs, its format is of no account.
pub fn scan_rows(
    fragment: &Fragment,
    rows: Vec<RecordBatch>,
    options: &ScanOptions,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let schema = output_schema(fragment)?;
    let sink = Sink::new(fragment, &fragment.output, &fragment.schema, Arc::clone(&schema), options)?;
    let predicate = fragment.predicate.as_ref();
    let predicate = predicate.map(|predicate| Evaluator::predicate(predicate, &fragment.schema)).transpose()?;
    let decoded = DecodedRows { batches: rows.into_iter(), predicate };
    let interrupt = options.interrupt.clone();
    Ok(results(Rows::Decoded(decoded), sink, schema, options.batch_rows, &options.memory, interrupt))
}

/// What comes of the rows. Nothing comes out of an interrupted scan but the error that says so.
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

/// Of many columns a batch has fewer rows.
fn in_small_batches(fragment: &Fragment, options: ScanOptions) -> ScanOptions {
    let row = fragment.columns().len().max(1).saturating_mul(limits::FIELD_BYTES);
    let most = (limits::BATCH_FIELDS_BYTES / row).max(limits::LEAST_ROWS);
    ScanOptions { batch_rows: options.batch_rows.min(most), ..options }
}

/// Where a LIMIT ends the reading, rows after it are not even decoded: one that is broken is none of its business.
fn at_most_limit(fragment: &Fragment, options: ScanOptions) -> ScanOptions {
    let rows = match (&fragment.output, fragment.limit) {
        (Output::Rows(_), Some(limit)) if fragment.order.is_empty() && fragment.predicate.is_none() => limit,
        _ => return options,
    };
    let batch_rows = usize::try_from(rows).unwrap_or(usize::MAX).clamp(1, options.batch_rows.max(1));
    ScanOptions { batch_rows, ..options }
}

pub(crate) enum Source {
    Csv(Box<CsvScan>),
    Json(Box<JsonScan>),
    Parquet(Box<ParquetScan>),
}

impl Source {
    /// Opens the object; also the schema of the rows that come out and the output rewritten to it.
    pub(crate) fn open(
        fragment: &Fragment,
        reader: Arc<dyn ObjectReader>,
        extent: &Extent,
        options: &ScanOptions,
        counters: Arc<ScanCounters>,
    ) -> Result<(Self, SchemaRef, Output)> {
        let format = match &fragment.format {
            Format::Csv(csv) => {
                let (scan, output) = CsvScan::new(fragment, csv, reader, extent, options, counters)?;
                let schema = scan.schema();
                return Ok((Self::Csv(Box::new(scan)), schema, output));
            }
            other => other,
        };
        let (schema, wanted, output) = narrow(fragment, &options.threshold)?;
        if let Format::Json(json) = format {
            let mut scan = JsonScan::new(&schema, &wanted, json, reader, extent, options, counters)?;
            if let (Some(zones), Some(predicate), Extent::Range(_)) = (&options.zones, &wanted.predicate, extent)
                && can_be_zoned(fragment)
            {
                note_zones(&mut scan, zones, predicate, &schema, json);
            }
            let schema = scan.schema(&schema);
            return Ok((Self::Json(Box::new(scan)), schema, output));
        }
        // Columns that only the predicate reads are not decoded for the rows that pass.
        let columns = columns_of(&output);
        let scan = ParquetScan::new(&schema, wanted, &columns, reader, extent, options, counters)?;
        let scan = scan.with_dictionaries(only_keys(&output));
        let output = map_output(&output, &mut |expr| Ok(renumber(expr, &columns)))?;
        let schema = Arc::new(schema.project(&columns).map_err(from_arrow)?);
        let schema = if extent.has_positions() { with_positions(&schema) } else { schema };
        Ok((Self::Parquet(Box::new(scan)), schema, output))
    }

    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Csv(scan) => scan.next().await,
            Self::Json(scan) => scan.next().await,
            Self::Parquet(scan) => scan.next().await,
        }
    }
}

/// The fragment over only the columns it reads: their schema, the rows it wants and the output.
fn narrow(fragment: &Fragment, threshold: &Arc<Threshold>) -> Result<(SchemaRef, RowFilter, Output)> {
    if let Some(predicate) = &fragment.predicate {
        check_depth(predicate)?;
    }
    let columns = fragment.columns();
    let schema = fragment.schema.project(&columns).map_err(from_arrow)?;
    let schema = Schema::new(schema.fields().clone());
    let output = map_output(&fragment.output, &mut |expr| Ok(renumber(expr, &columns)))?;
    let predicate = fragment.predicate.as_ref().map(|expr| renumber(expr, &columns));
    let first = FirstRows::of(fragment, threshold);
    let first = first.map(|first| first.with_key(|key| Ok(renumber(key, &columns)))).transpose()?;
    Ok((Arc::new(schema), RowFilter { predicate, first }, output))
}

/// The bytes of an array's own rows, not of the buffers it shares.
pub fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// The condition that zones of the object's columns may rule out, and those columns.
pub(crate) fn zoned(fragment: &Fragment) -> Result<Option<(Expr, Vec<ZoneColumn>)>> {
    if !can_be_zoned(fragment) {
        return Ok(None);
    }
    Ok(match &fragment.format {
        Format::Csv(options) => {
            let (plan, _) = CsvPlan::new(fragment, options, &Arc::default())?;
            plan.zoned(options).map(|(condition, columns)| (condition.clone(), columns))
        }
        Format::Json(options) => {
            let (schema, wanted, _) = narrow(fragment, &Arc::default())?;
            wanted
                .predicate
                .map(|predicate| (predicate, schema.fields().iter().map(|f| json_column(f, options)).collect()))
        }
        Format::Parquet => None,
    })
}

/// Whether stretches of the object's text can be passed over.
pub fn can_be_zoned(fragment: &Fragment) -> bool {
    fragment.format.is_splittable()
        && match &fragment.format {
            Format::Csv(options) => options.wide.is_none(),
            Format::Json(options) => !options.raw_tokens,
            Format::Parquet => false,
        }
}

fn json_column(field: &Field, options: &JsonOptions) -> ZoneColumn {
    ZoneColumn { key: format!("{field:?} {options:?}").into(), field: field.clone() }
}

/// Has the scan leave behind what it sees of the columns that its predicate reads.
fn note_zones(scan: &mut JsonScan, zones: &Arc<Zones>, predicate: &Expr, schema: &Schema, options: &JsonOptions) {
    let columns = predicate.columns();
    let goes_on = || check_interrupt().is_ok();
    if !columns.iter().take_while(|_| goes_on()).any(|column| decides(predicate, *column, schema)) {
        return;
    }
    let observed = columns.iter().take_while(|_| goes_on()).filter_map(|index| {
        let column = json_column(schema.fields().get(*index)?, options);
        let keys = wants_keys(predicate, *index, &column.field);
        Some((column, keys))
    });
    if let Some(recorder) = ZoneRecorder::new(zones, observed.collect(), scan.begin()) {
        scan.note_zones(recorder);
    }
}

/// Rows that pass, from where they are.
enum Rows {
    OfObject(Pieces),
    Decoded(DecodedRows),
}

impl Rows {
    async fn next(&mut self) -> Result<Option<Found>> {
        match self {
            Self::OfObject(pieces) => pieces.next().await,
            Self::Decoded(rows) => Ok(rows.next().transpose()?.map(Found::Rows)),
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
    /// Gathers batches too small to be worth handing on one by one. It copies their rows: a few rows of Parquet text
    /// would otherwise keep the whole pages alive that they point into.
    small: BatchCoalescer,
    /// About how many bytes those have.
    small_bytes: usize,
    /// Rows of the source that are still to be taken in, and how many at a time: fewer where their results are large.
    rest: Option<(RecordBatch, usize)>,
    slice: TimeSlice,
    /// For the rows that came out last, and what is made of them.
    given: Reservation,
}

/// Batches of results that are as large are counted: as they are, as they are encoded, and one that waits.
const LARGE_BYTES: usize = 1024 * 1024;
const COPIES: usize = 3;

impl Scan {
    /// Draws what the rows that come out take, until the next do.
    fn reserve(&self, batch: &RecordBatch) -> Result<()> {
        let bytes: usize = batch.columns().iter().map(text_bytes).sum();
        let counted = if bytes < LARGE_BYTES { 0 } else { bytes.saturating_mul(COPIES) };
        // There it is; its copies come one after the other.
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
                    Some(Found::Rows(batch)) => {
                        let rows = sink.rows_at_once(&batch);
                        (batch, rows)
                    }
                    Some(Found::Totals(totals)) => {
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
        // Small rows that wait would make every large batch after them be cut and copied.
        if self.small.biggest_coalesce_batch_size().is_some_and(|large| batch.num_rows() > large) {
            self.flush()?;
        }
        let (rows, bytes) = (batch.num_rows(), batch.columns().iter().map(slice_bytes).sum::<usize>());
        self.small.push_batch(batch).map_err(from_arrow)?;
        // Once a batch was full, only rows of the last one wait.
        let waiting = self.small.get_buffered_rows();
        self.small_bytes = if waiting > rows { self.small_bytes + bytes } else { bytes / rows.max(1) * waiting };
        // Few rows may be many bytes.
        if self.small_bytes > limits::BATCH_TEXT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.small_bytes = 0;
        self.small.finish_buffered_batch().map_err(from_arrow)
    }
}
