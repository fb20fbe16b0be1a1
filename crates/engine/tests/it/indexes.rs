//! Indexes: the rows of plain DataFusion whatever an index knows of the objects, for fewer bytes.

use std::fmt::Write as _;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::{Engine, Report};

use crate::oracle::Oracle;
use crate::world::{Rows, World, assert_same, rows, rows_in_spite};

const COLUMNS: &str = "id BIGINT, n BIGINT, s VARCHAR, d DATE, m DECIMAL(15,2), f DOUBLE, b BOOLEAN, t TIMESTAMP";

/// Predicates on the columns with an index, and about whether one is used.
const PREDICATES: &[(&str, bool)] = &[
    ("n = 17", true),
    ("n = -3", true),
    ("17 = n", true),
    ("n = 123456789", true),
    ("n = 9223372036854775807", true),
    ("n = -9223372036854775808", true),
    ("n IN (1, 2, 500, -4)", true),
    ("n IN (1, NULL, 2)", true),
    ("n < -1", true),
    ("n <= -1 AND id > 100", true),
    ("n > 1000", true),
    ("n >= 999 AND n < 1002", true),
    ("n BETWEEN 40 AND 45", true),
    ("n = 17 OR n = 18", true),
    ("n IS NOT NULL AND n < 2", true),
    ("n % 500 = 3", true),
    ("n IS NULL", false),
    ("n = 17 OR s = 'é'", false),
    ("n = id", false),
    ("s = 'plain'", true),
    ("s = 'with \"quotes\", and commas'", true),
    ("s = 'with ''one'''", true),
    ("s = 'Zürich 東京 🦀'", true),
    ("s > 'w' AND s < 'x'", true),
    ("s LIKE 'with%'", true),
    ("s IN ('plain', ' padded ', 'no such')", true),
    ("d = DATE '1999-12-31'", true),
    ("d >= DATE '2024-02-28' AND d < DATE '2024-03-02'", true),
    ("d < DATE '1970-01-01'", true),
    ("m = 0.10", true),
    ("m = -12.50", true),
    ("m > 9999999999999", true),
    ("m BETWEEN -0.05 AND 0.05", true),
    ("f = CAST(0.1 AS DOUBLE)", true),
    ("f > CAST('1e300' AS DOUBLE)", true),
    ("f < CAST(-10000000000.5 AS DOUBLE)", true),
    ("t = TIMESTAMP '2020-01-02T03:04:05'", true),
    ("t > TIMESTAMP '2037-01-01T00:00:00'", true),
    ("n = 17 AND d = DATE '1999-12-31'", true),
    ("n < 100 AND s = 'plain'", true),
    ("n = 17 AND s = 'no such'", true),
];

/// One row as text of CSV, by its number.
fn csv_row(id: i64) -> String {
    let n = match id % 97 {
        0 => String::new(),
        1 => i64::MAX.to_string(),
        2 => i64::MIN.to_string(),
        3 => "-3".to_owned(),
        4 => "17".to_owned(),
        _ => (id * 7919 % 3001 - 5).to_string(),
    };
    let s = match id % 41 {
        // The oracle takes a pair of quotes for NULL.
        0 => String::new(),
        1 => "\"with \"\"quotes\"\", and commas\"".to_owned(),
        2 => "with 'one'".to_owned(),
        3 => "Zürich 東京 🦀".to_owned(),
        4 => " padded ".to_owned(),
        5 => "é".to_owned(),
        6..20 => "plain".to_owned(),
        _ => format!("word {id}"),
    };
    let d = match id % 31 {
        0 => String::new(),
        1 => "1999-12-31".to_owned(),
        2 => "1901-01-01".to_owned(),
        _ => format!("2024-{:02}-{:02}", 1 + id % 12, 1 + id % 28),
    };
    let m = match id % 13 {
        0 => String::new(),
        1 => "9999999999999.99".to_owned(),
        2 => "-12.50".to_owned(),
        3 => "0.10".to_owned(),
        _ => format!("{}.{:02}", id % 700 - 350, id % 100),
    };
    let f = ["", "0.1", "-0.0", "0", "1e301", "-1.5e10", "NaN", "2.5"][(id % 8) as usize];
    let b = ["true", "false", ""][(id % 3) as usize];
    let t = ["2020-01-02T03:04:05", "", "2038-01-19T03:14:08.5", "1969-07-20T20:17:40"][(id % 4) as usize];
    format!("{id},{n},{s},{d},{m},{f},{b},{t}")
}

/// Which rows each object has; the last one comes after the indexes.
const OBJECTS: [std::ops::Range<i64>; 4] = [0..1500, 1500..1501, 1501..4000, 4000..4700];

fn csv(rows: impl Iterator<Item = i64>, header: bool, end: &str) -> String {
    let names = "id,n,s,d,m,f,b,t";
    let header = if header { format!("{names}{end}") } else { String::new() };
    rows.fold(header, |mut text, id| {
        write!(text, "{}{end}", csv_row(id)).expect("text");
        text
    })
}

fn declare(name: &str, format: &str, url: &str, options: &str) -> String {
    format!("CREATE EXTERNAL TABLE {name} ({COLUMNS}) STORED AS {format} LOCATION '{url}' {options}")
}

/// How the rows of a table are written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    Csv,
    /// CSV without header, its lines ended by CR LF.
    CrLf,
    Json,
    Parquet,
}

impl Written {
    fn format(self) -> &'static str {
        match self {
            Self::Csv | Self::CrLf => "CSV",
            Self::Json => "JSON",
            Self::Parquet => "PARQUET",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Self::Csv => "OPTIONS ('format.has_header' 'true')",
            Self::CrLf => "OPTIONS ('format.has_header' 'false')",
            Self::Json | Self::Parquet => "",
        }
    }

    /// Writes the objects of these numbers below `path`.
    async fn put(self, world: &World, path: &str, objects: std::ops::Range<usize>) {
        for place in objects {
            self.put_rows(world, path, place, OBJECTS[place].clone()).await;
        }
    }

    async fn put_rows(self, world: &World, path: &str, place: usize, rows_of: std::ops::Range<i64>) {
        let engine = world.engine("none").await;
        match self {
            Self::Csv => world.put(&format!("{path}/{place}.csv"), csv(rows_of, true, "\n")).await,
            Self::CrLf => world.put(&format!("{path}/{place}.csv"), csv(rows_of, false, "\r\n")).await,
            Self::Json | Self::Parquet => {
                let source = format!("source/{path}/{place}/1.csv");
                world.put(&source, csv(rows_of, true, "\n")).await;
                let declare = declare(&format!("s{place}"), "CSV", &world.url(&source), Self::Csv.options());
                engine.execute(&declare).await.expect("a table");
                let extension = if self == Self::Json { "json" } else { "parquet" };
                let target = world.url(&format!("{path}/{place}.{extension}"));
                rows(&engine, &format!("COPY s{place} TO '{target}' STORED AS {}", self.format()))
                    .await
                    .expect("a copy");
            }
        }
    }
}

pub async fn looked_up(engine: &Engine, level: &str, strategy: &str, sql: &str) -> (Rows, Report) {
    engine.execute(&format!("SET pushdown.level = '{level}'")).await.expect("SET");
    engine.execute(&format!("SET pushdown.filter = '{strategy}'")).await.expect("SET");
    rows(engine, sql).await.unwrap_or_else(|e| panic!("{sql} at {level}: {e}"))
}

pub fn told(report: &Report, part: &str) -> bool {
    report.usage.strategies.iter().any(|strategy| strategy.contains(part))
}

pub async fn index(engine: &Engine, table: &str, columns: &[&str]) {
    for column in columns {
        engine
            .execute(&format!("CREATE INDEX ON {table} ({column})"))
            .await
            .unwrap_or_else(|e| panic!("{column}: {e}"));
    }
}

/// Every predicate gives the oracle's rows at every level: with an index on each object, with one
/// that is stale, with an object that has none, and without.
async fn agrees(world: &World, written: Written, levels: &[&str]) {
    // What lies beside the oracle's objects would be data to it.
    written.put(world, "oracle", 0..4).await;
    written.put(world, "t", 0..3).await;
    // To be replaced.
    written.put_rows(world, "t", 1, 0..40).await;
    let engine = world.engine("none").await;
    engine.execute(&declare("t", written.format(), &world.url("t/"), written.options())).await.expect("a table");
    index(&engine, "t", &["n", "s", "d", "m", "f", "t"]).await;
    written.put(world, "t", 1..2).await;
    written.put(world, "t", 3..4).await;
    let oracle = Oracle::new(world);
    oracle.execute(&declare("t", written.format(), &world.url("oracle/"), written.options())).await;
    for level in levels {
        let mut used = 0;
        for (predicate, by_index) in PREDICATES {
            let sql = format!("SELECT id, n, s, d, m, f, b, t FROM t WHERE {predicate}");
            let want = oracle.rows(&sql).await;
            let (got, report) = looked_up(&engine, level, "index", &sql).await;
            assert_same(&format!("{sql} on {written:?} at {level}"), &got, &want);
            let what = format!("{sql} on {written:?} at {level}: {:?}", report.usage.strategies);
            assert_eq!(told(&report, "the index "), *by_index, "{what}");
            assert!(!told(&report, "without the index") && !told(&report, "fell back"), "{what}");
            used += usize::from(!want.is_empty() && *by_index);
            let (got, _) = looked_up(&engine, level, "auto", &sql).await;
            assert_same(&format!("{sql} on {written:?} at {level}, chosen"), &got, &want);
            // Aggregates and limits over what the index led to.
            let count = format!("SELECT count(*), min(id), sum(m) FROM t WHERE {predicate}");
            let (got, _) = looked_up(&engine, level, "index", &count).await;
            assert_same(&count, &got, &oracle.rows(&count).await);
            let (got, _) = looked_up(&engine, level, "index", &format!("{sql} LIMIT 2")).await;
            assert_eq!(got.len(), want.len().min(2), "{sql} LIMIT 2");
            assert!(got.iter().all(|row| want.contains(row)), "{sql} LIMIT 2");
        }
        assert!(used > 20, "only {used} predicates led to rows by an index");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_the_node() {
    agrees(&World::node().await, Written::Csv, &["none", "select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_without_header_on_the_node() {
    agrees(&World::node().await, Written::CrLf, &["select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_the_node() {
    agrees(&World::node().await, Written::Json, &["none", "select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_the_node() {
    agrees(&World::node().await, Written::Parquet, &["none", "select", "fragment"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    agrees(&world, Written::Csv, &["none", "select"]).await;
}

/// Two objects of 20 000 records of 100 bytes; the keys of both are all over them.
pub async fn scattered(world: &World) -> Engine {
    for object in 0..2i64 {
        let mut text = String::from("code,text\n");
        for i in 0..20_000i64 {
            let code = i * 7919 % 20_000 * 2 + object;
            writeln!(text, "{code:06},{:0>92}", i).expect("text");
        }
        world.put(&format!("c/{object}.csv"), text).await;
    }
    let engine = world.engine("select").await;
    engine.execute(&declare_scattered(world)).await.expect("a table");
    index(&engine, "c", &["code"]).await;
    engine
}

pub fn declare_scattered(world: &World) -> String {
    format!(
        "CREATE EXTERNAL TABLE c (code BIGINT, text VARCHAR) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb')",
        world.url("c/")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_asks_once_and_then_for_each_row() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    // Two rows in one object, one in the other, all far apart.
    let sql = "SELECT code FROM c WHERE code IN (100, 20001, 39998)";
    let want: Rows = [["100"], ["20001"], ["39998"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
    for (first, manifests) in [(true, 1), (false, 0)] {
        let (got, report) = looked_up(&engine, "select", "index", sql).await;
        assert_same(sql, &got, &want);
        let requests = &report.usage.requests;
        assert_eq!((requests.list, requests.select, requests.get, requests.head), (1, 2, 3 + manifests, 0), "{first}");
        assert!(told(&report, "the index code_index led to 3 rows in 2 objects"), "{:?}", report.usage.strategies);
        assert!(report.usage.bytes_network < 20_000, "{} bytes", report.usage.bytes_network);
    }
    // The node looks up: one request for the rows of all objects.
    let (got, report) = looked_up(&engine, "fragment", "index", sql).await;
    assert_same(sql, &got, &want);
    let requests = &report.usage.requests;
    assert_eq!((requests.list, requests.fragment, requests.select, requests.get), (1, 1, 0, 0));
    assert!(told(&report, "the index code_index led to 3 rows in 2 objects"), "{:?}", report.usage.strategies);
    assert!(report.usage.bytes_network < 5_000, "{} bytes", report.usage.bytes_network);
    // One part of each index that can hold the value, and the record.
    let (got, report) = looked_up(&engine, "none", "index", "SELECT text FROM c WHERE code = 20001").await;
    assert_eq!(got.len(), 1);
    let requests = &report.usage.requests;
    assert_eq!((requests.list, requests.select, requests.get), (1, 0, 3));
    assert!(report.usage.bytes_network < 250_000, "{} bytes of 4 MB", report.usage.bytes_network);
    // What no part can hold is not asked for at all.
    let (got, report) = looked_up(&engine, "select", "index", "SELECT text FROM c WHERE code > 50000").await;
    assert!(got.is_empty());
    let requests = &report.usage.requests;
    assert_eq!((requests.list, requests.select, requests.get), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn few_rows_are_looked_up_and_many_are_not() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    let (plan, _) = rows(&engine, "EXPLAIN SELECT text FROM c WHERE code = 77").await.expect("a plan");
    let plan = plan.concat().join("\n");
    assert!(plan.contains("index=[code_index (code): 2 parts in 2 of 2 objects]"), "{plan}");
    let (plan, _) = rows(&engine, "EXPLAIN SELECT text FROM c WHERE code > 77").await.expect("a plan");
    let plan = plan.concat().join("\n");
    assert!(plan.contains("not index: index code_index would take"), "{plan}");
    let (_, report) = rows(&engine, "SELECT text FROM c WHERE code = 77").await.expect("rows");
    assert!(told(&report, "the index code_index led to 1 rows"), "{:?}", report.usage.strategies);
    // The baseline reads plainly.
    let (_, report) = looked_up(&engine, "none", "auto", "SELECT text FROM c WHERE code = 77").await;
    assert!(!told(&report, "index"), "{:?}", report.usage.strategies);
    for strategy in ["compute", "storage"] {
        let (_, report) = looked_up(&engine, "select", strategy, "SELECT text FROM c WHERE code = 77").await;
        assert!(!told(&report, "index"), "{:?}", report.usage.strategies);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_an_index_cost_no_request_more() {
    let world = World::node().await;
    world.put("w/1.csv", "a,b\n1,x\n2,y\n").await;
    let engine = world.engine("select").await;
    for (location, list) in [("w/", 1), ("w/*.csv", 1), ("w/1.csv", 1)] {
        let url = world.url(location);
        let declare = format!(
            "CREATE OR REPLACE EXTERNAL TABLE w (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{url}' \
             OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb')"
        );
        engine.execute(&declare).await.expect("a table");
        let (got, report) = rows(&engine, "SELECT b FROM w WHERE a = 2").await.expect("rows");
        assert_eq!(got, [["y"]]);
        let requests = &report.usage.requests;
        assert_eq!((requests.list, requests.get, requests.select), (list, 0, 1), "{location}");
        let (_, report) = rows(&engine, "SELECT b FROM w").await.expect("rows");
        let listed = if location == "w/1.csv" { 0 } else { 1 };
        assert_eq!(report.usage.requests.list, listed, "{location} without a filter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_found_however_the_table_is_named() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    let only = "code BIGINT, text VARCHAR) STORED AS CSV LOCATION";
    for location in ["c/*.csv", "c/1.csv", "c", "c/**/*.csv"] {
        let url = world.url(location);
        let options = "OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb')";
        engine
            .execute(&format!("CREATE OR REPLACE EXTERNAL TABLE x ({only} '{url}' {options}"))
            .await
            .expect("a table");
        let (got, report) = rows(&engine, "SELECT code FROM x WHERE code = 20001").await.expect("rows");
        assert_eq!(got, [["20001"]], "{location}");
        assert!(told(&report, "the index code_index led to 1 rows in 1 objects"), "{:?}", report.usage.strategies);
    }
    // Of another type the values would compare otherwise.
    let declare = format!(
        "CREATE EXTERNAL TABLE y (code VARCHAR, text VARCHAR) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true')",
        world.url("c/")
    );
    engine.execute(&declare).await.expect("a table");
    let (got, report) = rows_in_spite(&engine, "SELECT code FROM y WHERE code = '020001'").await.expect("rows");
    assert_eq!(got, [["020001"]]);
    assert!(told(&report, "code_index is not used: it was made for a table of another declaration"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_indexes_are_not_used_and_explain_says_so() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    world.put("c/1.csv", "code,text\n020001,new\n").await;
    let sql = "SELECT text FROM c WHERE code = 20001";
    let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
    let plan = plan.concat().join("\n");
    assert!(plan.contains("1 object has no fresh index and is scanned"), "{plan}");
    assert_eq!(rows(&engine, sql).await.expect("rows").0, [["new"]]);
    world.put("c/0.csv", "code,text\n020001,too\n").await;
    let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
    let plan = plan.concat().join("\n");
    assert!(plan.contains("not index: index code_index is stale"), "{plan}");
    assert_same(sql, &rows(&engine, sql).await.expect("rows").0, &vec![vec!["new".to_owned()], vec!["too".to_owned()]]);
    let (shown, _) = rows(&engine, "SHOW INDEXES FROM c").await.expect("rows");
    assert_eq!(shown[0][..6], ["c", "code_index", "code", "partial", "2", "0"].map(str::to_owned));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_replaced_while_the_query_runs_are_an_error() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    // One partition runs when its rows are asked for, and not before.
    engine.execute("SET pushdown.threads = 1").await.expect("SET");
    let mut planned = engine.execute("SELECT text FROM c WHERE code = 20001").await.expect("a plan");
    world.put("c/1.csv", "code,text\n020001,new\n").await;
    let error = planned.collect().await.expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

pub async fn private_objects(world: &World) -> Vec<Path> {
    let prefix = Path::from("c/_pushdowndb");
    let all: Vec<_> = world.store().list(Some(&prefix)).try_collect().await.expect("a listing");
    all.into_iter().map(|object| object.location).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_or_broken_costs_nothing_but_itself() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    engine.execute("SET pushdown.threads = 1").await.expect("SET");
    let sql = "SELECT code FROM c WHERE code = 20001";
    let mut planned = engine.execute(sql).await.expect("a plan");
    for path in private_objects(&world).await.iter().filter(|path| path.as_ref().ends_with(".csv")) {
        world.store().delete(path).await.expect("a deletion");
    }
    let batches = planned.collect().await.expect("rows in spite of it");
    assert_eq!(crate::world::text(&batches), [["20001"]]);
    assert!(told(&planned.report(), "scanned without the index"), "{:?}", planned.report().usage.strategies);
    // A manifest without its objects, and one that cannot be read.
    let (got, report) = rows_in_spite(&engine, sql).await.expect("rows");
    assert_eq!(got, [["20001"]]);
    assert!(!told(&report, "led to"), "{:?}", report.usage.strategies);
    let manifest = private_objects(&world).await.pop().expect("a manifest");
    world.put(manifest.as_ref(), "{\"version\": 7").await;
    let (got, report) = rows_in_spite(&engine, sql).await.expect("rows");
    assert_eq!(got, [["20001"]]);
    assert!(told(&report, "code_index is not used: the manifest of the index cannot be read"));
}

#[tokio::test(flavor = "multi_thread")]
async fn building_reads_values_alone_and_tells_how_far_it_is() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    let built = async |level: &str| {
        engine.execute("DROP INDEX code_index ON c").await.expect("dropped");
        engine.execute(&format!("SET pushdown.level = '{level}'")).await.expect("SET");
        let mut watched = None;
        let create = engine.parse("CREATE INDEX ON c (code)").expect("SQL").remove(0);
        let create = engine.run(&create, |context| watched = Some(context)).await;
        let report = create.expect("an index").report();
        let progress = &watched.expect("it began").progress;
        let ((done, all), splits) = (progress.bytes(), progress.splits());
        assert!(splits == (2, 2) && all == 4_000_000 + 20 && done <= all && done + 200 > all, "{done} of {all}");
        let mut objects = Vec::new();
        for path in private_objects(&world).await.iter().filter(|path| path.as_ref().ends_with(".csv")) {
            objects.push(world.store().get(path).await.expect("an object").bytes().await.expect("its bytes"));
        }
        objects.sort();
        (objects, report.usage)
    };
    let (plain, usage) = built("none").await;
    assert!(usage.requests.get >= 2 && usage.requests.fragment == 0, "{:?}", usage.requests);
    let (pushed, usage) = built("fragment").await;
    assert_eq!((usage.requests.get, usage.requests.fragment), (0, 2));
    assert!(plain == pushed, "an index is the same bytes, whoever read its values");
    let values = usage.bytes_network - plain.iter().map(|object| object.len() as u64).sum::<u64>();
    assert!(values < 900_000, "{values} bytes of 4 MB for values and places");
}
