//! Options of a scan.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::io::buffer_pool::BlockBuffers;
use crate::limits;
use crate::limits::MAX_POOLED_PAGES;
use crate::operators::sink::SinkOptions;
use crate::operators::top_k::threshold::Threshold;
use crate::parquet::meta::cache::KnownFooter;
use crate::parquet::plan::LastPlans;
use crate::parquet::scan::ParquetOptions;
use crate::prefilter::sample::{Matching, SearchVerdict};
use crate::rejects::Rejects;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::MemoryBudget;
use crate::runtime::spawner::{Helpers, Spawner};
use crate::source::SourceOptions;
use crate::zones::store::Zones;

/// Options of a scan.
///
/// Only [`Self::partial_group_bytes`], [`Self::passes_on_first_rows`] and [`Self::threshold`]
/// affect the results; [`Self::helpers`] affects the last digits of floating-point numbers.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Maximum number of rows in a batch.
    pub batch_rows: usize,
    /// Maximum length of a text record, in bytes; a longer one is an error.
    pub record_bytes: usize,
    /// Maximum uncompressed bytes of a Parquet row group, as stated in its footer.
    pub row_group_bytes: u64,
    /// The approximate size of slices, in stored bytes. If the file has a page index, a larger row
    /// group is read in slices. Two slices are in memory at a time.
    pub row_group_part_bytes: u64,
    /// Whether a separate task reads and searches the next row group while rows of the current one
    /// are consumed. Otherwise the scan itself does so, which is better if there are as many scans
    /// as threads.
    pub fetches_beside: bool,
    /// The maximum bytes of groups, for callers that merge results. Beyond it, further rows are
    /// returned partially aggregated. A group may then be returned several times, each time with
    /// the aggregates of some of its rows; each row counts once.
    ///
    /// With `None`, each group is returned once, and it is an error to exceed the number of groups
    /// in [`crate::limits`]. Has no effect if groups are ordered, limited or projected.
    pub partial_group_bytes: Option<usize>,
    /// Whether an ORDER BY … LIMIT may return more rows than the limit if its first rows take too
    /// much memory, for callers that merge results. Otherwise that is an error.
    pub passes_on_first_rows: bool,
    /// Shared by scans that compute the same ORDER BY … LIMIT. Each of them omits rows that cannot
    /// be among the first rows of all of them.
    pub threshold: Arc<Threshold>,
    /// Zones of the object. The scan skips those that cannot match, and records bounds in them.
    pub zones: Option<Arc<Zones>>,
    /// Whether text is searched for bytes that a matching record must contain.
    pub matching: Matching,
    /// State shared by scans of the same fragment with the same threshold.
    pub learned: Arc<ScanCaches>,
    /// The cache for the footer of a Parquet object, if there is one.
    pub footer: Option<KnownFooter>,
    /// A permit for each Parquet row group that is decoded at a time, shared by scans that run at
    /// the same time; `None` for no limit. Reads are not limited: scans of a far server wait for
    /// many row groups, but decode few, whose pages then fit into buffers that are used again.
    pub decoding: Option<Arc<Semaphore>>,
    /// Buffers into which Parquet pages are decompressed; consecutive scans may share them.
    pub pages: Arc<BlockBuffers>,
    /// The memory budget for pages, dictionaries, groups, first rows and batches of results.
    pub memory: MemoryBudget,
    /// Interrupts the scan, even in the middle of a computation. By default the interrupt of the
    /// task that runs the scan.
    pub interrupt: Interrupt,
    /// Starts background tasks.
    pub spawner: Spawner,
    /// Helpers that scan pieces of the object in parallel; `None` for a sequential scan.
    pub helpers: Option<Helpers>,
    /// Collects records that are skipped because they do not match the columns.
    pub rejects: Option<Arc<Rejects>>,
}

impl ScanOptions {
    /// Returns the options of a source that starts its tasks with `spawner`.
    pub(crate) fn of_source(&self, spawner: &Spawner) -> SourceOptions {
        SourceOptions {
            batch_rows: self.batch_rows.max(1),
            record_bytes: self.record_bytes,
            threshold: Arc::clone(&self.threshold),
            zones: self.zones.clone(),
            matching: self.matching,
            verdict: Arc::clone(&self.learned.search),
            memory: self.memory.clone(),
            spawner: spawner.clone(),
            rejects: self.rejects.clone(),
        }
    }

    pub(crate) fn of_parquet(&self) -> ParquetOptions {
        ParquetOptions {
            row_group_bytes: self.row_group_bytes,
            part_bytes: self.row_group_part_bytes,
            prefetch: self.fetches_beside,
            footer: self.footer.clone(),
            decoding: self.decoding.clone(),
            pages: Arc::clone(&self.pages),
            plans: Arc::clone(&self.learned.parquet),
        }
    }

    /// Returns the options of the last steps.
    pub(crate) fn of_sink(&self) -> SinkOptions {
        SinkOptions {
            partial_group_bytes: self.partial_group_bytes,
            passes_on_first_rows: self.passes_on_first_rows,
            threshold: Arc::clone(&self.threshold),
            memory: self.memory.clone(),
        }
    }
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            batch_rows: limits::BATCH_ROWS,
            record_bytes: limits::MAX_RECORD_BYTES,
            row_group_bytes: u64::MAX,
            row_group_part_bytes: limits::ROW_GROUP_PART_BYTES,
            fetches_beside: true,
            partial_group_bytes: None,
            passes_on_first_rows: false,
            zones: None,
            footer: None,
            decoding: None,
            pages: BlockBuffers::new(0, MAX_POOLED_PAGES),
            matching: Matching::default(),
            learned: Arc::default(),
            memory: MemoryBudget::unbounded(),
            interrupt: Interrupt::default(),
            spawner: Spawner::default(),
            helpers: None,
            rejects: None,
            threshold: Arc::default(),
        }
    }
}

/// State that scans of the same fragment share, over pieces of one object or over several objects.
#[derive(Debug, Default)]
pub struct ScanCaches {
    /// Measurements of whether searching text pays.
    pub(crate) search: Arc<SearchVerdict>,
    /// The plans of recent Parquet scans.
    pub(crate) parquet: Arc<LastPlans>,
}
