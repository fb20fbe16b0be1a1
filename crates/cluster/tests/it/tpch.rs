//! Every TPC-H query and every operator query on 1, 2 and 3 workers: the rows of one process, and
//! hardly more bytes.

use pushdowndb_cost::Usage;
use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;

use crate::cluster::{engine, named, ran_on_workers, workers};
use crate::world::{World, assert_same, queries, rows};

/// Queries whose joins filter their scans, and the most bytes that they may take as a multiple of
/// those of one process.
const FILTERED: [&str; 3] = ["op_join_c950", "q03", "q17"];

/// A query and a level at which one process reads little because a build side is empty, so that the
/// probe side is never asked. On workers that stage has begun to read.
const NOTHING_TO_JOIN: (&str, &str) = ("q17", "none");

/// A query of which one process reads lineitem once, and keeps its rows for the second scan. Workers
/// scan it again, by the keys of the semijoin.
const DEARER: &str = "q18";

/// Bytes of answers' heads and of requests, which are one more for each share of a scan.
const HEADS: u64 = 16 * 1024;

async fn agrees(format: Format, path: &str) {
    let world = World::node().await;
    world.tpch(path, format).await;
    let all = workers(&world, 3).await;
    for level in ["none", "fragment"] {
        let alone = world.engine_with(level, path).await;
        by_bytes_alone(&alone).await;
        let mut wanted = Vec::new();
        for (name, sql) in queries() {
            // The first run reads statistics and footers, which the second one knows.
            rows(&alone, &sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
            let (rows, report) = rows(&alone, &sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
            wanted.push((name, sql, rows, report.usage));
        }
        for count in 1..=all.len() {
            let engine = engine(&world, level, &named(&all[..count]), Some(path)).await;
            by_bytes_alone(&engine).await;
            let (mut on_workers, mut one, mut several) = (0, 0, 0);
            for (name, sql, want, usage) in &wanted {
                let what = format!("{name} on {path} at {level} by {count} workers");
                rows(&engine, sql).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                let (got, report) = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_same(&what, &got, want);
                on_workers += usize::from(ran_on_workers(&report));
                if (name.as_str(), level) == NOTHING_TO_JOIN {
                    continue;
                }
                assert_bytes(&what, name, &report.usage, usage);
                one += usage.bytes_network;
                several += report.usage.bytes_network;
            }
            println!("{path} {level} {count}: {on_workers} on workers, {several} bytes instead of {one}");
            assert!(several as f64 <= one as f64 * 1.1, "{several} bytes instead of {one} by {count} workers");
            let least = match (count, level) {
                (1, _) => 0,
                (_, "none") => 25,
                _ => 12,
            };
            assert!(on_workers >= least, "only {on_workers} queries ran on {count} workers");
        }
    }
}

/// Has the engine choose by the sizes of objects, whatever else the machine does.
async fn by_bytes_alone(engine: &Engine) {
    for setting in ["statistics", "adaptive"] {
        engine.execute(&format!("SET pushdown.{setting} = 'none'")).await.expect("a setting");
    }
}

fn assert_bytes(what: &str, name: &str, several: &Usage, one: &Usage) {
    let factor = match name {
        DEARER => 1.25,
        name if FILTERED.contains(&name) => 1.2,
        _ => 1.1,
    };
    let most = one.bytes_network as f64 * factor + HEADS as f64;
    println!("{what}: {} bytes instead of {}", several.bytes_network, one.bytes_network);
    assert!(several.bytes_network as f64 <= most, "{what}: {several:?} instead of {one:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv() {
    agrees(Format::Csv, "csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet() {
    agrees(Format::Parquet, "parquet").await;
}
