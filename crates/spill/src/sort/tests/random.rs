//! Random tables, orderings and memory limits: the output must be that of DataFusion.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::config::SpillCompression;
use datafusion_common::utils::memory::get_record_batch_memory_size;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::sorts::sort::SortExec;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::tables::{SHAPES, batch, cut, ordering};
use super::{Place, keys, rows, spilled, table};
use crate::sort::RangeSortExec;

/// The number of cases, unless `PUSHDOWNDB_SORT_CASES` sets it.
const CASES: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_output_is_that_of_a_sort_in_memory() {
    let cases = std::env::var("PUSHDOWNDB_SORT_CASES").map_or(CASES, |cases| cases.parse().expect("a number"));
    let first = std::env::var("PUSHDOWNDB_SORT_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut spilling = 0;
    for seed in first..first + cases {
        spilling += u64::from(case(seed).await > 0);
    }
    // Three in four pools are small, but so are some tables.
    assert!(cases < 100 || spilling > cases / 3, "{spilling} of {cases} cases spilled");
}

/// Runs the case with `seed`. Returns how many files were spilled.
async fn case(seed: u64) -> usize {
    let random = &mut StdRng::seed_from_u64(seed);
    let shape = *SHAPES.choose(random).unwrap();
    let count = *[1, 50, 1000, 4000, 10_000].choose(random).unwrap();
    let wide = *[10, 2000].choose(random).unwrap();
    let whole = batch(shape, count, wide, random);
    let schema = whole.schema();
    let bytes = get_record_batch_memory_size(&whole);
    let order = random_ordering(&schema, random);

    let fair = random.random_bool(0.7);
    // In a greedy pool, one partition may take memory that another one needs.
    let partitions = if fair { random.random_range(1..=3) } else { 1 };
    // The other consumer also gets a share of the pool.
    let hog = (fair && random.random_bool(0.3)).then_some(seed);
    let consumers = partitions * if hog.is_some() { 2 } else { 1 };
    let limit = match random.random_range(0..4) {
        0 => usize::MAX,
        _ => consumers * random.random_range(64 << 10..(bytes / 2).max(80 << 10)),
    };
    let pool: Arc<dyn MemoryPool> = match (limit, fair) {
        (usize::MAX, _) => Arc::new(UnboundedMemoryPool::default()),
        (_, true) => Arc::new(FairSpillPool::new(limit)),
        (_, false) => Arc::new(GreedyMemoryPool::new(limit)),
    };
    let fetch = random.random_bool(0.3).then(|| random.random_range(1..=count));
    let compression = *[SpillCompression::Uncompressed, SpillCompression::Lz4Frame].choose(random).unwrap();
    let mut config = SessionConfig::new().with_batch_size(random.random_range(16..2000));
    config.options_mut().execution.spill_compression = compression;
    let place = Place::new(pool, config);

    // A wide row, and the minimum sizes of the columns, must fit several times.
    let most_rows = random.random_range(1..30);
    let copied = random.random_bool(0.5);
    let batches: Vec<Vec<RecordBatch>> = (0..partitions)
        .map(|partition| {
            let share = count / partitions;
            let rows = if partition + 1 == partitions { count - share * partition } else { share };
            cut(&whole.slice(share * partition, rows), most_rows, copied, random)
        })
        .collect();
    let description = format!(
        "seed {seed}: {shape:?}, {count} rows, {bytes} bytes, by {order}, fetch {fetch:?}, {partitions} partitions, \
         limit {limit}, fair {fair}, hog {hog:?}"
    );

    let ours: Arc<dyn ExecutionPlan> =
        Arc::new(RangeSortExec::try_new(order.clone(), table(batches.clone(), hog), fetch, true).unwrap());
    let output = place.run(&ours).await.unwrap_or_else(|error| panic!("{description}: {error}"));
    let theirs: Arc<dyn ExecutionPlan> =
        Arc::new(SortExec::new(order.clone(), table(batches.clone(), None)).with_preserve_partitioning(true));
    let expected =
        Place::new(Arc::new(UnboundedMemoryPool::default()), SessionConfig::new()).run(&theirs).await.unwrap();
    assert_eq!(output.len(), expected.len());
    let mut total = 0;
    for ((output, expected), input) in output.iter().zip(&expected).zip(&batches) {
        let mut expected_keys = keys(expected, &order);
        expected_keys.truncate(fetch.unwrap_or(usize::MAX));
        let output_keys = keys(output, &order);
        total += output_keys.len();
        assert!(output_keys == expected_keys, "{description}: other keys");
        let (output_rows, input_rows) = (rows(output), rows(input));
        assert_eq!(output_rows.len(), expected_keys.len(), "{description}");
        assert!(output_rows.iter().all(|(id, row)| input_rows[id] == *row), "{description}: other rows");
    }
    assert_eq!(ours.metrics().unwrap().output_rows(), Some(total), "{description}");
    assert!(place.pool.peak_reserved() <= limit, "{description}: peak {}", place.pool.peak_reserved());
    place.assert_nothing_left().await;
    spilled(&ours).0
}

/// Returns an ordering by one to three columns in random directions.
fn random_ordering(schema: &SchemaRef, random: &mut StdRng) -> datafusion_physical_expr::LexOrdering {
    let names = ["key", "int", "string", "view", "float", "decimal", "date", "bool", "dictionary", "wide"];
    let mut columns = Vec::new();
    for _ in 0..random.random_range(1..=3) {
        let name = if random.random_bool(0.4) { "key" } else { names.choose(random).unwrap() };
        if columns.iter().all(|(other, _, _)| *other != name) {
            columns.push((name, random.random_bool(0.5), random.random_bool(0.5)));
        }
    }
    ordering(schema, &columns)
}
