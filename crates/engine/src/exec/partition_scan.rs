//! Execution state of one partition of a scan, shared by its splits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Fragment};
use pushdowndb_cost::Meter;
use pushdowndb_scan::{BlockBuffers, ObjectReader, ScanCaches, ScanOptions, Threshold};
use tokio::sync::{Notify, Semaphore};

use super::adaptive::AdaptiveScheduler;
use super::index_state::{LookupOutcomes, RowLocations};
use super::scan_counters::ScanCounters;
use super::scan_progress::ScanProgress;
use super::work_queue::WorkQueue;
use crate::context::QueryContext;
use crate::plan::placement::Choice;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::splits::ScanSplit;
use crate::strategies::index::Lookup;
use crate::strategies::top_k::LiveTopK;

/// One partition of a running scan.
pub(crate) struct PartitionScan {
    pub(crate) plan: ScanPlan,
    pub(crate) context: ScanContext,
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) choice: Choice,
    pub(crate) dialect: Option<pushdowndb_contract::Dialect>,
    /// Whether the node may send dictionaries.
    pub(crate) takes_dictionaries: bool,
    /// Whether the fragment route is available and allowed.
    pub(crate) has_fragments: bool,
    pub(crate) schema: SchemaRef,
    pub(crate) query: Arc<QueryContext>,
    /// Traffic of this partition, counted in addition to the query's meter and `counters`.
    pub(crate) meter: Arc<Meter>,
    /// Counters of the whole scan.
    pub(crate) counters: Arc<ScanCounters>,
    /// Whether the rows go to the operator above, rather than to a preparatory phase of the query.
    pub(crate) feeds_plan: bool,
    /// Work queue of the workers. An entry is one split, or all splits of one request.
    pub(crate) splits: Mutex<VecDeque<Vec<ScanSplit>>>,
    /// Queue shared by all partitions, which replaces `splits` under work stealing, and the number
    /// of this partition.
    pub(crate) work_queue: Option<(Arc<WorkQueue>, usize)>,
    /// Notified when `splits` becomes empty.
    pub(crate) drained: Notify,
    /// Bound of a top-k that storage evaluates, tightened while rows arrive.
    pub(crate) live_top_k: Option<Arc<LiveTopK>>,
    /// Fragment that plain reads evaluate for a top-k, which skips rows by `threshold`.
    pub(crate) top_k_fragment: Option<Arc<Fragment>>,
    pub(crate) threshold: Arc<Threshold>,
    /// Row locations, for objects with an index.
    pub(crate) locations: Option<Arc<RowLocations>>,
    /// Look-up made by the node, if any. `lookup_outcomes` counts its results.
    pub(crate) lookup: Option<Lookup>,
    pub(crate) lookup_outcomes: LookupOutcomes,
    /// Whether an index covers objects of this partition.
    pub(crate) looks_up: bool,
    pub(crate) buffers: ReusedBuffers,
    /// Scan caches shared by all partitions.
    pub(crate) caches: Arc<ScanCaches>,
    /// Scheduler of the splits; `None` if their source is fixed.
    pub(crate) scheduler: Option<AdaptiveScheduler>,
    /// Progress of all partitions.
    pub(crate) progress: Arc<ScanProgress>,
    /// Share of the bytes that storage read in the last scan of the same fragment.
    pub(crate) read_before: Option<f64>,
    /// Whether storage has sent fields that could mean either the empty string or NULL.
    pub(crate) ambiguous_nulls: AtomicBool,
}

/// Buffers reused by the splits of a partition: warm memory is cheaper than fresh memory.
#[derive(Debug)]
pub(crate) struct ReusedBuffers {
    /// Object number and reader of the last opened local file; the reader keeps its buffers.
    pub(crate) file: Mutex<Option<(usize, Arc<dyn ObjectReader>)>>,
    /// Buffers for decompressed Parquet pages.
    pub(crate) pages: Arc<BlockBuffers>,
    /// Permits of the row groups that plain reads decode at a time; `None` for no limit.
    pub(crate) decoding: Option<Arc<Semaphore>>,
}

impl Default for ReusedBuffers {
    fn default() -> Self {
        Self { file: Mutex::default(), pages: ScanOptions::default().pages, decoding: None }
    }
}

/// Recorder of fall-backs from storage to plain reads.
#[derive(Clone, Debug)]
pub(crate) struct FallBacks {
    pub(crate) query: Arc<QueryContext>,
    pub(crate) counters: Arc<ScanCounters>,
    pub(crate) table: String,
}

impl FallBacks {
    pub(crate) fn record(&self, error: &Error) {
        self.query.fall_back(&self.table, error);
        self.counters.meter().fell_back();
    }
}
