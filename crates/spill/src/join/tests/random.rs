//! Random joins. `PUSHDOWNDB_JOIN_CASES` sets their number, `PUSHDOWNDB_JOIN_SEED` the first seed.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, Column};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::run::{Order, Place, Pool, collect, execute, output_rows, sorted, spill_count};
use super::tables::{Reading, Role, Shape, TableExec, Text, by_hash, columns, schema, table};
use crate::join::HybridHashJoinExec;
use crate::join::budget::JoinMemory;
use crate::join::partition::PARTITIONS;

const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// A random join.
#[derive(Debug)]
struct Case {
    join_type: JoinType,
    mode: PartitionMode,
    partitions: usize,
    keys: Vec<usize>,
    filter: bool,
    null_equality: NullEquality,
    /// The columns of the projection, as numbers modulo the number of columns.
    projection: Option<Vec<usize>>,
    fetch: Option<usize>,
    batch_size: usize,
    pool: Pool,
    order: Order,
    text: Text,
    build: Shape,
    probe: Shape,
}

fn choose<T: Clone>(random: &mut StdRng, of: &[T]) -> T {
    of[random.random_range(0..of.len())].clone()
}

fn case(random: &mut StdRng, number: u64) -> Case {
    let skewed = random.random_range(0..4) == 0;
    let sides = if skewed { [0, 30, 300, 300] } else { [0, 300, 1500, 4000] };
    let batch_rows = choose(random, &[3, 50, 700]);
    let length = choose(random, &[3, 40, 400]);
    let side = |random: &mut StdRng| Shape {
        rows: choose(random, &sides),
        batch_rows,
        keys: choose(random, &[5, 400, 100_000]).max(if skewed { 5 } else { 400 }),
        skew: if skewed { 90 } else { 0 },
        nulls: choose(random, &[0, 5, 40]),
        text: length,
    };
    let (build, probe) = (side(random), side(random));
    let limit = choose(random, &[32 << 10, 64 << 10, 128 << 10, 512 << 10]);
    let mode = choose(random, &[PartitionMode::Partitioned, PartitionMode::CollectLeft]);
    let partitions = choose(random, &[1, 3]);
    Case {
        join_type: JOIN_TYPES[number as usize % JOIN_TYPES.len()],
        mode,
        partitions,
        keys: choose(random, &[vec![0], vec![1, 0], vec![0, 1], vec![0]]),
        filter: random.random(),
        null_equality: choose(random, &[NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull]),
        projection: random.random::<bool>().then(|| {
            let columns = random.random_range(0..6);
            (0..columns).map(|_| random.random_range(0..100)).collect()
        }),
        fetch: (partitions == 1 && random.random_range(0..5) == 0).then(|| random.random_range(1..200)),
        batch_size: choose(random, &[7, 100, 1000]),
        pool: match random.random_range(0..12) {
            0 => Pool::Unlimited,
            1..=6 => Pool::Greedy(limit),
            _ => Pool::Fair(limit),
        },
        order: choose(random, &[Order::AtOnce, Order::AtOnce, Order::OneByOne, Order::Backwards]),
        text: choose(random, &[Text::Plain, Text::Views, Text::Dictionary]),
        build,
        probe,
    }
}

/// The rows of both sides, in partitions.
struct Sides {
    build: Vec<Vec<RecordBatch>>,
    probe: Vec<Vec<RecordBatch>>,
}

impl Sides {
    fn new(random: &mut StdRng, case: &Case) -> Self {
        let build = table(random, &schema("build", case.text), &case.build);
        let probe = table(random, &schema("probe", case.text), &case.probe);
        let partitioned = case.mode == PartitionMode::Partitioned && case.partitions > 1;
        let build = if partitioned { by_hash(&build, &case.keys, case.partitions) } else { vec![build] };
        let probe = match case.partitions {
            1 => vec![probe],
            count => by_hash(&probe, &case.keys, count),
        };
        Self { build, probe }
    }

    /// Returns the bytes that the build side of each partition needs: its actual size, and a lower
    /// bound.
    fn needed(&self) -> Vec<(usize, usize)> {
        let memory = JoinMemory::new(&Default::default());
        let needed = |batches: &[RecordBatch]| {
            let mut counter = RecordBatchMemoryCounter::new();
            batches.iter().for_each(|batch| _ = counter.count_batch(batch));
            memory.building(counter.memory_usage(), batches.iter().map(RecordBatch::num_rows).sum())
        };
        // Batches of a few rows become smaller when they are partitioned and combined.
        let at_least = |batches: &[RecordBatch]| match batches.first() {
            Some(first) => needed(&[concat_batches(&first.schema(), batches).unwrap()]) / 2,
            None => 0,
        };
        self.build.iter().map(|batches| (needed(batches), at_least(batches))).collect()
    }
}

/// Creates the join of `case` over `sides`.
fn hash_join(case: &Case, sides: &Sides) -> HashJoinExec {
    let reading = Reading::of(sides.build.len());
    let (left, right) = (schema("build", case.text), schema("probe", case.text));
    let on = columns(&left, &case.keys).into_iter().zip(columns(&right, &case.keys)).collect();
    let build = TableExec::new(left, sides.build.clone(), &case.keys, Role::Build(Arc::clone(&reading)));
    let probe = TableExec::new(right, sides.probe.clone(), &case.keys, Role::Probe(reading));
    let join = HashJoinExecBuilder::new(build, probe, on, case.join_type)
        .with_partition_mode(case.mode)
        .with_null_equality(case.null_equality)
        .with_filter(case.filter.then(filter))
        .with_fetch(case.fetch)
        .build()
        .unwrap();
    let columns = join.schema().fields().len();
    let projection = case.projection.as_ref().map(|numbers| numbers.iter().map(|number| number % columns).collect());
    join.builder().with_projection(projection).build().unwrap()
}

/// Returns the filter `build_value < probe_value`.
fn filter() -> JoinFilter {
    let schema = Schema::new(vec![
        Field::new("build_value", DataType::Int64, true),
        Field::new("probe_value", DataType::Int64, true),
    ]);
    let (build, probe) = (Arc::new(Column::new("build_value", 0)), Arc::new(Column::new("probe_value", 1)));
    let sides = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 2, side });
    JoinFilter::new(Arc::new(BinaryExpr::new(build, Operator::Lt, probe)), sides.to_vec(), Arc::new(schema))
}

async fn check(seed: u64) -> usize {
    let random = &mut StdRng::seed_from_u64(seed);
    let case = case(random, seed);
    check_case(random, seed, case).await
}

/// Checks `case` with random data, and returns the number of files that it spilled.
async fn check_case(random: &mut StdRng, seed: u64, case: Case) -> usize {
    let sides = Sides::new(random, &case);

    // A plain join executes its probe side early.
    let unlimited = Place::new(Pool::Unlimited, case.batch_size);
    let fetch = case.fetch;
    let plain = Case { fetch: None, ..case };
    let reference = hash_join(&plain, &sides);
    let (left, right) = (reference.left(), reference.right());
    let reference =
        reference.builder().with_new_children(vec![Arc::clone(left), without_checks(right, &plain, &sides)]);
    let reference: Arc<dyn ExecutionPlan> = Arc::new(reference.unwrap().build().unwrap());
    let expected = collect(&reference, &unlimited, Order::AtOnce).await.unwrap();
    let expected = sorted(&expected.concat());
    let case = Case { fetch, ..plain };

    let join: Arc<dyn ExecutionPlan> =
        Arc::new(HybridHashJoinExec::try_new(Arc::new(hash_join(&case, &sides))).unwrap());
    let place = Place::new(case.pool, case.batch_size);
    let rows =
        collect(&join, &place, case.order).await.unwrap_or_else(|error| panic!("seed {seed}: {error}: {case:?}"));
    place.assert_clean();
    assert!(rows.iter().flatten().all(|batch| batch.schema() == join.schema()), "seed {seed}: {case:?}");
    let rows = sorted(&rows.concat());
    assert_eq!(output_rows(&join), rows.len(), "seed {seed}: {case:?}");
    match case.fetch {
        None => assert!(rows == expected, "seed {seed}: {} rows, not {}: {case:?}", rows.len(), expected.len()),
        Some(fetch) => {
            assert_eq!(rows.len(), expected.len().min(fetch), "seed {seed}: {case:?}");
            assert!(is_part_of(&rows, &expected), "seed {seed}: {case:?}");
        }
    }

    let needed = sides.needed();
    let spilled = spill_count(&join);
    if needed.iter().any(|(_, at_least)| *at_least > case.pool.limit()) {
        assert!(spilled > 0, "seed {seed}: it should have spilled: {case:?}");
    }
    if needed.iter().map(|(needed, _)| needed).sum::<usize>() <= case.pool.limit() / (case.partitions + 1) {
        assert_eq!(spilled, 0, "seed {seed}: it should not have spilled: {case:?}");
    }

    // Runs the join again, and drops it in the middle.
    let join: Arc<dyn ExecutionPlan> =
        Arc::new(HybridHashJoinExec::try_new(Arc::new(hash_join(&case, &sides))).unwrap());
    let place = Place::new(case.pool, case.batch_size);
    let mut streams = execute(&join, &place).unwrap();
    let batches = random.random_range(0..3);
    for _ in 0..batches {
        futures::TryStreamExt::try_next(&mut streams[0]).await.unwrap();
    }
    drop(streams);
    place.assert_clean();
    spilled
}

/// Returns the probe side without the check that the build side was read first.
fn without_checks(probe: &Arc<dyn ExecutionPlan>, case: &Case, sides: &Sides) -> Arc<dyn ExecutionPlan> {
    let role = Role::Build(Reading::of(sides.probe.len()));
    TableExec::new(probe.schema(), sides.probe.clone(), &case.keys, role)
}

fn is_part_of(rows: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut all = all.iter();
    rows.iter().all(|row| all.any(|other| other == row))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_return_the_rows_of_a_plain_hash_join() {
    let number = |name, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (cases, first) = (number("PUSHDOWNDB_JOIN_CASES", 200), number("PUSHDOWNDB_JOIN_SEED", 0));
    let mut spilled = 0;
    for seed in first..first + cases {
        spilled += usize::from(check(seed).await > 0);
    }
    // Enough cases must spill for the test to be meaningful.
    assert!(spilled as u64 * 3 >= cases, "only {spilled} of {cases} joins have spilled");
}

/// Checks joins of each type whose sides have `rows` rows. Returns how many files each of them
/// spilled.
async fn each_join_type(pool: Pool, rows: usize, keys: i64, skew: u32) -> Vec<usize> {
    let mut spilled = vec![];
    for seed in 0..20 {
        let random = &mut StdRng::seed_from_u64(seed);
        let side = |keys| Shape { rows, batch_rows: 100, keys, skew, nulls: 3, text: 300 };
        let case = Case {
            join_type: JOIN_TYPES[seed as usize % 10],
            mode: if seed < 10 { PartitionMode::Partitioned } else { PartitionMode::CollectLeft },
            partitions: if seed < 10 { 1 } else { 3 },
            keys: vec![0],
            filter: seed % 3 == 0,
            null_equality: NullEquality::NullEqualsNothing,
            projection: None,
            fetch: None,
            batch_size: 100,
            pool,
            order: Order::AtOnce,
            text: Text::Plain,
            build: side(keys),
            probe: side(keys),
        };
        spilled.push(check_case(random, seed, case).await);
    }
    spilled
}

#[tokio::test]
async fn rows_of_one_key_are_joined_in_chunks() {
    // All but a few rows have the same key, and they need three times the limit.
    let spilled = each_join_type(Pool::Greedy(32 << 10), 300, 5, 98).await;
    assert!(spilled.iter().all(|files| *files > 0), "{spilled:?}");
}

#[tokio::test]
async fn large_partitions_are_distributed_again() {
    let spilled = each_join_type(Pool::Greedy(32 << 10), 3000, 100_000, 0).await;
    // There are more files than partitions of both sides, so a second level was used.
    assert!(spilled.iter().all(|files| *files > 3 * 2 * PARTITIONS), "{spilled:?}");
}

#[tokio::test]
async fn joins_succeed_without_any_memory() {
    for limit in [0, 1000] {
        let spilled = each_join_type(Pool::Greedy(limit), 150, 400, 0).await;
        assert!(spilled.iter().all(|files| *files > 0), "{spilled:?}");
    }
}
