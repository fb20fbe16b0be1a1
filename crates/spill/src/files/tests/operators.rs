//! DataFusion's operators over these files, compared with the same operators in memory.

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion_common::config::SpillCompression;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::DiskManagerBuilder;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::test::TestMemoryExec;
use rand::{Rng, SeedableRng};

use super::*;

const ROWS: usize = 40_000;
const BATCH_ROWS: usize = 500;
const PARTITIONS: usize = 3;

/// The tiers that each operator runs over.
#[derive(Clone, Copy, Debug)]
enum Tier {
    Disk,
    Remote,
    Both,
}

fn input(rng: &mut StdRng) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("row", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
    ]));
    let batches = (0..ROWS / BATCH_ROWS).map(|batch| {
        let keys =
            (0..BATCH_ROWS).map(|_| rng.random_bool(0.95).then(|| format!("key {}", rng.random_range(0..15_000))));
        let keys: StringArray = keys.collect();
        let rows: Int64Array = (0..BATCH_ROWS).map(|row| Some((batch * BATCH_ROWS + row) as i64)).collect();
        let texts: StringArray = (0..BATCH_ROWS).map(|_| Some("text ".repeat(rng.random_range(0..20)))).collect();
        RecordBatch::try_new(schema.clone(), vec![Arc::new(keys), Arc::new(rows), Arc::new(texts)]).unwrap()
    });
    let batches: Vec<_> = batches.collect();
    TestMemoryExec::try_new_exec(&[batches], schema.clone(), None).unwrap()
}

fn context(pool: Arc<dyn MemoryPool>, query: &QuerySpill, compression: SpillCompression) -> Arc<TaskContext> {
    let mut config = SessionConfig::new().with_batch_size(BATCH_ROWS);
    config.options_mut().execution.sort_spill_reservation_bytes = 200_000;
    config.options_mut().execution.sort_in_place_threshold_bytes = 0;
    config.options_mut().execution.max_spill_file_size_bytes = "300000".parse().unwrap();
    config.options_mut().execution.spill_compression = compression;
    let disk =
        DiskManagerBuilder::default().with_max_spill_merge_fan_in(4).with_temp_file_factory(Arc::new(query.clone()));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime.build_arc().unwrap()))
}

/// Returns the rows of each partition. Runs one partition after the other.
async fn run(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Vec<Vec<String>> {
    let partitions = plan.properties().output_partitioning().partition_count();
    let mut rows = Vec::new();
    for partition in 0..partitions {
        let batches: Vec<_> = plan.execute(partition, context.clone()).unwrap().try_collect().await.unwrap();
        let text = pretty_format_batches(&batches).unwrap().to_string();
        rows.push(text.lines().map(str::to_owned).collect());
    }
    rows
}

/// Runs a plan over random rows within `memory` bytes over each tier, and without a limit, and
/// compares the rows. Their order is compared, too, if the plan `sorts` them.
async fn compare(memory: usize, sorts: bool, plan: impl Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>) {
    for (seed, tier) in [Tier::Disk, Tier::Remote, Tier::Both].into_iter().enumerate() {
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
        let process = process(folder.path(), if matches!(tier, Tier::Both) { 50_000 } else { 0 });
        let options = QueryOptions {
            disk: !matches!(tier, Tier::Remote),
            remote: (!matches!(tier, Tier::Disk)).then(|| remote(&store)),
            part_bytes: rng.random_range(1000..100_000),
            uploads: 2,
            encrypt: rng.random_bool(0.5),
            ..QueryOptions::default()
        };
        let compression = [SpillCompression::Lz4Frame, SpillCompression::Uncompressed][seed % 2];
        let input = input(&mut rng);
        let query = QuerySpill::new(&process, &options).unwrap();
        let unlimited = context(Arc::new(UnboundedMemoryPool::default()), &query, compression);
        let mut expected = run(&plan(input.clone()), &unlimited).await;
        assert_eq!(query.usage().files, 0);

        let limited = context(Arc::new(FairSpillPool::new(memory)), &query, compression);
        let mut rows = run(&plan(input), &limited).await;
        if !sorts {
            rows.iter_mut().chain(&mut expected).for_each(|rows| rows.sort());
        }
        assert!(rows == expected, "{tier:?} {options:?}");
        let usage = query.usage();
        assert!(usage.files > 0 && usage.parts_read > 0, "{tier:?}: {usage:?}");
        assert_eq!(usage.disk_bytes_written > 0, options.disk, "{usage:?}");
        assert_eq!(usage.remote_bytes_written > 0, options.remote.is_some(), "{usage:?}");
        drop((unlimited, limited, query));
        // Tasks of the operators, and their streams, end in the background.
        while process.disk_bytes() > 0 || !keys(&*store.inner).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_gives_the_same_rows() {
    compare(1_000_000, true, |input| {
        let schema = input.schema();
        let order = ["key", "row"].map(|name| PhysicalSortExpr::new_default(col(name, &schema).unwrap()));
        Arc::new(SortExec::new(LexOrdering::new(order).unwrap(), input))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_gives_the_same_rows() {
    compare(500_000, false, |input| {
        let schema = input.schema();
        let group = PhysicalGroupBy::new_single(vec![(col("key", &schema).unwrap(), "key".into())]);
        let sum = AggregateExprBuilder::new(sum_udaf(), vec![col("row", &schema).unwrap()]);
        let sum = Arc::new(sum.schema(schema.clone()).alias("sum").build().unwrap());
        let plan = AggregateExec::try_new(AggregateMode::Single, group, vec![sum], vec![None], input, schema);
        Arc::new(plan.unwrap())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repartition_that_reads_what_it_writes_gives_the_same_rows() {
    // Partitions are read one after the other, so the later ones spill while the first one is read.
    compare(100_000, false, |input| {
        let key = col("key", &input.schema()).unwrap();
        Arc::new(RepartitionExec::try_new(input, Partitioning::Hash(vec![key], PARTITIONS)).unwrap())
    })
    .await;
}
