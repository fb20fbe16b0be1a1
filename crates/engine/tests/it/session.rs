//! The session: what it shows of its tables, what statements cost, and the caps on them.

use std::fmt::Write as _;

use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::{Engine, EngineConfig, Inputs};

use crate::indexes::private_objects;
use crate::world::{World, failure, rows, text};

/// Bytes by which a request may go beyond a cap.
const OVERRUN: u64 = 64 * 1024;

/// About two megabytes of CSV: a number, a letter and forty more characters.
fn csv(rows: usize) -> String {
    let mut text = "n,k,text\n".to_owned();
    for n in 0..rows {
        let _ = writeln!(text, "{n},{},{n:040}", ["a", "b", "c", "d"][n % 4]);
    }
    text
}

/// A session whose tables are kept in `folder`.
async fn kept(folder: &std::path::Path) -> Engine {
    let catalog = Some(folder.join("catalog.sql"));
    Engine::new(EngineConfig { catalog, ..EngineConfig::unrestricted() }).await.expect("an engine")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_lists_of_tables_agree_and_types_are_those_of_sql() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    std::fs::write(&file, "id,name,at\n1,a,2024-01-01 00:00:00\n").expect("a file");
    let declare = format!("CREATE EXTERNAL TABLE far STORED AS CSV LOCATION '{}'", file.display());
    let engine = kept(folder.path()).await;
    let gone = declare.replace("far", "gone").replace("t.csv", "gone.csv");
    std::fs::write(folder.path().join("gone.csv"), "x\n1\n").expect("a file");
    for sql in [
        &declare,
        &gone,
        "CREATE VIEW seen AS SELECT id + 1 AS next FROM far",
        "CREATE TABLE m (a DECIMAL(10, 2) NOT NULL)",
    ] {
        engine.execute(sql).await.expect("a definition");
    }
    std::fs::remove_file(folder.path().join("gone.csv")).expect("removed");
    drop(engine);
    // Tomorrow nothing was named yet.
    let engine = kept(folder.path()).await;
    let listed: Vec<_> = engine.tables().await.expect("tables").into_iter().map(|t| (t.name, t.kind)).collect();
    let shown = rows(&engine, "SHOW TABLES").await.expect("rows").0;
    assert_eq!(listed.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["far", "gone", "m", "seen"]);
    assert_eq!(shown.iter().map(|row| &row[2]).collect::<Vec<_>>(), ["far", "gone", "m", "seen"]);
    assert_eq!(
        shown.iter().map(|row| row[3].as_str()).collect::<Vec<_>>(),
        ["BASE TABLE", "BASE TABLE", "BASE TABLE", "VIEW"]
    );
    let columns = "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, numeric_precision \
                   FROM information_schema.columns ORDER BY 1, 3";
    // A table that cannot be looked at hides no other.
    assert_eq!(
        rows(&engine, columns).await.expect("rows").0,
        [
            ["far", "id", "1", "BIGINT", "YES", "64"],
            ["far", "name", "2", "VARCHAR", "YES", "NULL"],
            ["far", "at", "3", "TIMESTAMP", "YES", "NULL"],
            ["m", "a", "1", "DECIMAL(10,2)", "NO", "10"],
            ["seen", "next", "1", "BIGINT", "YES", "64"],
        ]
    );
    let described = [["id", "BIGINT", "YES"], ["name", "VARCHAR", "YES"], ["at", "TIMESTAMP", "YES"]];
    for sql in ["DESCRIBE far", "SHOW COLUMNS FROM far"] {
        assert_eq!(rows(&engine, sql).await.expect(sql).0, described, "{sql}");
    }
    assert!(failure(&engine, "SELECT * FROM gone").await.message().contains("gone.csv"));
    assert!(failure(&engine, "CREATE VIEW m AS SELECT 1").await.message().contains("exists"));
    assert!(failure(&engine, "CREATE TABLE seen (a INT)").await.message().contains("exists"));
    engine.execute("CREATE TABLE IF NOT EXISTS m (b INT)").await.expect("nothing to do");
    engine.execute("CREATE OR REPLACE VIEW seen AS SELECT 5 AS five").await.expect("a view");
    for drop in ["DROP TABLE far", "DROP TABLE gone", "DROP TABLE m"] {
        engine.execute(drop).await.expect("dropped");
    }
    let engine = kept(folder.path()).await;
    assert_eq!(rows(&engine, "SELECT * FROM seen").await.expect("rows").0, [["5"]]);
    assert_eq!(rows(&engine, "SHOW TABLES").await.expect("rows").0.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_kept_tables_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = kept(folder.path()).await;
    for sql in [
        "CREATE TABLE t (a INT DEFAULT 3, b VARCHAR)",
        "INSERT INTO t (b) VALUES ('x'), ('y')",
        "CREATE VIEW one AS SELECT * FROM t WHERE b = 'x'",
        "CREATE VIEW two AS SELECT a + 1 AS a FROM one",
    ] {
        engine.execute(sql).await.expect(sql).collect().await.expect(sql);
    }
    let engine = kept(folder.path()).await;
    // Through two views, the table is made at the first name.
    assert_eq!(rows(&engine, "SELECT a FROM two").await.expect("rows").0, [["4"]]);
    for (sql, count) in [("UPDATE t SET a = 9 WHERE b = 'x'", "1"), ("INSERT INTO t (b) SELECT 'z'", "1")] {
        assert_eq!(rows(&engine, sql).await.expect(sql).0, [[count]], "{sql}");
    }
    let engine = kept(folder.path()).await;
    let all = "SELECT a, b FROM t ORDER BY b";
    assert_eq!(rows(&engine, all).await.expect("rows").0, [["9", "x"], ["3", "y"], ["3", "z"]]);
    let temporary = engine.execute("CREATE TABLE u AS SELECT 1 AS a").await.expect("a table").report();
    assert_eq!(temporary.usage.rows, 1, "the bill of CREATE TABLE AS counts its rows");
    engine.execute("DROP TABLE t").await.expect("dropped");
    let engine = kept(folder.path()).await;
    assert!(failure(&engine, all).await.message().contains("there is no table t"));
    assert!(failure(&engine, "SELECT * FROM two").await.message().contains("the view"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_that_sends_requests_has_them_on_its_bill() {
    let world = World::node().await;
    world.put("c/1.csv", csv(40_000)).await;
    let engine = world.engine("none").await;
    let mut sent = 0;
    for (sql, least_bytes) in [
        (format!("CREATE EXTERNAL TABLE c STORED AS CSV LOCATION '{}'", world.url("c/")), 10_000),
        ("ANALYZE TABLE c".to_owned(), 1_000_000),
        ("CREATE TABLE m AS SELECT k, count(*) AS n FROM c GROUP BY k".to_owned(), 1_000_000),
        ("CREATE INDEX ON c (n)".to_owned(), 1_000_000),
        (format!("COPY (SELECT k FROM c) TO '{}' STORED AS CSV", world.url("out/1.csv")), 1_000_000),
    ] {
        let mut result = engine.execute(&sql).await.expect(&sql);
        result.collect().await.expect(&sql);
        let usage = result.report().usage;
        assert!(usage.requests.total() > 0 && usage.bytes_network >= least_bytes, "{sql}: {usage:?}");
        sent += usage.requests.list;
    }
    assert_eq!(sent, world.requests_of("ListObjectsV2"), "nothing was listed beside the bills");
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_hold_whatever_the_statement_does() {
    let world = World::node().await;
    // Two megabytes for each statement, of which nothing is known yet.
    for name in ["a", "b", "c", "d"] {
        world.put(&format!("{name}/1.csv"), csv(40_000)).await;
    }
    let cap = 100_000;
    for level in ["none", "auto"] {
        let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.max_bytes", "0")]).await;
        let columns = "(n BIGINT, k VARCHAR, text VARCHAR) STORED AS CSV OPTIONS ('has_header' 'true') LOCATION";
        let declare = format!("CREATE EXTERNAL TABLE {level}_c {columns} '{}'", world.url("c/"));
        engine.execute(&declare).await.expect("a table");
        engine.execute(&format!("SET pushdown.max_bytes = {cap}")).await.expect("SET");
        let mut before = None;
        for sql in [
            format!("SELECT count(*) FROM '{}' WHERE k = 'a'", world.url("a/")),
            format!("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{}'", world.url("b/")),
            format!("DESCRIBE '{}'", world.url("d/")),
            format!("ANALYZE TABLE {level}_c"),
            format!("CREATE INDEX ON {level}_c (n)"),
            // Once more as programs run it that embed the engine.
            format!("CREATE INDEX ON {level}_c (n)"),
            format!("CREATE TABLE m AS SELECT * FROM {level}_c"),
            format!("SELECT count(*) FROM {level}_c WHERE text LIKE '%9%9%' GROUP BY k"),
        ] {
            let is_again = Some(&sql) == before.replace(sql.clone()).as_ref();
            let statement = engine.parse(&sql).expect("SQL").remove(0);
            let context = std::sync::Arc::new(std::sync::Mutex::new(None));
            let watched = std::sync::Arc::clone(&context);
            let done = async {
                let watch = move |query| *watched.lock().unwrap() = Some(query);
                let mut result = match is_again {
                    true => engine.run_with(&statement, &Inputs::default(), watch).await?,
                    false => engine.run(&statement, watch).await?,
                };
                result.collect().await
            };
            let done = done.await;
            let used = context.lock().unwrap().as_ref().expect("a context").meter.usage().bytes_network;
            assert!(used <= cap + OVERRUN, "{level}: {sql}: {used} bytes");
            match done {
                // Storage did the work.
                Ok(_) => assert_eq!(level, "auto", "{sql} needs more"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Limit, "{level}: {sql}: {error}");
                    assert!(error.message().contains("pushdown.max_bytes is 100000"), "{level}: {sql}: {error}");
                }
            }
        }
    }
    assert!(private_objects(&world).await.is_empty(), "an index that was stopped leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_count_the_requests_that_are_sent() {
    let world = World::node().await;
    for n in 0..250 {
        world.put(&format!("s/{n:03}.csv"), "k,v\na,1\nb,2\n").await;
    }
    let settings = [
        ("pushdown.level", "fragment"),
        ("pushdown.group_by", "storage"),
        ("pushdown.adaptive", "none"),
        ("datafusion.execution.target_partitions", "2"),
    ];
    let engine = world.engine_configured(&settings).await;
    let table = format!("CREATE EXTERNAL TABLE s STORED AS CSV LOCATION '{}'", world.url("s/"));
    engine.execute(&table).await.expect("a table");
    let sql = "SELECT k, sum(v) AS v FROM s GROUP BY k ORDER BY k";
    let mut result = engine.execute(sql).await.expect("a plan");
    assert_eq!(text(&result.collect().await.expect("rows")), [["a", "250"], ["b", "500"]]);
    let sent = result.report().usage.requests.fragment;
    let profile = result.profile().expect("a plan");
    let scans = profile.operators().into_iter().filter(|operator| operator.scan.is_some());
    let expected: u64 = scans.filter_map(|scan| scan.estimated.requests).sum();
    assert_eq!((sent, expected), (4, 4), "at most 64 objects go into a request");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_settings_are_said_to_be_asked_for() {
    let world = World::node().await;
    world.put("t/1.csv", csv(2_000)).await;
    let engine = world.engine_configured(&[("pushdown.level", "auto")]).await;
    let table = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", world.url("t/"));
    engine.execute(&table).await.expect("a table");
    let explain = "EXPLAIN SELECT k, count(*), avg(n) FROM t WHERE n >= 5 GROUP BY k";
    for group_by in ["auto", "compute"] {
        engine.execute(&format!("SET pushdown.group_by = '{group_by}'")).await.expect("SET");
        let plan = rows(&engine, explain).await.expect("a plan").0.concat().join("\n");
        assert_eq!(plan.contains("asked for by SET"), group_by == "compute", "{group_by}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_rows_come_in_the_order_of_their_file() {
    let world = World::node().await;
    let folder = tempfile::tempdir().expect("a folder");
    let text = csv(400_000);
    let file = folder.path().join("long.csv");
    std::fs::write(&file, &text).expect("a file");
    world.put("long.csv", text).await;
    let want: Vec<Vec<String>> = (0..500).map(|n| vec![n.to_string()]).collect();
    for (level, place) in [
        ("none", file.display().to_string()),
        ("none", world.url("long.csv")),
        ("select", world.url("long.csv")),
        ("fragment", world.url("long.csv")),
    ] {
        let engine = world.engine(level).await;
        for _ in 0..3 {
            let got = rows(&engine, &format!("SELECT n FROM '{place}' LIMIT 500")).await.expect("rows").0;
            assert_eq!(got, want, "{level} {place}");
        }
    }
}
