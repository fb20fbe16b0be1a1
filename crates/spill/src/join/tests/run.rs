//! Runs joins with a memory limit, and compares their output.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, future};
use parking_lot::Mutex;

/// A memory pool that records the maximum reservation of `pool`.
#[derive(Debug)]
struct PeakPool {
    pool: Arc<dyn MemoryPool>,
    peak: Mutex<usize>,
}

impl Display for PeakPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.pool, f)
    }
}

impl MemoryPool for PeakPool {
    fn name(&self) -> &str {
        "peak"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut peak = self.peak.lock();
        self.pool.grow(reservation, additional);
        *peak = self.pool.reserved().max(*peak);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut peak = self.peak.lock();
        self.pool.try_grow(reservation, additional)?;
        *peak = self.pool.reserved().max(*peak);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

/// A memory pool of the tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pool {
    Unlimited,
    Greedy(usize),
    Fair(usize),
}

impl Pool {
    pub(super) fn limit(self) -> usize {
        match self {
            Pool::Unlimited => usize::MAX,
            Pool::Greedy(bytes) | Pool::Fair(bytes) => bytes,
        }
    }
}

/// The context in which a join runs, and records of what it used.
pub(super) struct Place {
    pub(super) context: Arc<TaskContext>,
    runtime: Arc<RuntimeEnv>,
    peak: Arc<PeakPool>,
    pool: Pool,
}

impl Place {
    pub(super) fn new(pool: Pool, batch_size: usize) -> Self {
        let limited: Arc<dyn MemoryPool> = match pool {
            Pool::Unlimited => Arc::new(UnboundedMemoryPool::default()),
            Pool::Greedy(bytes) => Arc::new(GreedyMemoryPool::new(bytes)),
            Pool::Fair(bytes) => Arc::new(FairSpillPool::new(bytes)),
        };
        let peak = Arc::new(PeakPool { pool: limited, peak: Mutex::new(0) });
        let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&peak) as _);
        let runtime = builder.build_arc().unwrap();
        let config = SessionConfig::new().with_batch_size(batch_size);
        let context = TaskContext::default().with_session_config(config).with_runtime(Arc::clone(&runtime));
        Self { context: Arc::new(context), runtime, peak, pool }
    }

    /// Asserts that no memory or file is left, and that the memory limit was kept.
    pub(super) fn assert_clean(&self) {
        assert_eq!(self.runtime.memory_pool.reserved(), 0, "memory is still reserved");
        assert_eq!(self.runtime.disk_manager.used_disk_space(), 0, "files are left");
        assert!(*self.peak.peak.lock() <= self.pool.limit(), "more than the limit was reserved");
    }

    /// Returns the maximum number of bytes that were reserved at the same time.
    pub(super) fn peak(&self) -> usize {
        *self.peak.peak.lock()
    }
}

/// The order in which the output partitions are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    AtOnce,
    OneByOne,
    Backwards,
}

/// Executes all partitions of `plan` without polling their streams.
pub(super) fn execute(plan: &Arc<dyn ExecutionPlan>, place: &Place) -> Result<Vec<SendableRecordBatchStream>> {
    let partitions = plan.output_partitioning().partition_count();
    (0..partitions).map(|partition| plan.execute(partition, Arc::clone(&place.context))).collect()
}

/// Returns the rows of each partition of `plan`. Returns an error if it takes a minute.
pub(super) async fn collect(
    plan: &Arc<dyn ExecutionPlan>,
    place: &Place,
    order: Order,
) -> Result<Vec<Vec<RecordBatch>>> {
    let streams = execute(plan, place)?;
    let read = async {
        match order {
            Order::AtOnce => {
                let tasks = streams.into_iter().map(|stream| tokio::spawn(stream.try_collect::<Vec<_>>()));
                let results = future::join_all(tasks).await;
                results.into_iter().map(|result| result.unwrap()).collect()
            }
            Order::OneByOne => {
                let streams = futures::stream::iter(streams);
                streams.then(|stream| stream.try_collect()).try_collect().await
            }
            Order::Backwards => {
                let streams = futures::stream::iter(streams.into_iter().rev());
                let mut all: Vec<_> = streams.then(|stream| stream.try_collect()).try_collect().await?;
                all.reverse();
                Ok(all)
            }
        }
    };
    match tokio::time::timeout(Duration::from_secs(60), read).await {
        Ok(result) => result,
        Err(_) => Err(DataFusionError::Execution("the join does not end".to_string())),
    }
}

/// Returns the rows of `batches` in encoded form, sorted.
pub(super) fn sorted(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let Some(first) = batches.first() else { return vec![] };
    if first.num_columns() == 0 {
        return vec![vec![]; batches.iter().map(RecordBatch::num_rows).sum()];
    }
    let fields = first.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields).unwrap();
    let mut rows = vec![];
    for batch in batches {
        let converted = converter.convert_columns(batch.columns()).unwrap();
        rows.extend(converted.iter().map(|row| row.as_ref().to_vec()));
    }
    rows.sort_unstable();
    rows
}

/// Returns the number of rows that `plan` has emitted, over all partitions.
pub(super) fn output_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().unwrap().output_rows().unwrap()
}

/// Returns the number of files that `plan` has spilled, over all partitions.
pub(super) fn spill_count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().unwrap().spill_count().unwrap()
}
