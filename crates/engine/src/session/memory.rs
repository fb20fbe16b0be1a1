//! The memory that the operators of queries share.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{
    MemoryLimit as PoolLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool, human_readable_size,
};
use pushdowndb_spill::memory::SharedMemoryPool;

use crate::machine::default_memory_bytes;
use crate::settings::{MemoryLimit, PushdownOptions};

/// A sort reserves at most this fraction of the limit (one over this number) to merge what it
/// spilled.
const MERGE_DIVISOR: usize = 32;

/// The pool of all sessions of the process that have no limit of their own.
static PROCESS_POOL: LazyLock<Arc<SharedMemoryPool>> =
    LazyLock::new(|| Arc::new(SharedMemoryPool::new(default_memory_bytes())));

/// The pool for a `limit`: that of the process for the default, else a new one.
pub(super) fn pool(limit: MemoryLimit) -> Arc<dyn MemoryPool> {
    match limit {
        MemoryLimit::Auto => Arc::clone(&PROCESS_POOL) as _,
        MemoryLimit::None => Arc::new(UnboundedMemoryPool::default()),
        MemoryLimit::Bytes(bytes) => Arc::new(SharedMemoryPool::new(usize::try_from(bytes).unwrap_or(usize::MAX))),
    }
}

/// A part of another memory pool: its consumers together hold at most `limit` bytes.
#[derive(Debug)]
pub(super) struct PartOfPool {
    whole: Arc<dyn MemoryPool>,
    limit: usize,
    bytes: AtomicUsize,
}

impl PartOfPool {
    /// Creates a pool of at most `limit` bytes of `whole`.
    pub(super) fn new(whole: Arc<dyn MemoryPool>, limit: usize) -> Self {
        Self { whole, limit, bytes: AtomicUsize::new(0) }
    }
}

impl MemoryPool for PartOfPool {
    fn name(&self) -> &str {
        "part"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.bytes.fetch_add(additional, Ordering::Relaxed);
        self.whole.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.bytes.fetch_sub(shrink, Ordering::Relaxed);
        self.whole.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        let grown = |bytes: usize| bytes.checked_add(additional).filter(|grown| *grown <= self.limit);
        if let Err(bytes) = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs {} more: the user's queries together hold {} of the {} that they may have",
                reservation.consumer().name(),
                human_readable_size(additional),
                human_readable_size(bytes),
                human_readable_size(self.limit),
            )));
        }
        self.whole.try_grow(reservation, additional).inspect_err(|_| {
            self.bytes.fetch_sub(additional, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> PoolLimit {
        PoolLimit::Finite(self.limit)
    }
}

impl fmt::Display for PartOfPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", human_readable_size(self.limit), self.whole)
    }
}

/// Sets the rows per batch, and what DataFusion's operators reserve for spilling, to what the
/// memory limit in `own` allows.
pub(super) fn fit_to_limit(options: &mut ConfigOptions, own: &PushdownOptions) {
    if own.memory != MemoryLimit::None
        && let Ok(one_batch) = ConfigNonZeroUsize::try_new(1)
    {
        // One spill file per batch: a reader of spilled rows waits for the first of several open
        // files, while the batch that it was notified of may be in another
        // (apache/datafusion#24883).
        options.execution.max_spill_file_size_bytes = one_batch;
    }
    let MemoryLimit::Bytes(bytes) = own.memory else { return };
    if let Ok(rows) = ConfigNonZeroUsize::try_new(own.batch_rows().min(options.execution.batch_size.get())) {
        options.execution.batch_size = rows;
    }
    let most = usize::try_from(bytes).unwrap_or(usize::MAX) / MERGE_DIVISOR;
    let reserved = &mut options.execution.sort_spill_reservation_bytes;
    *reserved = (*reserved).min(most);
    let in_place = &mut options.execution.sort_in_place_threshold_bytes;
    *in_place = (*in_place).min(most);
}
