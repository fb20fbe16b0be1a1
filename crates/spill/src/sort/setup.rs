//! State that all steps of the sort of one partition share.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion_physical_expr::LexOrdering;
use datafusion_physical_plan::SpillManager;
use datafusion_physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};

use super::keys::Keys;
use super::memory::{Sizes, compact, has_dictionary};
use super::share::Share;

/// The maximum number of chunks that are merged at once.
const MAX_FAN_IN: usize = 32;

/// The parameters of the sort of one partition, and its handles to memory and spill files.
pub(super) struct Setup {
    pub(super) schema: SchemaRef,
    pub(super) ordering: LexOrdering,
    pub(super) keys: Keys,
    pub(super) sizes: Sizes,
    /// The maximum number of rows of an output batch.
    pub(super) batch_rows: usize,
    /// The maximum number of rows of the output, at least 1.
    pub(super) fetch: Option<usize>,
    /// True if a column contains a dictionary. A run is then a single piece, since each piece would
    /// be charged for the whole dictionary.
    pub(super) has_dictionary: bool,
    pub(super) spill: SpillManager,
    /// The maximum number of chunks that are merged at once, at least 2.
    pub(super) fan_in: usize,
    pub(super) baseline: BaselineMetrics,
    partition: usize,
    partitions: usize,
    memory: Arc<MemoryReservation>,
    unbounded: Arc<dyn MemoryPool>,
}

impl Setup {
    /// Creates the setup of `partition` of `partitions`, for rows of `schema` in `ordering`.
    ///
    /// # Errors
    ///
    /// Returns an error if a sort key has a type that cannot be encoded.
    pub(super) fn try_new(
        schema: SchemaRef,
        ordering: LexOrdering,
        fetch: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
        (partition, partitions): (usize, usize),
        context: &TaskContext,
    ) -> Result<Self> {
        let runtime = context.runtime_env();
        let config = context.session_config();
        let memory = MemoryConsumer::new(format!("RangeSortExec[{partition}]"))
            .with_can_spill(true)
            .register(&runtime.memory_pool);
        let memory = Arc::new(memory);
        let sizes = Sizes::new(&runtime.memory_pool, partitions);
        let fan_in = match runtime.disk_manager.max_spill_merge_fan_in() {
            0 => MAX_FAN_IN,
            configured => configured.clamp(2, MAX_FAN_IN),
        };
        let spill = SpillManager::new(runtime, SpillMetrics::new(metrics, partition), Arc::clone(&schema))
            .with_compression_type(config.spill_compression());
        Ok(Self {
            keys: Keys::try_new(&schema, &ordering)?,
            has_dictionary: schema.fields().iter().any(|field| has_dictionary(field.data_type())),
            schema,
            ordering,
            sizes,
            batch_rows: config.batch_size().max(1),
            fetch,
            spill,
            fan_in,
            baseline: BaselineMetrics::new(metrics, partition),
            partition,
            partitions,
            memory,
            unbounded: Arc::new(UnboundedMemoryPool::default()),
        })
    }

    /// Returns `batch` in the form in which it is emitted. If a merge of partitions follows, it is
    /// copied to separate buffers: that merge accounts for all buffers to which its batches refer,
    /// which for views are the buffers of all rows that were merged here.
    pub(super) fn emitted(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.partitions == 1 { Ok(batch) } else { compact(batch) }
    }

    /// Returns an empty share of the memory of this partition.
    pub(super) fn memory(&self) -> Share {
        Share::new(&self.memory)
    }

    /// Returns a reservation of an unbounded pool, for steps whose memory is already reserved.
    pub(super) fn reserved_before(&self) -> MemoryReservation {
        MemoryConsumer::new("RangeSortExec: reserved before").register(&self.unbounded)
    }

    /// Returns the error for `bytes`, needed for `purpose`, that the pool refused with `error`.
    pub(super) fn exhausted(&self, error: &DataFusionError, bytes: usize, purpose: &str) -> DataFusionError {
        DataFusionError::ResourcesExhausted(format!(
            "RangeSortExec[{}] needs {bytes} bytes {purpose}, after it spilled all that it could; \
             set pushdown.memory higher, or datafusion.execution.batch_size or target_partitions lower: {}",
            self.partition,
            error.strip_backtrace()
        ))
    }
}
