//! How much is spilled, compared with DataFusion's sort and for inputs with structure.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion_common::DataFusionError;
use datafusion_common::utils::memory::get_record_batch_memory_size;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, displayable};
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::tables::{Shape, ordering, shaped};
use super::{Place, files, keys, spilled, table};
use crate::sort::RangeSortExec;

/// Returns `count` rows of about 100 bytes, in batches of `batch_rows`, whose column `key` has
/// `shape`.
fn customers(shape: Shape, count: usize, batch_rows: usize) -> Vec<RecordBatch> {
    let random = &mut StdRng::seed_from_u64(39);
    let keys = shaped(shape, count, random);
    let batch = |(number, keys): (usize, &[i64])| {
        let ids: Int64Array = (0..keys.len()).map(|row| (number * batch_rows + row) as i64).collect();
        let nations: Int64Array = keys.iter().map(|_| random.random_range(0..25)).collect();
        let texts: StringArray = keys.iter().map(|key| Some(format!("{:x<60}", key * 7919))).collect();
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(ids)),
            ("key", Arc::new(Int64Array::from(keys.to_vec()))),
            ("nation", Arc::new(nations)),
            ("text", Arc::new(texts)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    keys.chunks(batch_rows).enumerate().map(batch).collect()
}

fn bytes(batches: &[RecordBatch]) -> usize {
    batches.iter().map(get_record_batch_memory_size).sum()
}

/// Creates a `RangeSortExec` of `batches` by the columns `names`.
fn ours(batches: &[RecordBatch], names: &[&str], fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
    let columns: Vec<_> = names.iter().map(|name| (*name, false, false)).collect();
    let order = ordering(&batches[0].schema(), &columns);
    Arc::new(RangeSortExec::try_new(order, table(vec![batches.to_vec()], None), fetch, false).unwrap())
}

/// Runs `plan` with `limit` bytes. Panics unless it emits `rows` sorted rows.
async fn run(plan: &Arc<dyn ExecutionPlan>, limit: usize, rows: usize) -> (usize, usize, usize) {
    let place = Place::new(Arc::new(FairSpillPool::new(limit)), SessionConfig::new());
    let output = place.run(plan).await.unwrap().concat();
    let order = plan.properties().output_ordering().unwrap().clone();
    let keys = keys(&output, &order);
    assert_eq!(keys.len(), rows);
    assert!(keys.is_sorted());
    assert!(place.pool.peak_reserved() <= limit);
    place.assert_nothing_left().await;
    spilled(plan)
}

#[tokio::test]
async fn no_more_is_spilled_than_by_datafusion() {
    let batches = customers(Shape::Random, 900_000, 8192);
    let total = bytes(&batches);
    for ratio in [2, 3, 4, 6] {
        let limit = total / ratio;
        let plan = ours(&batches, &["key", "nation"], None);
        let (count, bytes, rows) = run(&plan, limit, 900_000).await;
        let sort =
            SortExec::new(plan.properties().output_ordering().unwrap().clone(), table(vec![batches.clone()], None));
        let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
        let (their_count, their_bytes, their_rows) = run(&sort, limit, 900_000).await;
        println!(
            "{} MB of memory, data {ratio} times that: {count} files, {} KB, {rows} rows; \
             DataFusion {their_count} files, {} KB, {their_rows} rows",
            limit >> 20,
            bytes >> 10,
            their_bytes >> 10
        );
        assert!(count > 0 && bytes <= their_bytes && count <= their_count && rows <= 900_000);
        // Apart from the memory for sorting, about half of the rest stays in memory in the worst
        // case.
        assert!(rows <= 900_000 - 900_000 / ratio / 4, "{rows} rows");
    }
}

#[tokio::test]
async fn each_row_is_spilled_at_most_once_in_any_order_of_the_input() {
    for shape in super::tables::SHAPES {
        let batches = customers(shape, 60_000, 500);
        let limit = bytes(&batches) / 6;
        let (count, _, rows) = run(&ours(&batches, &["key"], None), limit, 60_000).await;
        println!("{shape:?}: {count} files, {rows} rows");
        assert!(count > 0 && rows < 60_000 - 60_000 / 6 / 5, "{shape:?}: {rows} rows");
    }
}

#[tokio::test]
async fn rows_beyond_the_limit_are_dropped_and_not_spilled() {
    for shape in [Shape::Random, Shape::Reverse, Shape::Sorted, Shape::NearlySorted] {
        let batches = customers(shape, 100_000, 500);
        let limit = bytes(&batches) / 8;
        let (_, all, _) = run(&ours(&batches, &["key"], None), limit, 100_000).await;
        for (fetch, percent) in [(100, 0), (5_000, 0), (25_000, 70), (50_000, 90)] {
            let (_, some, rows) = run(&ours(&batches, &["key"], Some(fetch)), limit, fetch).await;
            println!("{shape:?}: fetch {fetch}: {some} of {all} bytes, {rows} rows");
            // In reverse order, each row may be needed when it arrives.
            let percent = if matches!(shape, Shape::Reverse) && percent > 0 { 100 } else { percent };
            assert!(some * 100 <= all * percent, "{shape:?}, fetch {fetch}: {some} of {all} bytes");
        }
    }
}

#[tokio::test]
async fn many_chunks_are_merged_in_passes() {
    // About 250 overlapping chunks: more than are opened at once.
    let batches = customers(Shape::Random, 200_000, 50);
    let limit = 128 << 10;
    let (count, _, rows) = run(&ours(&batches, &["key", "nation"], None), limit, 200_000).await;
    assert!(count > 64, "{count} files");
    assert!(rows > 200_000 && rows < 4 * 200_000, "{rows} rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_dropped_leaves_nothing() {
    let batches = customers(Shape::Random, 60_000, 500);
    let plan = ours(&batches, &["key"], None);
    for read in [0, 1, 20, 60] {
        let place =
            Place::new(Arc::new(GreedyMemoryPool::new(bytes(&batches) / 6)), SessionConfig::new().with_batch_size(500));
        let mut stream = plan.execute(0, Arc::clone(&place.context)).unwrap();
        for _ in 0..read {
            assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        }
        if read > 0 {
            assert!(files(place.directory.path()) > 0 && place.pool.reserved() > 0);
        }
        drop(stream);
        place.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_an_error_that_says_what_to_do() {
    let batches = customers(Shape::Random, 20_000, 10_000);
    let plan = ours(&batches, &["key"], None);
    let place = Place::new(Arc::new(GreedyMemoryPool::new(100 << 10)), SessionConfig::new());
    let error = place.run(&plan).await.unwrap_err();
    assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("pushdown.memory") && text.contains("for a batch of 10000 rows"), "{text}");
    place.assert_nothing_left().await;
}

#[tokio::test]
async fn it_has_the_properties_of_a_sort() {
    let batches = customers(Shape::Random, 100, 10);
    let order = ordering(&batches[0].schema(), &[("key", true, false), ("text", false, true)]);
    let input = table(vec![batches.clone(), batches], None);
    for (fetch, preserve) in [(None, false), (Some(3), true)] {
        let sort =
            SortExec::new(order.clone(), Arc::clone(&input)).with_preserve_partitioning(preserve).with_fetch(fetch);
        let ours = Arc::new(RangeSortExec::from_sort(&sort).unwrap());
        let requirements = |plan: &dyn ExecutionPlan| format!("{:?}", plan.input_distribution_requirements());
        assert_eq!(requirements(ours.as_ref()), requirements(&sort));
        assert_eq!(format!("{:?}", ours.properties()), format!("{:?}", sort.properties()));
        assert_eq!(ours.fetch(), fetch);
        assert_eq!(ours.maintains_input_order(), sort.maintains_input_order());
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let again = Arc::clone(&ours).replace_children(vec![Arc::clone(&input)], options).unwrap();
        assert_eq!(
            displayable(again.as_ref()).one_line().to_string(),
            displayable(ours.as_ref()).one_line().to_string()
        );
    }
    let sort = RangeSortExec::try_new(order, input, Some(3), true).unwrap();
    assert_eq!(
        displayable(&sort).one_line().to_string().trim(),
        "RangeSortExec: expr=[key@1 DESC NULLS LAST, text@3 ASC], fetch=3, preserve_partitioning=[true]"
    );
    let place = Place::new(Arc::new(UnboundedMemoryPool::default()), SessionConfig::new());
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
    let rows: Vec<usize> =
        place.run(&sort).await.unwrap().iter().map(|part| part.iter().map(RecordBatch::num_rows).sum()).collect();
    assert_eq!(rows, [3, 3]);
}

/// Measures CPU time in memory beside DataFusion's sort. It asserts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, to be read"]
async fn time_in_memory() {
    let random = &mut StdRng::seed_from_u64(1);
    let batches: Vec<_> = (0..10_000_000 / 8192)
        .map(|_| {
            let keys: Int64Array = (0..8192).map(|_| random.random::<i64>()).collect();
            let texts: StringArray = (0..8192).map(|_| Some(format!("{:x}", random.random::<u64>()))).collect();
            let columns: [(&str, ArrayRef); 2] = [("key", Arc::new(keys)), ("text", Arc::new(texts))];
            RecordBatch::try_from_iter(columns).unwrap()
        })
        .collect();
    let place = Place::new(Arc::new(UnboundedMemoryPool::default()), SessionConfig::new());
    for names in [&["key"][..], &["text"], &["key", "text"]] {
        let ours = ours(&batches, names, None);
        let order = ours.properties().output_ordering().unwrap().clone();
        let theirs: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order, table(vec![batches.clone()], None)));
        for _ in 0..3 {
            for plan in [&ours, &theirs] {
                let (start, cpu) = (std::time::Instant::now(), cpu_seconds());
                let rows: usize = place.run(plan).await.unwrap().iter().flatten().map(RecordBatch::num_rows).sum();
                println!(
                    "{names:?} {} {rows} rows: {:?}, CPU {:.2} s",
                    plan.name(),
                    start.elapsed(),
                    cpu_seconds() - cpu
                );
            }
        }
    }
}

/// Measures the memory that the process holds in addition to what is reserved. It asserts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, to be read"]
async fn resident_memory() {
    let batches = customers(Shape::Random, 8 * 8192, 8192);
    // The same buffers are repeated, so that the table itself is small.
    let many: Vec<_> = (0..100).flat_map(|_| batches.iter().cloned()).collect();
    for limit in [32 << 20, 128 << 20] {
        let plan = ours(&many, &["text", "nation"], None);
        let place = Place::new(Arc::new(GreedyMemoryPool::new(limit)), SessionConfig::new());
        let before = resident_bytes("VmRSS");
        let mut stream = plan.execute(0, Arc::clone(&place.context)).unwrap();
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
        println!(
            "{} MB of memory, {} MB of data, {rows} rows: {:?} spilled; at most {} MB above the {} MB before",
            limit >> 20,
            bytes(&many) >> 20,
            spilled(&plan),
            (resident_bytes("VmHWM") - before) >> 20,
            before >> 20,
        );
    }
}

/// Returns the value of `name` in the status of this process, in bytes.
fn resident_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Returns the CPU seconds of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // Fields 14 and 15 of proc(5), in ticks of 10 ms.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
