//! The sort compared with DataFusion's, over generated tables and with little memory.

mod costs;
mod random;
pub(super) mod tables;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion_common::Result;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, PeakRecordingPool};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::LexOrdering;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::keys::{Key, Keys};

/// A partition of a table. If `hog` is set, another consumer reserves and releases memory at random
/// while the partition is read.
#[derive(Debug)]
struct Partition {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    hog: Option<u64>,
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let pool = &context.runtime_env().memory_pool;
        let mut hog = self.hog.map(|seed| {
            (StdRng::seed_from_u64(seed), MemoryConsumer::new("other").with_can_spill(true).register(pool))
        });
        let batches = self.batches.clone();
        let stream = futures::stream::iter(batches).map(move |batch| {
            if let Some((random, other)) = &mut hog {
                other.free();
                let bytes = random.random_range(0..1 << 18);
                // The consumer does without memory that is refused.
                let _ = other.try_grow(bytes);
            }
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// Creates a table of `partitions`.
fn table(partitions: Vec<Vec<RecordBatch>>, hog: Option<u64>) -> Arc<dyn ExecutionPlan> {
    let schema = partitions.iter().flatten().next().expect("a batch").schema();
    let partitions = partitions
        .into_iter()
        .map(|batches| Arc::new(Partition { schema: Arc::clone(&schema), batches, hog }) as Arc<dyn PartitionStream>);
    let partitions = partitions.collect();
    Arc::new(StreamingTableExec::try_new(Arc::clone(&schema), partitions, None, vec![], false, None).unwrap())
}

/// The context in which queries of a test run.
struct Place {
    context: Arc<TaskContext>,
    pool: Arc<PeakRecordingPool>,
    directory: TempDir,
}

impl Place {
    /// Creates a context with memory from `pool`, files in a separate directory, and `config`.
    fn new(pool: Arc<dyn MemoryPool>, config: SessionConfig) -> Self {
        let pool = Arc::new(PeakRecordingPool::new(pool));
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .with_temp_file_path(directory.path())
            .build_arc()
            .unwrap();
        let context = TaskContext::default().with_session_config(config).with_runtime(runtime);
        Self { context: Arc::new(context), pool, directory }
    }

    /// Returns the output of each partition of `plan`. All partitions run at the same time.
    async fn run(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Vec<RecordBatch>>> {
        let partitions = plan.output_partitioning().partition_count();
        let streams: Vec<_> = (0..partitions)
            .map(|partition| plan.execute(partition, Arc::clone(&self.context)))
            .collect::<Result<_>>()?;
        let outputs = streams.into_iter().map(|stream| stream.try_collect::<Vec<_>>());
        futures::future::try_join_all(outputs).await
    }

    /// Panics if memory or files are left. Readers in the background may end a moment later.
    async fn assert_nothing_left(&self) {
        for _ in 0..1000 {
            if self.pool.reserved() == 0 && files(self.directory.path()) == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("{} bytes and {} files are left", self.pool.reserved(), files(self.directory.path()));
    }
}

/// The number of files below `directory`.
fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// Returns the encoded keys of `batches`.
fn keys(batches: &[RecordBatch], ordering: &LexOrdering) -> Vec<Key> {
    let mut all = Vec::new();
    for batch in batches {
        let rows = Keys::try_new(&batch.schema(), ordering).unwrap().rows(batch).unwrap();
        all.extend(rows.iter().map(|row| Key::from(row.data())));
    }
    all
}

/// Returns the encoded rows of `batches` by their first column. Panics if that is not unique.
fn rows(batches: &[RecordBatch]) -> HashMap<i64, Key> {
    let mut all = HashMap::new();
    for batch in batches {
        let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let rows = RowConverter::new(fields).unwrap().convert_columns(batch.columns()).unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        for (id, row) in ids.iter().zip(rows.iter()) {
            assert!(all.insert(*id, Key::from(row.data())).is_none(), "row {id} twice");
        }
    }
    all
}

/// Returns how many files, bytes and rows `plan` has spilled.
fn spilled(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize, usize) {
    let metrics = plan.metrics().expect("metrics");
    let counts = (metrics.spill_count(), metrics.spilled_bytes(), metrics.spilled_rows());
    (counts.0.expect("files"), counts.1.expect("bytes"), counts.2.expect("rows"))
}
