//! Execution of one split: by plain reads, S3 Select, the fragment route or an index.

pub(crate) mod fragment;
pub(crate) mod lookup;
pub(crate) mod ranges;
pub(crate) mod select;
pub(crate) mod wire;

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use futures::StreamExt;
use pushdowndb_contract::{Compression, Error, Format, Fragment, Result, Split};
use pushdowndb_scan::{ObjectReader, ScanCounters, ScanOptions, ScanRange, slice_bytes, thread_cpu};
use tokio::sync::mpsc::Sender;

use super::partition_scan::PartitionScan;
use crate::catalog::DataObject;
use crate::cost::model::Model;
use crate::endpoints::profile::Kind;
use crate::plan::placement::{Choice, Route};
use crate::plan::splits::ScanSplit;
use ranges::RangesTogether;

/// A running split and the receiver of its rows.
pub(crate) struct SplitTask<'a> {
    pub(crate) run: &'a PartitionScan,
    pub(crate) object: Cow<'a, DataObject>,
    pub(crate) split: &'a ScanSplit,
    out: &'a Sender<datafusion::common::Result<RecordBatch>>,
}

impl<'a> SplitTask<'a> {
    /// Creates the task of `split`. If its object has replicas and `store` has one, the task reads
    /// that.
    pub(crate) fn new(
        run: &'a PartitionScan,
        split: &'a ScanSplit,
        store: Option<usize>,
        out: &'a Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<Self> {
        let object = run.plan.objects.get(split.object).ok_or_else(|| Error::internal("a split of no object"))?;
        let there = store.filter(|_| !object.replicas.is_empty()).and_then(|store| object.in_store(store));
        Ok(Self { run, object: there.map_or(Cow::Borrowed(object), Cow::Owned), split, out })
    }
}

impl SplitTask<'_> {
    /// Returns whether the split has no rows and needs no request. The split of an ungrouped
    /// aggregate always has a row.
    pub(crate) fn is_empty(&self) -> bool {
        let scalar = self.run.plan.aggregate.as_ref().is_some_and(|aggregate| aggregate.groups.is_empty());
        self.object.size == 0 && !scalar && !matches!(self.run.fragment.format, pushdowndb_contract::Format::Parquet)
    }

    /// Runs the split; `false` if the receiver was dropped.
    pub(crate) async fn run(&self) -> Result<bool> {
        if self.is_empty() {
            return Ok(true);
        }
        if let Some(ranges) = self.run.locations.as_ref().and_then(|locations| locations.of(self.split.object)) {
            return self.looked_up(ranges).await;
        }
        match &self.run.choice {
            Choice::Storage { request, exact, route: Route::Select } => self.pushed(request, *exact).await,
            Choice::Storage { route: Route::Fragment, .. } | Choice::Compute(_) => self.plain().await,
        }
    }

    pub(crate) fn location(&self) -> String {
        self.run.context.backend.address(&self.object.path)
    }

    /// Returns the whole object as a split in the wire form of the fragment route.
    pub(crate) fn whole_object(&self) -> Split {
        let object = &self.object;
        let key = self.run.context.backend.key_of(&object.path);
        Split { key: key.as_ref().into(), etag: object.etag.clone(), size: object.size, range: None }
    }

    /// Returns `fragment` adapted to the columns and format of this object.
    pub(crate) fn adapted(&self, fragment: &Fragment) -> Fragment {
        let mut adapted = match &self.object.columns {
            Some(columns) => columns.adapt(fragment),
            None => fragment.clone(),
        };
        adapted.format = self.run.plan.table.format_of(&self.object);
        adapted
    }

    /// Returns a reader of the object. A local file stays open for the next split of the same
    /// object.
    pub(crate) fn opened(&self) -> Result<Arc<dyn ObjectReader>> {
        let context = &self.run.context;
        let open = || context.backend.reader(&self.object, &self.run.meters(), &context.options);
        if !context.is_local() {
            return open();
        }
        let mut last = self.run.buffers.file.lock();
        match &*last {
            Some((place, file)) if *place == self.split.object => {
                context.backend.check_unchanged(&self.object)?;
                Ok(Arc::clone(file))
            }
            _ => Ok(Arc::clone(&last.insert((self.split.object, open()?)).1)),
        }
    }

    /// Returns the reader for plain reads. If a node holds the object, distant Parquet pages are
    /// read in one request.
    fn reader(&self) -> Result<Arc<dyn ObjectReader>> {
        let (plan, context) = (&self.run.plan, &self.run.context);
        let reader = self.opened()?;
        if context.keeps(plan) {
            return Ok(context.backend.kept(&self.object, reader, context.options.keep_bytes));
        }
        let format = plan.table.format_of(&self.object);
        let has_fragments = self.run.has_fragments && context.backend.runs_fragments(&self.object, plan.table.profile);
        if !has_fragments || !matches!(format, Format::Parquet) {
            return Ok(reader);
        }
        let bytes_per_request = Model::of(plan, context).bytes_a_request();
        self.together(reader, Some(bytes_per_request))
    }

    /// Wraps `reader` so that a node returns many ranges in one response.
    pub(crate) fn together(
        &self,
        reader: Arc<dyn ObjectReader>,
        bytes_per_request: Option<u64>,
    ) -> Result<Arc<dyn ObjectReader>> {
        let context = &self.run.context;
        let client = context.fragment_client(&self.object, &self.run.meters())?;
        let (object, fall_backs) = (self.whole_object(), self.run.fall_backs());
        Ok(Arc::new(RangesTogether { reader, client, object, bytes_per_request, fall_backs }))
    }

    pub(crate) async fn plain(&self) -> Result<bool> {
        let reader = self.reader()?;
        let fragment = self.run.top_k_fragment.as_ref().unwrap_or(&self.run.fragment);
        let fragment = Arc::new(self.adapted(fragment));
        let counters = Arc::new(ScanCounters::default());
        // The plan above merges duplicate groups, and sorts.
        let options = ScanOptions {
            batch_rows: self.run.context.options.batch_rows(),
            partial_group_bytes: Some(self.run.plan.group_bytes),
            passes_on_first_rows: true,
            threshold: Arc::clone(&self.run.threshold),
            footer: self.run.context.backend.footer(&self.object),
            decoding: self.run.buffers.decoding.clone(),
            pages: Arc::clone(&self.run.buffers.pages),
            learned: Arc::clone(&self.run.caches),
            rejects: Some(Arc::clone(self.run.query.rejects())),
            ..ScanOptions::default()
        };
        let shows_speed = shows_speed(&fragment);
        let counted = Arc::clone(&counters);
        let extent = match &self.split.rows {
            Some(rows) => ScanRange::Rows(rows.clone()),
            None => ScanRange::Bytes(self.split.range.clone()),
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

    /// Converts a batch of the object's columns to the scan's output: adds partition columns, and
    /// casts partial results to their state types.
    pub(crate) fn assemble(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let plan = &self.run.plan;
        let internal =
            |e: arrow::error::ArrowError| Error::internal(format!("a batch that does not fit its scan: {e}"));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns: Vec<ArrayRef> = match &plan.aggregate {
            Some(aggregate) => {
                let columns = aggregate.columns(&batch);
                columns.map_err(|e| Error::invalid(format!("{}: {e}", self.location())))?
            }
            None => {
                let mut from_object = batch.columns().iter();
                let file_columns = plan.table.file_schema.fields().len();
                let mut columns = Vec::with_capacity(plan.projection.len());
                for column in &plan.projection {
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

    pub(crate) async fn send(&self, batch: RecordBatch) -> bool {
        let rows = batch.num_rows() as u64;
        self.run.sent(rows);
        rows == 0 || self.out.send(Ok(batch)).await.is_ok()
    }
}

/// Whether a plain read of `fragment` measures the engine's text throughput.
fn shows_speed(fragment: &Fragment) -> bool {
    fragment.format.compression() == Compression::None && matches!(Kind::shown_by(fragment), Some(Kind::Text))
}

/// Batches buffered until their split is complete.
#[derive(Default)]
pub(crate) struct Held {
    batches: Vec<RecordBatch>,
    pub(crate) bytes: u64,
    /// Whether some batches have already been sent.
    pub(crate) released: bool,
}

impl Held {
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.bytes += batch.columns().iter().map(slice_bytes).sum::<usize>() as u64;
            self.batches.push(batch);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<RecordBatch> {
        self.bytes = 0;
        std::mem::take(&mut self.batches)
    }
}
