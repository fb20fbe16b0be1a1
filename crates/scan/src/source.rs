//! Sources of batches: what each format implements, and what it is opened with.

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

/// Rows of an object that pass the predicate, in the order of the object.
pub(crate) trait BatchSource: Send {
    /// The schema of the batches.
    fn schema(&self) -> SchemaRef;

    /// The next batch; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>>;
}

/// What a source reads, and how.
#[derive(Clone)]
pub(crate) struct ScanInput {
    /// Reads the object.
    pub(crate) reader: Arc<dyn ObjectReader>,
    /// The part of the object whose rows are wanted.
    pub(crate) range: ScanRange,
    /// Options that sources of more than one format take.
    pub(crate) options: SourceOptions,
    /// Shared by all sources of one scan.
    pub(crate) counters: Arc<ScanCounters>,
}

/// The options of [`crate::options::ScanOptions`] that sources of more than one format take.
#[derive(Clone)]
pub(crate) struct SourceOptions {
    /// Maximum number of rows in a batch.
    pub(crate) batch_rows: usize,
    /// Maximum length of a record of text, in bytes.
    pub(crate) record_bytes: usize,
    /// Rows that cannot be among the first of all scans that share it are left out.
    pub(crate) threshold: Arc<Threshold>,
    /// Zones of the object, which a scan of text extends.
    pub(crate) zones: Option<Arc<Zones>>,
    /// Whether text is searched before it is decoded.
    pub(crate) matching: Matching,
    /// Whether searching pays, as found by scans of the same fragment.
    pub(crate) verdict: Arc<SearchVerdict>,
    /// Accounts for buffers.
    pub(crate) memory: MemoryBudget,
    /// Starts background tasks.
    pub(crate) spawner: Spawner,
    /// Where records are noted that are left out.
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
