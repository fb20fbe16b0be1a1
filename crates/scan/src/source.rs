//! Sources of batches: the trait that each format implements, and the input with which it is
//! opened.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use pushdowndb_contract::Result;

use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::limits;
use crate::operators::top_k::threshold::Threshold;
use crate::prefilter::sample::{Matching, SearchVerdict};
use crate::range::scan_range::ScanRange;
use crate::rejects::Rejects;
use crate::runtime::memory::MemoryBudget;
use crate::runtime::spawner::Spawner;
use crate::zones::store::Zones;

/// A source of the rows of an object that pass the predicate, in the order of the object.
pub(crate) trait BatchSource: Send {
    /// Returns the schema of the batches.
    fn schema(&self) -> SchemaRef;

    /// Returns the next batch; `None` after the last one.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>>;
}

/// The input of a source: what it reads, and its options.
#[derive(Clone)]
pub(crate) struct ScanInput {
    /// The reader of the object.
    pub(crate) reader: Arc<dyn ObjectReader>,
    /// The part of the object whose rows are needed.
    pub(crate) range: ScanRange,
    /// Options that apply to several formats.
    pub(crate) options: SourceOptions,
    /// Counters that all sources of a scan share.
    pub(crate) counters: Arc<ScanCounters>,
}

/// The options in [`crate::options::ScanOptions`] that apply to several formats.
#[derive(Clone)]
pub(crate) struct SourceOptions {
    /// Maximum number of rows in a batch.
    pub(crate) batch_rows: usize,
    /// Maximum length of a text record, in bytes.
    pub(crate) record_bytes: usize,
    /// Shared by scans of the same order: rows that cannot be among the first of all of them are
    /// omitted.
    pub(crate) threshold: Arc<Threshold>,
    /// Zones of the object. A scan of text adds to them.
    pub(crate) zones: Option<Arc<Zones>>,
    /// Whether text is searched before it is decoded.
    pub(crate) matching: Matching,
    /// Whether searching pays, as measured by scans of the same fragment.
    pub(crate) verdict: Arc<SearchVerdict>,
    /// The memory budget for buffers.
    pub(crate) memory: MemoryBudget,
    /// Starts background tasks.
    pub(crate) spawner: Spawner,
    /// Collects records that are skipped.
    pub(crate) rejects: Option<Arc<Rejects>>,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            batch_rows: limits::BATCH_ROWS,
            record_bytes: limits::MAX_RECORD_BYTES,
            threshold: Arc::default(),
            zones: None,
            matching: Matching::default(),
            verdict: Arc::default(),
            memory: MemoryBudget::unbounded(),
            spawner: Spawner::default(),
            rejects: None,
        }
    }
}
