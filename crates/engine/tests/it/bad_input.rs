//! Wrong input: each case a clear error that names the place.

use object_store::ObjectStoreExt;
use pushdowndb_contract::ErrorKind;

use crate::world::{World, failure, rows};

async fn engine_with_table(world: &World, level: &str, columns: &str, csv: &str) -> pushdowndb_engine::Engine {
    world.put("bad/1.csv", csv.to_owned()).await;
    let engine = world.engine(level).await;
    let declare = format!(
        "CREATE EXTERNAL TABLE t ({columns}) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("bad/")
    );
    engine.execute(&declare).await.expect("a table");
    engine
}

fn assert_says(error: &pushdowndb_contract::Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "'{word}' in '{error}'");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_places() {
    let world = World::node().await;
    let engine = world.engine("select").await;
    let error = failure(&engine, "SELECT * FROM 's3://nowhere/x.csv'").await;
    assert_says(&error, ErrorKind::NotFound, &["nowhere"]);
    let error = failure(&engine, "SELECT * FROM 's3://data/missing.csv'").await;
    assert_says(&error, ErrorKind::NotFound, &["missing.csv"]);
    let error = failure(&engine, "SELECT * FROM no_such_table").await;
    assert_says(&error, ErrorKind::Invalid, &["no_such_table"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials() {
    let world = World::node().await;
    world.put("x.csv", "a\n1\n").await;
    let connection = pushdowndb_engine::ConnectionConfig {
        endpoint: Some(world.endpoint.clone()),
        access_key_id: Some("nobody".to_owned()),
        secret_access_key: Some("wrong".to_owned()),
        ..Default::default()
    };
    let config = pushdowndb_engine::EngineConfig { connection, ..pushdowndb_engine::EngineConfig::unrestricted() };
    let engine = pushdowndb_engine::Engine::new(config).await.expect("an engine");
    let error = failure(&engine, "SELECT * FROM 's3://data/x.csv'").await;
    assert_says(&error, ErrorKind::Denied, &["AWS_ACCESS_KEY_ID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ragged_rows() {
    let world = World::node().await;
    let columns = "a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL";
    for level in ["none", "select"] {
        let engine = engine_with_table(&world, level, columns, "a,b,c\n1,2,3\n4,5\n").await;
        let error = failure(&engine, "SELECT a, c FROM t WHERE a > 0").await;
        assert_says(&error, ErrorKind::Invalid, &["s3://data/bad/1.csv", "byte 12"]);
        let engine = engine_with_table(&world, level, columns, "a,b,c\n1,2,3\n4,5,6,7\n").await;
        let error = failure(&engine, "SELECT * FROM t").await;
        assert_says(&error, ErrorKind::Invalid, &["s3://data/bad/1.csv", "byte 12"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_parse() {
    let world = World::node().await;
    for level in ["none", "select"] {
        let columns = "a BIGINT NOT NULL, d DATE NOT NULL, m DECIMAL(15,2) NOT NULL";
        let csv = "a,d,m\n1,1995-01-01,2.50\n2,1995-13-01,x\n";
        let engine = engine_with_table(&world, level, columns, csv).await;
        let error = failure(&engine, "SELECT * FROM t WHERE a > 1").await;
        assert_says(&error, ErrorKind::Invalid, &["s3://data/bad/1.csv", "'1995-13-01'", "d"]);
        let error = failure(&engine, "SELECT sum(m) FROM t").await;
        assert_says(&error, ErrorKind::Invalid, &["s3://data/bad/1.csv", "'x'", "m"]);
        // A malformed field is an error only for a plan that decodes it.
        let (got, _) = rows(&engine, "SELECT a FROM t ORDER BY a").await.expect("rows");
        assert_eq!(got, [["1"], ["2"]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_where_none_may_be() {
    let world = World::node().await;
    for level in ["none", "select"] {
        let engine = engine_with_table(&world, level, "a BIGINT NOT NULL, b BIGINT", "a,b\n1,\n,2\n").await;
        let error = failure(&engine, "SELECT a, b FROM t").await;
        assert_says(&error, ErrorKind::Invalid, &["a"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_objects() {
    let world = World::node().await;
    for level in ["none", "select", "fragment"] {
        let engine = engine_with_table(&world, level, "a BIGINT NOT NULL, b VARCHAR", "").await;
        // Its columns are declared: an empty object is no rows, alone or beside others.
        assert_eq!(rows(&engine, "SELECT count(*), sum(a) FROM t").await.expect("rows").0, [["0", "NULL"]]);
        world.put("bad/2.csv", "a,b\n1,x\n").await;
        assert_eq!(rows(&engine, "SELECT count(*), sum(a) FROM t").await.expect("rows").0, [["1", "1"]]);
        object_store::ObjectStoreExt::delete(&world.store(), &"bad/2.csv".into()).await.expect("a DELETE");
        let engine = engine_with_table(&world, level, "a BIGINT NOT NULL, b VARCHAR", "a,b\n").await;
        assert_eq!(rows(&engine, "SELECT count(*), min(a) FROM t WHERE a > 0").await.expect("rows").0, [["0", "NULL"]]);
        assert!(rows(&engine, "SELECT * FROM t").await.expect("rows").0.is_empty());
        let error = failure(&engine, "SELECT * FROM 's3://data/empty.csv'").await;
        assert_says(&error, ErrorKind::NotFound, &["empty.csv"]);
    }
    world.put("empty.csv", "").await;
    let engine = world.engine("none").await;
    let error = failure(&engine, "SELECT * FROM 's3://data/empty.csv'").await;
    assert_says(&error, ErrorKind::Invalid, &["empty.csv", "empty"]);
    world.put("header.csv", "a,b\n").await;
    assert!(rows(&engine, "SELECT a, b FROM 's3://data/header.csv'").await.expect("rows").0.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_parquet() {
    let world = World::node().await;
    world.put("p/1.parquet", "PAR1 this is no Parquet").await;
    let engine = world.engine("select").await;
    let error = failure(&engine, "SELECT * FROM 's3://data/p/1.parquet'").await;
    assert!(error.to_string().contains("p/1.parquet"), "{error}");
    engine
        .execute("CREATE EXTERNAL TABLE p (a BIGINT) STORED AS PARQUET LOCATION 's3://data/p/'")
        .await
        .expect("a table");
    let error = failure(&engine, "SELECT * FROM p WHERE a > 1").await;
    assert_says(&error, ErrorKind::Corrupt, &["p/1.parquet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_sql() {
    let world = World::node().await;
    let engine = engine_with_table(&world, "none", "a BIGINT", "a\n1\n").await;
    let error = failure(&engine, "SELEC a FROM t").await;
    assert_says(&error, ErrorKind::Invalid, &["SELEC", "Line: 1"]);
    let error = failure(&engine, "SELECT b FROM t").await;
    assert_says(&error, ErrorKind::Invalid, &["b", "a"]);
    let error = failure(&engine, "SET pushdown.level = 'full'").await;
    assert_says(&error, ErrorKind::Invalid, &["auto, none, select"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_replaced_during_the_query() {
    let world = World::node().await;
    let mut csv = String::from("a\n");
    (0..200_000).for_each(|i| csv.push_str(&format!("{i}\n")));
    for level in ["none", "select"] {
        let engine = engine_with_table(&world, level, "a BIGINT NOT NULL", &csv).await;
        // Planned and pinned, but not read yet.
        let mut result = engine.execute("SELECT a FROM t WHERE a >= 0").await.expect("a plan");
        world.put("bad/1.csv", format!("{csv}7\n")).await;
        match result.collect().await {
            Err(error) => assert_says(&error, ErrorKind::Conflict, &["s3://data/bad/1.csv", "replaced"]),
            // The first request may have been sent before the new object came.
            Ok(batches) => assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 200_000),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_are_given_up_are_aborted() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    let copy = format!("COPY (SELECT * FROM generate_series(1, 100000000)) TO '{}'", world.url("big.csv"));
    let mut result = engine.execute(&copy).await.expect("a plan");
    let begun = async {
        while world.requests_of("UploadPart") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        done = result.collect() => panic!("{done:?}"),
        () = begun => {}
    }
    drop(result);
    // The plan runs on a task, which hears of it in its own time.
    engine.settle().await;
    assert_eq!(world.requests_of("AbortMultipartUpload"), world.requests_of("CreateMultipartUpload"));
    assert!(world.store().get(&"big.csv".into()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_say_what_storage_said() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    let error = failure(&engine, "COPY (SELECT 1 AS a) TO 's3://nowhere/x.csv'").await;
    assert_says(&error, ErrorKind::NotFound, &["NoSuchBucket"]);
    assert!(!error.to_string().contains("bug"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_nearly_right() {
    let world = World::node().await;
    let engine = engine_with_table(&world, "none", "a BIGINT", "a\n1\n").await;
    let said = async |sql: &str| failure(&engine, sql).await;
    assert_says(&said("SELECT * FROM tt").await, ErrorKind::Invalid, &["no table tt", "did you mean t?"]);
    assert_says(
        &said("SELECT * FROM elsewhere").await,
        ErrorKind::Invalid,
        &["no table elsewhere", "'s3://bucket/key.csv'"],
    );
    assert_says(&said("SET pushdown.levle = 'none'").await, ErrorKind::Invalid, &["did you mean pushdown.level?"]);
    assert_says(&said("SHOW pushdown.levle").await, ErrorKind::Invalid, &["did you mean pushdown.level?"]);
    assert_says(&said("SET pushdown.level = 'nome'").await, ErrorKind::Invalid, &["pushdown.level: 'nome'", "none"]);
    assert_says(&said("SET pushdown.max_bytes = '10MB'").await, ErrorKind::Invalid, &["pushdown.max_bytes"]);
    assert_says(&said("SET pushdown.price_book = paper-egress").await, ErrorKind::Invalid, &["= 'paper-egress'"]);
    let format = "CREATE EXTERNAL TABLE u (a INT) STORED AS CVS LOCATION 's3://data/x.csv'";
    assert_says(&said(format).await, ErrorKind::Invalid, &["no format CVS", "PARQUET"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_set_shown_and_reset() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let shown = async |name: &str| rows(&engine, &format!("SHOW pushdown.{name}")).await.expect("SHOW").0.concat();
    for (name, other) in [("level", "Select"), ("split_bytes", "1048576"), ("price_book", "paper-egress")] {
        let value = shown(name).await;
        engine.execute(&format!("SET pushdown.{name} = '{other}'")).await.expect("SET");
        assert_eq!(shown(name).await, [format!("pushdown.{name}"), other.to_lowercase()]);
        engine.execute(&format!("RESET pushdown.{name}")).await.expect("RESET");
        assert_eq!(shown(name).await, value);
    }
    let all = rows(&engine, "SHOW ALL").await.expect("SHOW").0;
    let all: Vec<&str> = all.iter().filter_map(|row| row.first()).map(String::as_str).collect();
    assert!(["pushdown.level", "datafusion.execution.batch_size"].iter().all(|name| all.contains(name)), "{all:?}");
    assert!(!all.contains(&"level"), "a name that SET does not know");
    engine.execute("SET pushdown.threads = 61").await.expect("SET");
    assert_eq!(shown("threads").await, ["pushdown.threads", "61"]);
    engine.execute("RESET pushdown.threads").await.expect("RESET");
    assert_ne!(shown("threads").await, ["pushdown.threads", "61"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_without_a_pause_can_be_stopped() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    engine.execute("SET pushdown.query_timeout_s = 1").await.expect("SET");
    let endless =
        "SELECT count(*) FROM generate_series(1, 50000) a, generate_series(1, 50000) b WHERE a.value < b.value";
    assert_says(&failure(&engine, endless).await, ErrorKind::Limit, &["query_timeout_s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_change_at_once_are_all_kept() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    for n in 1..20 {
        let [a, b] = ["retries", "requests"].map(|name| format!("SET pushdown.{name} = {n}"));
        let (a, b) = tokio::join!(engine.execute(&a), engine.execute(&b));
        assert!(a.is_ok() && b.is_ok());
        let value =
            |name: &str| engine.pushdown_settings().into_iter().find(|s| s.name == name).expect("a setting").value;
        assert_eq!([value("pushdown.retries"), value("pushdown.requests")], [n.to_string(), n.to_string()]);
    }
}
