//! Top-k, by sampling and on plain reads: the rows of a full sort in their order, for fewer bytes
//! or fewer values.

use std::fmt::Write as _;

use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;

use crate::oracle::Oracle;
use crate::world::{Rows, World, rows};

/// Every order is total, so that the rows and their order are determined.
const TPCH: &[&str] = &[
    "SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem ORDER BY l_extendedprice, l_orderkey, l_linenumber \
     LIMIT 100",
    "SELECT * FROM lineitem ORDER BY l_shipdate DESC, l_orderkey, l_linenumber LIMIT 7 OFFSET 20",
    "SELECT l_orderkey, l_linenumber FROM lineitem ORDER BY l_comment DESC, l_orderkey, l_linenumber LIMIT 10",
    "SELECT l_orderkey, l_linenumber, l_extendedprice * l_discount AS x FROM lineitem \
     ORDER BY x DESC, l_orderkey, l_linenumber LIMIT 25",
    "SELECT l_linenumber, l_orderkey FROM lineitem WHERE l_quantity < 3 AND l_comment LIKE '%a_e%' \
     ORDER BY l_orderkey DESC, l_linenumber LIMIT 12",
    "SELECT o_orderkey FROM orders WHERE o_orderkey < 40 ORDER BY o_totalprice, o_orderkey LIMIT 50",
    "SELECT o_orderkey, o_orderdate FROM orders ORDER BY o_orderdate, o_orderkey LIMIT 100000",
    "SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT 0",
    "SELECT t.o_orderkey, c_name FROM (SELECT * FROM orders ORDER BY o_totalprice DESC, o_orderkey LIMIT 20) t \
     JOIN customer ON c_custkey = o_custkey ORDER BY t.o_orderkey",
];

async fn agrees_on_tpch(world: &World, format: Format, path: &str) {
    world.tpch(path, format).await;
    let oracle = if let Format::Json = format {
        world.tpch("csv", Format::Csv).await;
        Oracle::tpch(world, "csv", Format::Csv).await
    } else {
        Oracle::tpch(world, path, format).await
    };
    let engine = world.engine_with("select", path).await;
    engine.execute("SET pushdown.top_k = 'sampling'").await.expect("SET");
    let mut sampled = 0;
    for sql in TPCH {
        let (got, report) = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(got, oracle.rows(sql).await, "{sql} on {path}");
        let fell_back: Vec<_> = report.usage.strategies.iter().filter(|s| s.contains("fell back")).collect();
        assert!(fell_back.is_empty(), "{sql} on {path}: {fell_back:?}");
        sampled += usize::from(report.usage.strategies.iter().any(|s| s.contains("of a sample of")));
    }
    assert!(sampled >= 5, "only {sampled} queries on {path} were sampled");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_the_node() {
    agrees_on_tpch(&World::node().await, Format::Csv, "csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_the_node() {
    agrees_on_tpch(&World::node().await, Format::Parquet, "parquet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_the_node() {
    agrees_on_tpch(&World::node().await, Format::Json, "json").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    agrees_on_tpch(&world, Format::Csv, "csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_reads() {
    let world = World::node().await;
    for (format, path) in [(Format::Csv, "csv"), (Format::Json, "json"), (Format::Parquet, "parquet")] {
        world.tpch(path, format).await;
        let oracle = Oracle::tpch(&world, "csv", Format::Csv).await;
        let engine = world.engine_with("none", path).await;
        for sql in TPCH {
            let (got, _) = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            assert_eq!(got, oracle.rows(sql).await, "{sql} on {path}");
        }
    }
}

/// Of rows that cannot be among the first, plain reads decode the key alone, whenever a statement
/// is run.
#[tokio::test(flavor = "multi_thread")]
async fn plain_reads_decode_the_key_of_most_rows_alone() {
    let world = World::node().await;
    let line = |n: usize| format!("{n},{}\n", if n < 10_000 { "1" } else { "bad" });
    world.put("rising/0.csv", (0..40_000).map(line).collect::<String>()).await;
    let engine = world.engine("none").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE rising (a BIGINT NOT NULL, b BIGINT NOT NULL) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'false')",
        world.url("rising/")
    );
    engine.execute(&declare).await.expect("a table");
    engine.execute("SET pushdown.threads = 1").await.expect("SET");
    for _ in 0..2 {
        let (got, _) = rows(&engine, "SELECT * FROM rising ORDER BY a, b LIMIT 3").await.expect("rows");
        assert_eq!(got.len(), 3);
    }
    assert!(rows(&engine, "SELECT * FROM rising ORDER BY a DESC LIMIT 3").await.is_err(), "these are decoded");
}

/// NULLs, ties, both zeros, rows in the order of the key, and far more of one value than k.
async fn hard_keys(world: &World) -> Engine {
    for object in 0..3u32 {
        let mut csv = String::from("id,tied,sparse,zero,name\n");
        for id in object * 10_000..(object + 1) * 10_000 {
            let sparse = if id % 5_000 == 4_999 { (30_000 - id).to_string() } else { String::new() };
            let zero = ["0.0", "-0.0", "1.5", "-2", ""][id as usize % 5];
            writeln!(csv, "{id},{},{sparse},{zero},n{}", id / 9_000, id * 7_919 % 30_011).expect("text");
        }
        world.put(&format!("hard/{object}.csv"), csv).await;
    }
    let engine = world.engine("select").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE hard (id BIGINT NOT NULL, tied BIGINT, sparse BIGINT, zero DOUBLE, name VARCHAR) \
         STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("hard/")
    );
    engine.execute(&declare).await.expect("a table");
    engine
}

async fn with(engine: &Engine, setting: &str, sql: &str) -> Rows {
    engine.execute(&format!("SET pushdown.top_k = '{setting}'")).await.expect("SET");
    rows(engine, sql).await.unwrap_or_else(|e| panic!("{sql} with {setting}: {e}")).0
}

async fn agrees_on_hard_keys(world: &World) {
    let engine = hard_keys(world).await;
    for key in ["tied", "sparse", "zero", "name", "id", "tied + sparse", "-id"] {
        for order in ["ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"] {
            for k in [1, 4, 50, 29_999] {
                let sql = format!("SELECT id, {key} AS k FROM hard ORDER BY {key} {order}, id LIMIT {k}");
                let (want, got) = (with(&engine, "compute", &sql).await, with(&engine, "sampling", &sql).await);
                assert_eq!(want.len(), k, "{sql}");
                assert!(want == got, "{sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nulls_ties_and_zeros_on_the_node() {
    agrees_on_hard_keys(&World::node().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nulls_ties_and_zeros_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    agrees_on_hard_keys(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_saves_bytes_and_explain_says_so() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("select", "csv").await;
    let sql = "SELECT * FROM lineitem ORDER BY l_extendedprice LIMIT 20";
    let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
    assert!(plan.concat().join("\n").contains("top-k=[20 by l_extendedprice ASC]"), "{plan:?}");
    let (_, sampled) = rows(&engine, sql).await.expect("rows");
    engine.execute("SET pushdown.top_k = 'compute'").await.expect("SET");
    let (_, all) = rows(&engine, sql).await.expect("rows");
    let (sampled, all) = (sampled.usage.bytes_network, all.usage.bytes_network);
    assert!(sampled * 20 < all, "{sampled} bytes with a sample, {all} without");
}

/// One object of one split, that a top-k by storage would cut in two: operators above were planned
/// by one partition.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_k_has_no_more_partitions_than_the_scan_that_it_was_planned_for() {
    let world = World::node().await;
    let line = |n: usize| format!("{},{n},{}\n", n * 7_919 % 100_003, "text ".repeat(20));
    world.put("medium/0.csv", (0..110_000).map(line).collect::<String>()).await;
    let declare = format!(
        "CREATE EXTERNAL TABLE medium (a BIGINT, b BIGINT, c VARCHAR) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'false')",
        world.url("medium/")
    );
    for top_k in ["compute", "sampling", "storage"] {
        let settings = [("pushdown.threads", "4"), ("pushdown.level", "fragment"), ("pushdown.top_k", top_k)];
        let engine = world.engine_configured(&settings).await;
        engine.execute(&declare).await.expect("a table");
        let got = rows(&engine, "SELECT a, b FROM medium ORDER BY a, b LIMIT 3").await;
        let (got, _) = got.unwrap_or_else(|e| panic!("{top_k}: {e}"));
        assert_eq!(got, [["0", "0"], ["0", "100003"], ["1", "47318"]], "{top_k}");
        for join in ["baseline", "filtered", "bloom"] {
            engine.execute(&format!("SET pushdown.join = '{join}'")).await.expect("SET");
            let sql = "SELECT count(*) FROM medium x JOIN medium y ON x.a = y.b WHERE x.b < 50 AND y.a < 50000";
            let counted = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{join}: {e}")).0;
            assert_eq!(counted.len(), 1, "{join}");
        }
    }
}
