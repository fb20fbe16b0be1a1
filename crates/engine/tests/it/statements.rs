//! Statements that DataFusion plans as another one, or ignores in part: each means what it says, or
//! is refused by name.

use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::Engine;

use crate::world::{World, failure, rows};

async fn engine(world: &World) -> Engine {
    let engine = world.engine("auto").await;
    world.put("t/1.csv", "a,b\n1,x\n1,x\n1,x\n2,y\n,z\n,z\n").await;
    for statement in [
        &format!(
            "CREATE EXTERNAL TABLE t (a INT, b VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            world.url("t/")
        ),
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE TABLE u AS SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (2, 'y'), (NULL, 'z')) u(a, b)",
    ] {
        engine.execute(statement).await.unwrap().collect().await.unwrap();
    }
    engine
}

async fn check(engine: &Engine, statements: &[(&str, &[&[&str]])]) {
    for (sql, wanted) in statements {
        let mut got = rows(engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).0;
        got.sort();
        assert_eq!(got, *wanted, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn set_operations_with_all_count_rows() {
    let world = World::node().await;
    let engine = engine(&world).await;
    check(
        &engine,
        &[
            ("SELECT a, b FROM t EXCEPT ALL SELECT a, b FROM u", &[&["1", "x"], &["1", "x"], &["NULL", "z"]]),
            ("SELECT a, b FROM t INTERSECT ALL SELECT a, b FROM u", &[&["1", "x"], &["2", "y"], &["NULL", "z"]]),
            ("SELECT a FROM t EXCEPT ALL SELECT a FROM t", &[]),
            ("SELECT a, b FROM t EXCEPT SELECT a, b FROM u", &[]),
            ("SELECT a FROM t INTERSECT SELECT a FROM u", &[&["1"], &["2"], &["NULL"]]),
            ("SELECT count(*) FROM (SELECT a FROM u UNION ALL SELECT a FROM u EXCEPT ALL SELECT a FROM u)", &[&["4"]]),
            ("SELECT a FROM t WHERE a IN (SELECT a FROM u EXCEPT ALL SELECT 2)", &[&["1"], &["1"], &["1"], &["2"]]),
            (
                "SELECT x FROM (VALUES (1), (1)) p(x) EXCEPT ALL SELECT CAST(x AS BIGINT) FROM (VALUES (1)) q(x)",
                &[&["1"]],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_zones_turn_instants_into_local_times_and_back() {
    let world = World::node().await;
    let engine = engine(&world).await;
    let zone = "AT TIME ZONE 'Europe/Berlin'";
    check(
        &engine,
        &[
            (&format!("SELECT TIMESTAMPTZ '2024-07-01 12:00:00Z' {zone}"), &[&["2024-07-01T14:00:00"]]),
            (&format!("SELECT TIMESTAMPTZ '2024-01-01 12:00:00+00:00' {zone}"), &[&["2024-01-01T13:00:00"]]),
            (&format!("SELECT TIMESTAMP '2024-07-01 12:00:00' {zone}"), &[&["2024-07-01T10:00:00Z"]]),
            (&format!("SELECT TIMESTAMP '2024-07-01 12:00:00' {zone} AT TIME ZONE 'UTC'"), &[&["2024-07-01T10:00:00"]]),
            (&format!("SELECT CAST(NULL AS TIMESTAMP) {zone}"), &[&["NULL"]]),
            (&format!("SELECT count(*) FROM t WHERE TIMESTAMPTZ '2024-07-01 12:00:00Z' {zone} = TIMESTAMP '2024-07-01 14:00:00'"), &[&["6"]]),
        ],
    )
    .await;
    assert!(
        failure(&engine, "SELECT TIMESTAMP '2024-07-01' AT TIME ZONE b FROM t").await.to_string().contains("constant")
    );
    assert!(
        failure(&engine, "SELECT TIMESTAMP '2024-07-01' AT TIME ZONE 'Mars/Crater'").await.to_string().contains("Mars")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_may_begin_with_from() {
    let world = World::node().await;
    let engine = engine(&world).await;
    let path = world.url("t/1.csv");
    check(
        &engine,
        &[
            ("FROM u", &[&["1", "x"], &["2", "y"], &["2", "y"], &["NULL", "z"]]),
            ("FROM t WHERE a = 2", &[&["2", "y"]]),
            ("FROM v ORDER BY a LIMIT 1", &[&["1"]]),
            ("FROM u SELECT b WHERE a = 1", &[&["x"]]),
            ("SELECT count(*) FROM (FROM t)", &[&["6"]]),
            (&format!("FROM '{path}' WHERE b = 'y'"), &[&["2", "y"]]),
        ],
    )
    .await;
    engine.execute("CREATE TABLE w AS FROM u").await.unwrap().collect().await.unwrap();
    check(&engine, &[("SELECT count(*) FROM w", &[&["4"]])]).await;
    let copied = format!("COPY (FROM u) TO '{}'", world.url("out/1.parquet"));
    engine.execute(&copied).await.unwrap().collect().await.unwrap();
    check(&engine, &[(&format!("SELECT count(*) FROM '{}'", world.url("out/1.parquet")), &[&["4"]])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_file_are_shown() {
    let world = World::node().await;
    let engine = engine(&world).await;
    let sql = format!("SHOW COLUMNS FROM '{}'", world.url("t/1.csv"));
    let shown = rows(&engine, &sql).await.unwrap().0;
    assert_eq!(shown.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(rows(&engine, "SHOW COLUMNS FROM t").await.unwrap().0.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_ignored_is_refused_by_name() {
    let world = World::node().await;
    let engine = engine(&world).await;
    for (sql, name) in [
        ("BEGIN", "BEGIN"),
        ("START TRANSACTION", "BEGIN"),
        ("COMMIT", "COMMIT"),
        ("ROLLBACK", "ROLLBACK"),
        ("SAVEPOINT s", "SAVEPOINT"),
        ("SELECT * FROM u FOR UPDATE", "FOR UPDATE"),
        ("SELECT a FROM t PREWHERE a = 1", "PREWHERE"),
        ("SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = a", "CONNECT BY"),
        ("SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP", "ROLLUP"),
        ("SELECT a FROM t SETTINGS max_threads = 1", "SETTINGS"),
        ("SELECT a FROM t FORMAT JSON", "FORMAT"),
        ("SELECT a FROM t FOR XML AUTO", "FOR XML"),
        ("SELECT * FROM t PARTITION (p)", "PARTITION"),
        ("SELECT * FROM t WITH (NOLOCK)", "hint"),
        ("CREATE TABLE k (a INT GENERATED ALWAYS AS (1))", "GENERATED"),
        ("CREATE TABLE k (a INT COLLATE nocase)", "COLLATE"),
        ("SELECT * FROM t NATURAL RIGHT JOIN u", "NATURAL with an outer join"),
        ("SELECT * FROM t POSITIONAL JOIN u", "POSITIONAL JOIN"),
        ("SELECT * FROM t ASOF JOIN u USING (a)", "ASOF JOIN takes ON"),
        ("SELECT * FROM (SELECT * FROM u FOR SHARE)", "FOR SHARE"),
        ("CREATE TABLE k (a INT PRIMARY KEY)", "PRIMARY KEY"),
        ("CREATE TABLE k (a INT, PRIMARY KEY (a))", "PRIMARY KEY"),
        ("CREATE TABLE k (a INT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE k (a INT CHECK (a > 0))", "CHECK"),
        ("CREATE TABLE k (a INT REFERENCES u (a))", "REFERENCES"),
        ("CREATE EXTERNAL TABLE k (a INT, PRIMARY KEY (a)) STORED AS CSV LOCATION '/nowhere/'", "PRIMARY KEY"),
    ] {
        let error = failure(&engine, sql).await;
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(name), "{sql}: {error}");
    }
    assert!(failure(&engine, "SELECT * FROM t JOIN u").await.to_string().contains("needs ON or USING"));
    engine.execute("CREATE TABLE n (a INT NOT NULL)").await.unwrap().collect().await.unwrap();
    assert!(failure(&engine, "INSERT INTO n VALUES (NULL)").await.to_string().contains("null"));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_stay_above_columns_that_share_a_name() {
    let world = World::node().await;
    world.put("l/1.csv", "id,n\n1,\n2,5\n3,\n").await;
    world.put("r/1.csv", "id,n\n2,\n3,7\n4,\n5,1\n6,1\n7,1\n").await;
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        for table in ["l", "r"] {
            let sql = format!(
                "CREATE EXTERNAL TABLE {table} (id INT, n INT) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
                world.url(&format!("{table}/"))
            );
            engine.execute(&sql).await.unwrap().collect().await.unwrap();
        }
        check(
            &engine,
            &[
                (
                    "SELECT y.id FROM l x RIGHT JOIN r y ON x.id = y.id WHERE (x.n IS NULL) <> (y.n IS NULL)",
                    &[&["2"], &["3"], &["5"], &["6"], &["7"]],
                ),
                ("SELECT y.id FROM l x RIGHT JOIN r y ON x.id = y.id WHERE x.n IS NULL AND y.n IS NULL", &[&["4"]]),
                (
                    "SELECT count(*) FROM l x RIGHT JOIN r y ON x.id = y.id WHERE (x.id IS NULL) = (y.n IS NULL)",
                    &[&["2"]],
                ),
                ("SELECT z.id FROM (l x JOIN r y ON x.id = y.id) JOIN r z ON y.n = z.id", &[&["7"]]),
            ],
        )
        .await;
    }
}

/// A table that is just named is listed once a statement, and looked at once as long as it does not
/// change: by this session and by the next.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_named_table_are_inferred_once() {
    let world = World::node().await;
    let cache = tempfile::tempdir().expect("a folder");
    let csv: String = (0..2000).map(|n| format!("{n},text {n},{}.5\n", n * 3)).collect();
    world.put("named/1.csv", format!("id,Text,v\n{csv}")).await;
    world.put("named/2.csv", format!("id,Text,v\n{csv}")).await;
    let sql = format!("SELECT sum(id), max(text) FROM '{}'", world.url("named/*.csv"));
    let wanted = [["3998000", "text 999"]];
    let mut sessions = vec![];
    for _ in 0..2 {
        let engine = world.engine_in("fragment", cache.path()).await;
        for _ in 0..2 {
            let (got, report) = rows(&engine, &sql).await.unwrap();
            assert_eq!(got, wanted);
            assert_eq!(report.usage.requests.list, 1, "{:?}", report.usage);
            sessions.push(report.usage.requests.get);
        }
    }
    assert!(sessions[0] >= 2, "{sessions:?}");
    assert_eq!(sessions[1..], [0, 0, 0], "GETs of the later statements");
    world.put("named/2.csv", format!("id,Text,v\n{csv}2000,zzz,1.5\n")).await;
    let engine = world.engine_in("fragment", cache.path()).await;
    let (got, report) = rows(&engine, &sql).await.unwrap();
    assert_eq!(got, [["4000000", "zzz"]]);
    assert!(report.usage.requests.get >= 2, "{:?}", report.usage);
}

/// Names without quotes match columns whatever their case, and files are looked at once.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_columns_may_be_in_another_case() {
    let world = World::node().await;
    world.put("taxi/1.csv", "VendorID,Fare Amount,tip\n1,2.5,x\n2,3.5,y\n").await;
    world.put("two/1.csv", "Id,iD\n1,2\n").await;
    let engine = engine(&world).await;
    let (taxi, two) = (world.url("taxi/1.csv"), world.url("two/1.csv"));
    // The columns are inferred by the first statement.
    rows(&engine, &format!("SELECT VENDORID FROM '{taxi}'")).await.unwrap();
    let exact = rows(&engine, &format!("SELECT \"VendorID\" FROM '{taxi}' WHERE \"Fare Amount\" > 3")).await.unwrap();
    let any = rows(&engine, &format!("SELECT vendorid FROM '{taxi}' WHERE \"Fare Amount\" > 3")).await.unwrap();
    assert_eq!((&any.0, any.1.usage.requests), (&exact.0, exact.1.usage.requests));
    for (sql, wanted) in [
        ("SELECT VENDORID + 1 AS n FROM 'T' ORDER BY vendorId DESC LIMIT 1", "3"),
        ("SELECT max(t.VendorId) FROM 'T' t JOIN 'T' u USING (vendorid) WHERE T.TIP = 'x'", "1"),
        (
            "SELECT vendorid FROM (SELECT VendorID, count(*) AS c FROM 'T' GROUP BY vendorid) WHERE C = 1 AND vendorID > 1",
            "2",
        ),
        ("WITH w AS (SELECT * FROM 'T') SELECT sum(VENDORID) FROM w", "3"),
    ] {
        let sql = sql.replace("'T'", &format!("'{taxi}'"));
        assert_eq!(rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).0, [[wanted]], "{sql}");
    }
    let error = failure(&engine, &format!("SELECT \"vendorid\" FROM '{taxi}'")).await;
    assert!(error.message().contains("vendorid"), "{error}");
    let error = failure(&engine, &format!("SELECT id FROM '{two}'")).await;
    assert!(error.message().contains("\"Id\" and \"iD\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_zeros_and_names_mean_what_they_say() {
    let world = World::node().await;
    let engine = engine(&world).await;
    world.put("z/1.csv", "f\n0.0\n-0.0\n1.5\n").await;
    let table = format!(
        "CREATE EXTERNAL TABLE z (f DOUBLE) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("z/")
    );
    engine.execute(&table).await.unwrap().collect().await.unwrap();
    check(
        &engine,
        &[
            ("SELECT DATE '1970-01-01' + INTERVAL '90 minutes'", &[&["1970-01-01T01:30:00"]]),
            ("SELECT INTERVAL '1 day 1 hour' + DATE '1970-01-01'", &[&["1970-01-02T01:00:00"]]),
            ("SELECT DATE '1970-01-01' - INTERVAL '1 hour'", &[&["1969-12-31T23:00:00"]]),
            ("SELECT DATE '2024-01-31' + INTERVAL '1 month'", &[&["2024-02-29"]]),
            ("SELECT count(*) FROM z WHERE f IN (0, 7, 8, 9, 10)", &[&["2"]]),
            ("SELECT count(*) FROM z WHERE f NOT IN (0, 7, 8, 9, 10)", &[&["1"]]),
            ("SELECT count(*) FROM t WHERE (a, b) < (2, 'y')", &[&["3"]]),
            ("SELECT count(*) FROM t WHERE (a, b) <= (2, 'y')", &[&["4"]]),
            ("SELECT count(*) FROM t WHERE (a + 1, upper(b)) IN ((2, 'X'), (3, 'Z'))", &[&["3"]]),
            ("SELECT (NULL, 1) < (1, 2)", &[&["NULL"]]),
            ("SELECT count(*) FROM z WHERE nullif(f, CAST('-0.0' AS DOUBLE)) IS NULL", &[&["2"]]),
            (
                "SELECT CASE WHEN m > 2 THEN round(m, 2) ELSE CAST(1.125 AS DECIMAL(38, 10)) END AS c \
                 FROM (VALUES (CAST(1 AS DECIMAL(38, 10))), (CAST(2.345 AS DECIMAL(38, 10)))) AS v(m) ORDER BY 1",
                &[&["1.1250000000"], &["2.3500000000"]],
            ),
            ("SELECT CAST('-0.0' AS DOUBLE) IN (CAST('0.0' AS DOUBLE), CAST('1' AS DOUBLE))", &[&["true"]]),
        ],
    )
    .await;
}
