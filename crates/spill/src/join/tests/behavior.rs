//! How a join is displayed, its dynamic filter, its estimate of memory, and dropped streams.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
use datafusion_common::{JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion_physical_plan::display::DisplayableExecutionPlan;
use datafusion_physical_plan::filter::FilterExec;
use datafusion_physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;

use super::run::{Order, Place, Pool, collect, execute, output_rows, sorted, spill_count};
use super::tables::{Reading, Role, TableExec, by_hash, columns};
use crate::join::HybridHashJoinExec;
use crate::join::budget::JoinMemory;

/// Returns a table with one column of `keys`.
fn keys(name: &str, keys: impl IntoIterator<Item = i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new(name, DataType::Int64, true)]);
    let keys = Int64Array::from_iter_values(keys);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys)]).unwrap()
}

/// Splits a table into batches of 500 keys.
fn batches(batch: &RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    (0..rows)
        .step_by(500)
        .map(|at| keys(batch.schema().field(0).name(), at as i64..(at + 500).min(rows) as i64))
        .collect()
}

struct Joined {
    plan: Arc<dyn ExecutionPlan>,
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The filter below the join, whose output rows are those that the join reads.
    probe: Arc<dyn ExecutionPlan>,
}

/// Creates an inner join of `build` keys with `probe` keys, with a dynamic filter on its probe
/// side.
fn filtered(build: i64, probe: i64, mode: PartitionMode, partitions: usize) -> Joined {
    let (left, right) = (batches(&keys("build", 0..build)), batches(&keys("probe", 0..probe)));
    let (left_schema, right_schema) = (keys("build", []).schema(), keys("probe", []).schema());
    let left = match mode {
        PartitionMode::Partitioned => by_hash(&left, &[0], partitions),
        _ => vec![left],
    };
    let reading = Reading::of(left.len());
    let left = TableExec::new(left_schema, left, &[0], Role::Build(Arc::clone(&reading)));
    let right = TableExec::new(right_schema, by_hash(&right, &[0], partitions), &[0], Role::Probe(reading));
    let on = columns(&left.schema(), &[0]).into_iter().zip(columns(&right.schema(), &[0])).collect();
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(columns(&right.schema(), &[0]), lit(true)));
    let probe: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(Arc::clone(&filter) as _, right).unwrap());
    let join = HashJoinExecBuilder::new(left, Arc::clone(&probe), on, JoinType::Inner)
        .with_partition_mode(mode)
        .build()
        .unwrap()
        .with_dynamic_filter_expr(Arc::clone(&filter))
        .unwrap();
    let plan = Arc::new(HybridHashJoinExec::try_new(Arc::new(join)).unwrap());
    Joined { plan, filter, probe }
}

async fn is_complete(filter: &DynamicFilterPhysicalExpr) -> bool {
    tokio::time::timeout(Duration::from_secs(10), filter.wait_complete()).await.is_ok()
}

#[tokio::test]
async fn the_dynamic_filter_works_where_the_build_side_fits() {
    for (mode, partitions) in [(PartitionMode::Partitioned, 3), (PartitionMode::CollectLeft, 3)] {
        let join = filtered(1000, 20_000, mode, partitions);
        let place = Place::new(Pool::Unlimited, 1000);
        let rows = collect(&join.plan, &place, Order::AtOnce).await.unwrap().concat();
        assert_eq!(sorted(&rows).len(), 1000);
        assert_eq!(spill_count(&join.plan), 0);
        assert!(is_complete(&join.filter).await);
        assert_eq!(output_rows(&join.probe), 1000, "rows that match nothing were not filtered");
        place.assert_clean();
    }
}

#[tokio::test]
async fn the_dynamic_filter_is_completed_where_the_build_side_spills() {
    for (mode, partitions) in [(PartitionMode::Partitioned, 3), (PartitionMode::CollectLeft, 3)] {
        let join = filtered(20_000, 30_000, mode, partitions);
        let place = Place::new(Pool::Greedy(100_000), 1000);
        let rows = collect(&join.plan, &place, Order::AtOnce).await.unwrap().concat();
        assert_eq!(sorted(&rows).len(), 20_000);
        assert!(spill_count(&join.plan) > 0);
        assert!(is_complete(&join.filter).await);
        place.assert_clean();
    }
}

#[tokio::test]
async fn partitions_do_not_wait_for_one_that_was_dropped() {
    for limit in [usize::MAX, 100_000] {
        let join = filtered(20_000, 30_000, PartitionMode::Partitioned, 3);
        let place = Place::new(Pool::Greedy(limit), 1000);
        let mut streams = execute(&join.plan, &place).unwrap();
        drop(streams.remove(1));
        let read = futures::future::try_join_all(streams.into_iter().map(|stream| stream.try_collect::<Vec<_>>()));
        let rows = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
        let all = by_hash(&[keys("build", 0..20_000)], &[0], 3);
        let expected = [0, 2].map(|partition| all[partition][0].num_rows());
        let rows: Vec<_> = rows.iter().map(|rows| sorted(rows).len()).collect();
        assert_eq!(rows, expected);
        place.assert_clean();
    }
}

#[tokio::test]
async fn each_run_is_a_new_one() {
    let join = filtered(20_000, 30_000, PartitionMode::CollectLeft, 2);
    let place = Place::new(Pool::Greedy(100_000), 1000);
    for run in 1..=2 {
        let rows = collect(&join.plan, &place, Order::AtOnce).await.unwrap().concat();
        assert_eq!(sorted(&rows).len(), 20_000);
        assert_eq!(output_rows(&join.plan), run * 20_000);
        place.assert_clean();
    }
}

#[test]
fn it_shows_what_a_hash_join_shows_and_has_no_order() {
    let (left, right) = (keys("build", 0..10), keys("probe", 0..10));
    let role = Role::Build(Reading::of(1));
    let left = TableExec::new(left.schema(), vec![vec![left]], &[0], role.clone());
    let right = TableExec::new(right.schema(), vec![vec![right]], &[0], role);
    let on: Vec<_> = columns(&left.schema(), &[0]).into_iter().zip(columns(&right.schema(), &[0])).collect();
    let order = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(Column::new("probe", 0)))]).unwrap();
    let right: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order, right));
    let plain = |null_aware: bool| {
        let join_type = if null_aware { JoinType::LeftAnti } else { JoinType::Inner };
        HashJoinExecBuilder::new(Arc::clone(&left) as _, Arc::clone(&right), on.clone(), join_type)
            .with_partition_mode(PartitionMode::CollectLeft)
            .with_null_aware(null_aware)
            .build()
            .unwrap()
    };
    assert!(!HybridHashJoinExec::supports(&plain(true)));
    assert!(HybridHashJoinExec::try_new(Arc::new(plain(true))).is_err());

    let join: Arc<dyn ExecutionPlan> = Arc::new(HybridHashJoinExec::try_new(Arc::new(plain(false))).unwrap());
    let plain: Arc<dyn ExecutionPlan> = Arc::new(plain(false));
    assert!(plain.output_ordering().is_some());
    assert!(join.output_ordering().is_none());
    assert_eq!(join.maintains_input_order(), [false, false]);
    let shown = |plan: &Arc<dyn ExecutionPlan>| DisplayableExecutionPlan::new(plan.as_ref()).indent(true).to_string();
    assert_eq!(shown(&join), shown(&plain).replacen("HashJoinExec", "HybridHashJoinExec", 1));
    let limited = join.with_fetch(Some(3)).unwrap();
    assert_eq!(limited.fetch(), Some(3));
    assert!(limited.is::<HybridHashJoinExec>());
}

/// Creates the join of `build` with a side without rows.
fn plain(build: &[RecordBatch], join_type: JoinType) -> Arc<HashJoinExec> {
    let role = Role::Build(Reading::of(1));
    let probe = keys("probe", [1]);
    let left = TableExec::new(build[0].schema(), vec![build.to_vec()], &[0], role.clone());
    let right = TableExec::new(probe.schema(), vec![vec![probe]], &[0], role);
    let on: Vec<(Arc<dyn PhysicalExpr>, _)> =
        columns(&left.schema(), &[0]).into_iter().zip(columns(&right.schema(), &[0])).collect();
    let join = HashJoinExecBuilder::new(left, right, on, join_type)
        .with_partition_mode(PartitionMode::Partitioned)
        .with_null_equality(NullEquality::NullEqualsNothing);
    Arc::new(join.build().unwrap())
}

#[tokio::test]
async fn the_memory_of_a_join_is_not_underestimated() {
    let memory = JoinMemory::new(&Default::default());
    for rows in [1, 2, 7, 8, 100, 1023, 1024, 5000, 40_000] {
        for step in [1, 5, 6, 7, 1000, 1 << 40] {
            for join_type in [JoinType::Inner, JoinType::Full] {
                let build = [keys("build", (0..rows).map(|row| row * step))];
                let mut counter = RecordBatchMemoryCounter::new();
                counter.count_batch(&build[0]);
                let place = Place::new(Pool::Unlimited, 1000);
                let join: Arc<dyn ExecutionPlan> = plain(&build, join_type);
                collect(&join, &place, Order::AtOnce).await.unwrap();
                let estimate = memory.joined(counter.memory_usage(), rows as usize);
                let peak = place.peak();
                assert!(peak > 0 && peak <= estimate, "{rows} rows, step {step}: {peak} are more than {estimate}");
            }
        }
    }
}
