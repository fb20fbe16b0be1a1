//! Scans that take the rows of an earlier scan: fewer requests, the same rows.

use std::time::Duration;

use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;
use tokio::time::timeout;

use crate::joins::{declared, oracle, tables};
use crate::world::{World, assert_same, queries, rows};

/// No query here takes so long, unless a scan waits for what never comes.
const HANGS: Duration = Duration::from_secs(60);

/// What the report says where a scan took its rows from another one.
const TAKEN: &str = "rows that an earlier scan has kept";

/// Tables that occur more than once, and whether a scan takes its rows from another one, where that
/// does not depend on what can be pushed.
const SHAPES: &[(&str, Option<bool>)] = &[
    // The build side has all rows of the probe side, with its columns.
    ("SELECT x.id, y.id FROM big x JOIN big y ON x.k = y.k", Some(true)),
    ("SELECT x.id, y.n FROM big x JOIN big y ON x.id = y.n WHERE x.d > 300 AND y.d > 300 AND x.n < y.id", None),
    ("SELECT x.id, y.n FROM mid x LEFT JOIN mid y ON x.id = y.n WHERE x.n > 3 OR y.n IS NULL", None),
    ("SELECT x.id, y.id FROM mid x FULL JOIN mid y ON x.id = y.id + 7", Some(true)),
    ("SELECT x.id, y.id FROM mid x JOIN mid y ON x.k IS NOT DISTINCT FROM y.k", Some(true)),
    ("SELECT x.id, y.id FROM small x CROSS JOIN small y", Some(true)),
    ("SELECT x.id, y.id FROM small x JOIN small y ON x.id < y.id", Some(true)),
    ("SELECT x.id, y.id, z.id FROM small x JOIN small y ON x.id = y.n JOIN small z ON y.id = z.n", None),
    ("SELECT id, d FROM mid WHERE id NOT IN (SELECT n FROM mid WHERE d > 900 AND s < 's3' AND id > 0)", None),
    ("SELECT s, d FROM mid WHERE id NOT IN (SELECT id FROM mid WHERE d > 900 AND s < 's3')", Some(true)),
    // Only of the stricter one.
    (
        "SELECT x.s, y.s FROM mid x JOIN (SELECT * FROM mid WHERE d > 900 AND id <> 7) y ON x.id = y.id WHERE x.d > 900",
        None,
    ),
    // An aggregate of the rows that were found.
    (
        "SELECT sum(y.d) FROM mid x JOIN big y ON x.k = y.k WHERE x.id < 300 \
         AND y.n < (SELECT 1.2 * avg(z.n) FROM big z WHERE z.k = x.k)",
        Some(true),
    ),
    (
        "SELECT x.id, y.id FROM small x JOIN big y ON x.k = y.k \
         WHERE y.d >= (SELECT max(z.d) FROM big z WHERE z.k = y.k)",
        Some(true),
    ),
    // The same aggregate twice.
    (
        "WITH g AS (SELECT n, sum(d) AS s FROM big WHERE id > 3 GROUP BY n) \
         SELECT n, s FROM g WHERE s = (SELECT max(s) FROM g)",
        Some(true),
    ),
    ("SELECT count(*) FROM big HAVING count(*) > (SELECT count(*) * 0.5 FROM big)", Some(true)),
    // By the keys of the same rows.
    (
        "SELECT y.k, sum(y.d) FROM small x JOIN big y ON x.k = y.k WHERE x.n > 0 GROUP BY y.k \
         HAVING sum(y.d) > (SELECT sum(y.d) * 0.01 FROM small x JOIN big y ON x.k = y.k WHERE x.n > 0)",
        Some(true),
    ),
    // By those of other rows.
    (
        "SELECT y.k, sum(y.d) FROM small x JOIN big y ON x.k = y.k WHERE x.n > 0 GROUP BY y.k \
         HAVING sum(y.d) > (SELECT sum(y.d) * 0.01 FROM small x JOIN big y ON x.k = y.k WHERE x.n > 3)",
        None,
    ),
    (
        "SELECT y.id FROM (SELECT * FROM small ORDER BY id LIMIT 4) x JOIN big y ON x.k = y.k \
         WHERE y.d > (SELECT avg(z.d) FROM (SELECT * FROM small ORDER BY id DESC LIMIT 4) w JOIN big z ON w.k = z.k)",
        None,
    ),
    // The build side gets the columns that it lacks.
    ("SELECT count(*), sum(y.d) FROM big x JOIN big y ON x.k = y.n AND x.day < y.day", Some(true)),
    ("SELECT x.id, y.id FROM mid x FULL JOIN mid y ON x.id = y.n", Some(true)),
    ("SELECT x.id, y.s, z.d FROM mid x JOIN mid y ON x.id = y.n JOIN mid z ON y.id = z.n", None),
    // What has rows that others want is never read, though it was begun, or not to its end.
    (
        "SELECT count(*) FROM big z WHERE z.n > (SELECT count(*) FROM small x JOIN big y ON x.k = y.k WHERE x.n < -1)",
        None,
    ),
    (
        "SELECT count(*) FROM big z WHERE z.n > \
         (SELECT count(*) FROM (SELECT y.n FROM small x JOIN big y ON x.k = y.k WHERE x.id < 8 LIMIT 3))",
        None,
    ),
    (
        "SELECT count(*), sum(z.n) FROM (SELECT y.n FROM small x JOIN big y ON x.k = y.k WHERE x.n < -1) a \
         RIGHT JOIN big z ON a.n = z.n",
        None,
    ),
    (
        "SELECT count(a.n) < 9, sum(DISTINCT z.n) FROM (SELECT y.n FROM small x JOIN big y ON x.k = y.k LIMIT 3) a \
         RIGHT JOIN big z ON a.n = z.n",
        None,
    ),
    // One taker has enough of them before another one lacks a column.
    (
        "SELECT count(*), sum(x.n), sum(y.n) FROM small x JOIN small y ON x.k = y.k \
         WHERE y.k NOT IN (SELECT w.k FROM small w WHERE w.d < 400 AND w.k IS NOT NULL)",
        Some(true),
    ),
    (
        "SELECT x.id FROM small x JOIN big y ON x.k = y.k WHERE NOT EXISTS \
         (SELECT 1 FROM big z WHERE z.k = y.k AND z.day > y.day AND z.d > 300)",
        None,
    ),
    // Too many of them for what they are good for.
    ("SELECT x.id, y.n FROM big x JOIN (SELECT * FROM big WHERE s = 's1' AND d < 20) y ON x.id = y.id", None),
    // The build side lacks a row.
    ("SELECT x.id, y.id FROM (SELECT id FROM mid WHERE id < 9) x JOIN mid y ON x.id = y.id WHERE y.d < 11", None),
    ("SELECT x.id, y.id FROM (SELECT id, n FROM mid ORDER BY id LIMIT 5) x JOIN mid y ON x.id = y.n", Some(false)),
    ("SELECT count(*) FROM (SELECT * FROM mid LIMIT 5) x JOIN (SELECT * FROM mid LIMIT 5) y ON true", Some(false)),
    // Some keys of the first join are left out, because another key beside them is NULL.
    (
        "SELECT count(*), sum(z.n) FROM (SELECT x.id, x.k FROM small x LEFT JOIN big y ON x.k = y.k AND x.n = y.n * 2) x \
         JOIN big z ON x.k = z.k",
        None,
    ),
    (
        "SELECT count(*), sum(z.n) FROM (SELECT x.id, x.k FROM small x \
         WHERE NOT EXISTS (SELECT 1 FROM big y WHERE y.k = x.k AND y.n * 2 = x.n)) x JOIN big z ON x.k = z.k",
        None,
    ),
    (
        "SELECT count(*), sum(z.d), max(x.n) FROM small x JOIN big z ON x.k = z.k \
         WHERE z.d > (SELECT avg(y.d) * 0 FROM small x JOIN big y ON x.k = y.k AND x.n = y.n * 2)",
        None,
    ),
    // Each key is there, but not beside each other one.
    (
        "SELECT count(*), sum(z.d), max(x.n), max(w.k) FROM small x JOIN (small w JOIN big z ON w.n = z.n) ON x.k = z.k \
         WHERE z.d > (SELECT avg(y.d) * 0 FROM small x JOIN big y ON x.k = y.k AND x.n = y.n)",
        None,
    ),
    // Neither comes first.
    ("SELECT id FROM mid UNION ALL SELECT id FROM mid", Some(false)),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT r.i + 1 FROM r JOIN mid m ON m.id = r.i WHERE m.id < 5) \
         SELECT r.i, m.id FROM r JOIN mid m ON m.id = r.i",
        Some(false),
    ),
];

async fn set(engine: &Engine, settings: &[&str]) {
    for setting in settings {
        engine.execute(&format!("SET {setting}")).await.expect("SET");
    }
}

async fn agrees(world: &World, folder: &str, levels: &[&str]) {
    let oracle = oracle(world).await;
    let mut wrong = Vec::new();
    for level in levels {
        let (by_hash, none) = (declared(world, folder, level).await, declared(world, folder, level).await);
        let (auto, plain) = (declared(world, folder, level).await, declared(world, folder, level).await);
        let filtered = declared(world, folder, level).await;
        // The order of the tables as it is written, so that it is known which one comes first.
        let written = ["datafusion.optimizer.join_reordering = false", "pushdown.statistics = 'none'"];
        let small = ["", "_rows"].map(|s| format!("datafusion.optimizer.hash_join_single_partition_threshold{s} = 0"));
        for engine in [&by_hash, &filtered, &none, &auto, &plain] {
            set(engine, &written).await;
        }
        set(&by_hash, &[&small[0], &small[1], "pushdown.join = 'bloom'", "pushdown.threads = 3"]).await;
        set(&filtered, &[&small[0], &small[1], "pushdown.join = 'filtered'", "pushdown.threads = 3"]).await;
        let compute = ["filter", "aggregate", "group_by", "top_k"].map(|name| format!("pushdown.{name} = 'compute'"));
        set(&plain, &compute.each_ref().map(String::as_str)).await;
        set(&none, &["pushdown.reuse = 'none'"]).await;
        for (sql, takes) in SHAPES {
            let want = oracle.rows(sql).await;
            let engines = [&auto, &by_hash, &filtered, &plain, &none];
            for (how, engine) in ["auto", "by partitions", "without keys", "plain", "none"].into_iter().zip(engines) {
                let what = format!("{sql} on {folder} at {level}, {how}");
                let answer = timeout(HANGS, rows(engine, sql)).await.unwrap_or_else(|_| panic!("{what}: it hangs"));
                let (got, report) = answer.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_same(&what, &got, &want);
                let strategies = &report.usage.strategies;
                let taken = strategies.iter().any(|told| told.contains(TAKEN));
                // Whether a partitioned join has read its build side in time is not for sure.
                let wanted = match how {
                    "none" => Some(false),
                    "auto" => *takes,
                    _ => None,
                };
                if wanted.is_some_and(|wanted| wanted != taken) {
                    wrong.push(format!("{what}: {strategies:#?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    agrees(&world, "csv", &["select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    agrees(&world, "parquet", &["select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    agrees(&world, "json", &["select", "fragment"]).await;
}

/// Queries of TPC-H in which a table occurs twice, and how many of its scans take their rows.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_not_read_again() {
    let world = World::node().await;
    world.tpch("parquet", Format::Parquet).await;
    let queries = queries();
    for (name, tables, takers) in [("q02", 5, 3), ("q11", 3, 3), ("q15", 2, 1), ("q17", 2, 1)] {
        let (_, sql) = queries.iter().find(|(other, _)| other == name).expect("a query");
        // There is no such part at this scale, and the query ends without looking for it.
        let sql = sql.replace("and p_container = 'MED BOX'", "");
        let mut requests = Vec::new();
        let mut all = Vec::new();
        for (reuse, threads) in [("none", 1), ("auto", 1), ("auto", 4)] {
            let engine = world.engine_with("fragment", "parquet").await;
            let sets = [format!("pushdown.reuse = '{reuse}'"), format!("pushdown.threads = {threads}")];
            set(&engine, &[&sets[0], &sets[1], "pushdown.statistics = 'none'", "pushdown.adaptive = 'none'"]).await;
            let what = format!("{name} with {reuse} on {threads}");
            let (got, report) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            let told = report.usage.strategies;
            let taken = told.iter().filter(|told| told.contains(TAKEN)).count();
            assert_eq!(taken, if reuse == "auto" { takers } else { 0 }, "{what}: {told:?}");
            assert_eq!(
                report.usage.requests.list, tables,
                "{what}: all scans of a table are planned at once, and it is listed once"
            );
            requests.push(report.usage.requests.total());
            all.push(got);
            let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
            let plan = plan.concat().join("\n");
            for part in ["keeps its rows as #1", "takes the rows kept as #1"] {
                assert_eq!(plan.contains(part), reuse == "auto", "{what}: {plan}");
            }
        }
        assert!(!all[0].is_empty(), "{name} has rows");
        assert_same(name, &all[1], &all[0]);
        assert_same(name, &all[2], &all[0]);
        assert!(requests[1] + takers as u64 <= requests[0], "{name}: {requests:?} requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_on_or_off() {
    let world = World::node().await;
    let engine = world.engine("fragment").await;
    let error = engine.execute("SET pushdown.reuse = 'some'").await.expect_err("no such value");
    let told = error.to_string();
    assert!(told.contains("pushdown.reuse") && told.contains("auto, none"), "{told}");
}
