//! One split of a scan, on plain reads and wherever else the engine itself makes its rows.

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use futures::StreamExt;
use pushdown::{Compression, Error, Format, Fragment, Result, Split};
use pushdowndb_scan::{BlockBuffers, Extent, ObjectReader, ScanCounters, ScanOptions, slice_bytes, thread_cpu};
use tokio::sync::mpsc::Sender;

use super::ranges::RangesTogether;
use super::run::Run;
use super::splits::ScanSplit;
use crate::backends::ScannedKind;
use crate::strategies::estimate::Model;
use crate::strategies::filter::{Choice, Route};
use crate::table::DataObject;

/// A split while it is scanned, and where its rows go.
pub(super) struct SplitTask<'a> {
    pub(super) run: &'a Run,
    pub(super) object: &'a DataObject,
    pub(super) split: &'a ScanSplit,
    out: &'a Sender<datafusion::common::Result<RecordBatch>>,
}

impl<'a> SplitTask<'a> {
    pub(super) fn new(
        run: &'a Run,
        split: &'a ScanSplit,
        out: &'a Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<Self> {
        let object = run.spec.objects.get(split.object).ok_or_else(|| Error::internal("a split of no object"))?;
        Ok(Self { run, object, split, out })
    }
}

impl SplitTask<'_> {
    /// No bytes, no records: nothing to ask a server about, unless an aggregate of nothing is due.
    pub(super) fn is_empty(&self) -> bool {
        let scalar = self.run.spec.aggregate.as_ref().is_some_and(|aggregate| aggregate.groups.is_empty());
        self.object.size == 0 && !scalar && !matches!(self.run.fragment.format, pushdown::Format::Parquet)
    }

    /// Runs the split; `false` when nobody wants rows any more.
    pub(super) async fn run(&self) -> Result<bool> {
        if self.is_empty() {
            return Ok(true);
        }
        if let Some(places) = self.run.places.as_ref().and_then(|places| places.of(self.split.object)) {
            return self.looked_up(places).await;
        }
        match &self.run.choice {
            Choice::Storage { request, exact, route: Route::Select } => self.pushed(request, *exact).await,
            Choice::Storage { route: Route::Fragment, .. } | Choice::Compute(_) => self.plain().await,
        }
    }

    pub(super) fn location(&self) -> String {
        self.run.spec.backend.address(&self.object.path)
    }

    /// The object as a request of the fragment route names it.
    pub(super) fn whole_object(&self) -> Split {
        let object = self.object;
        Split { key: object.path.as_ref().into(), etag: object.etag.clone(), size: object.size, range: None }
    }

    /// The fragment as it reads this object.
    pub(super) fn adapted(&self, fragment: &Fragment) -> Fragment {
        let mut adapted = match &self.object.columns {
            Some(columns) => columns.adapt(fragment),
            None => fragment.clone(),
        };
        adapted.format = self.run.spec.table.format_of(self.object);
        adapted
    }

    /// The object; a file of this machine stays open for the next split of it.
    pub(super) fn opened(&self) -> Result<Arc<dyn ObjectReader>> {
        let spec = &self.run.spec;
        let open = || spec.backend.reader(self.object, &self.run.meters(), &spec.options);
        if !spec.is_local() {
            return open();
        }
        let mut last = self.run.reused.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((place, file)) if *place == self.split.object => {
                spec.backend.check_unchanged(self.object)?;
                Ok(Arc::clone(file))
            }
            _ => Ok(Arc::clone(&last.insert((self.split.object, open()?)).1)),
        }
    }

    /// The object for plain reads. Of Parquet in a node of our own, pages that are far apart come in one request.
    fn reader(&self) -> Result<Arc<dyn ObjectReader>> {
        let spec = &self.run.spec;
        let reader = self.opened()?;
        let format = spec.table.format_of(self.object);
        if !self.run.has_fragments || !matches!(format, Format::Parquet) {
            return Ok(reader);
        }
        let bytes_a_request = Model::of(spec).bytes_a_request();
        self.together(reader, Some(bytes_a_request))
    }

    /// The object for reads of many ranges, which a node of our own sends together.
    pub(super) fn together(
        &self,
        reader: Arc<dyn ObjectReader>,
        bytes_a_request: Option<u64>,
    ) -> Result<Arc<dyn ObjectReader>> {
        let spec = &self.run.spec;
        let client = spec.backend.fragment_client(&self.run.meters(), &spec.options)?;
        let (object, told) = (self.whole_object(), self.run.fall_backs());
        Ok(Arc::new(RangesTogether { reader, client, object, bytes_a_request, told }))
    }

    pub(super) async fn plain(&self) -> Result<bool> {
        let reader = self.reader()?;
        let fragment = self.run.first.as_ref().unwrap_or(&self.run.fragment);
        let fragment = Arc::new(self.adapted(fragment));
        let counters = Arc::new(ScanCounters::default());
        // The plan above merges groups that come out more than once, and sorts.
        let options = ScanOptions {
            partial_group_bytes: Some(self.run.spec.group_bytes),
            passes_on_first_rows: true,
            threshold: Arc::clone(&self.run.threshold),
            footer: self.run.spec.backend.footer(self.object),
            pages: Arc::clone(&self.run.reused.pages),
            learned: Arc::clone(&self.run.learned),
            ..ScanOptions::default()
        };
        let shows_speed = shows_speed(&fragment);
        let counted = Arc::clone(&counters);
        let extent = match &self.split.rows {
            Some(rows) => Extent::About(rows.clone()),
            None => Extent::Range(self.split.range.clone()),
        };
        let mut rows = pushdowndb_scan::scan(fragment, reader, extent, options, counted)?;
        let (mut busy, mut values) = (Duration::ZERO, 0);
        loop {
            let next = poll_fn(|context| {
                let since = thread_cpu();
                let next = rows.poll_next_unpin(context);
                busy += thread_cpu().saturating_sub(since);
                next
            });
            let Some(batch) = next.await.transpose()? else { break };
            values += batch.columns().iter().map(slice_bytes).sum::<usize>() as u64;
            if !self.send(self.assemble(batch)?).await {
                return Ok(false);
            }
        }
        if shows_speed {
            self.run.scanned_plainly(counters.bytes_scanned.load(Relaxed), values, busy);
        }
        Ok(true)
    }

    /// From the object's columns, in the scan's order, to the scan's output: columns of the path are added,
    /// partial results get the types of the states.
    pub(super) fn assemble(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let spec = &self.run.spec;
        let internal =
            |e: arrow::error::ArrowError| Error::internal(format!("a batch that does not fit its scan: {e}"));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns: Vec<ArrayRef> = match &spec.aggregate {
            Some(aggregate) => {
                let columns = aggregate.columns(&batch);
                columns.map_err(|e| Error::invalid(format!("{}: {e}", self.location())))?
            }
            None => {
                let mut from_object = batch.columns().iter();
                let file_columns = spec.table.file_schema.fields().len();
                let mut columns = Vec::with_capacity(spec.projection.len());
                for column in &spec.projection {
                    columns.push(if *column < file_columns {
                        let next = from_object.next();
                        Arc::clone(next.ok_or_else(|| Error::internal("a scan yielded too few columns"))?)
                    } else {
                        let value = self.object.partition_values.get(column - file_columns);
                        let value = value.ok_or_else(|| Error::internal("an object without its path's values"))?;
                        value.to_array_of_size(batch.num_rows()).map_err(crate::error::from_datafusion)?
                    });
                }
                columns
            }
        };
        RecordBatch::try_new_with_options(Arc::clone(&self.run.schema), columns, &options).map_err(internal)
    }

    pub(super) async fn send(&self, batch: RecordBatch) -> bool {
        let rows = batch.num_rows() as u64;
        self.run.sent(rows);
        rows == 0 || self.out.send(Ok(batch)).await.is_ok()
    }
}

/// Whether a plain read for this shows how fast the engine scans text: it does all of that itself, and little else.
fn shows_speed(fragment: &Fragment) -> bool {
    fragment.format.compression() == Compression::None
        && matches!(ScannedKind::shown_by(fragment), Some(ScannedKind::Text))
}

/// What splits of a partition use one after the other: memory that was touched before is cheaper than fresh memory.
#[derive(Debug)]
pub(super) struct Reused {
    /// The file of this machine that was opened last, with its buffers, and the place of its object.
    file: Mutex<Option<(usize, Arc<dyn ObjectReader>)>>,
    /// What pages of Parquet are decompressed into.
    pages: Arc<BlockBuffers>,
}

impl Default for Reused {
    fn default() -> Self {
        Self { file: Mutex::default(), pages: ScanOptions::default().pages }
    }
}

/// Batches held back until their split is complete.
#[derive(Default)]
pub(super) struct Held {
    batches: Vec<RecordBatch>,
    pub(super) bytes: u64,
    /// Whether some of them have left already.
    pub(super) released: bool,
}

impl Held {
    pub(super) fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.bytes += batch.columns().iter().map(slice_bytes).sum::<usize>() as u64;
            self.batches.push(batch);
        }
    }

    pub(super) fn take(&mut self) -> Vec<RecordBatch> {
        self.bytes = 0;
        std::mem::take(&mut self.batches)
    }
}
