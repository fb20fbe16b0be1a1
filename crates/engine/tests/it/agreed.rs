//! Answers on which PostgreSQL and DuckDB agree, where DataFusion gives others: at every level, and
//! of a table in memory.

use pushdowndb_engine::Engine;

use crate::world::{World, failure, rows};

type Wanted<'a> = (&'a str, &'a [&'a [&'a str]]);

const COLUMNS: &str = "(id INT, k INT, f DOUBLE, s VARCHAR, ts TIMESTAMP)";

const ROWS: &str = "id,k,f,s,ts\n\
    1,0,-0.0,12,2024-01-02T03:04:05.120\n\
    2,2,0.0,x,1969-12-31T23:59:59.999999\n\
    3,5,Infinity,7,2024-01-02T00:00:00\n\
    4,,NaN,y,\n\
    5,0,1e20,,2024-02-29T12:00:00\n";

/// An engine for each way to come to the table `t`, with the name of the way.
async fn engines(world: &World) -> Vec<(&'static str, Engine)> {
    world.put("t/1.csv", ROWS).await;
    let declared = |name: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} {COLUMNS} STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            world.url("t/")
        )
    };
    let mut engines = Vec::new();
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        run(&engine, &declared("t")).await;
        engines.push((level, engine));
    }
    let engine = world.engine("none").await;
    run(&engine, &declared("u")).await;
    run(&engine, "CREATE TABLE t AS SELECT * FROM u").await;
    engines.push(("memory", engine));
    engines
}

async fn run(engine: &Engine, sql: &str) {
    engine.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap();
}

/// Each statement gives these rows, in whatever order unless it says one.
async fn agree(statements: &[Wanted<'_>]) {
    let world = World::node().await;
    for (way, engine) in engines(&world).await {
        for (sql, wanted) in statements {
            let mut got = rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql}, {way}: {error}")).0;
            if !sql.contains("ORDER BY") {
                got.sort();
            }
            assert_eq!(got, *wanted, "{sql}, {way}");
        }
    }
}

/// Each statement is an error that says this.
async fn fail(statements: &[(&str, &str)]) {
    let world = World::node().await;
    for (way, engine) in engines(&world).await {
        for (sql, said) in statements {
            let error = failure(&engine, sql).await.to_string();
            assert!(error.contains(said), "{sql}, {way}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_nan_and_it_is_the_greatest() {
    agree(&[
        ("SELECT id FROM t WHERE f * 0 < 0", &[]),
        ("SELECT id FROM t WHERE f * 0 > 1e300", &[&["3"], &["4"]]),
        ("SELECT id FROM t WHERE f - f = CAST('NaN' AS DOUBLE)", &[&["3"], &["4"]]),
        ("SELECT id FROM t WHERE -f = f", &[&["1"], &["2"], &["4"]]),
        ("SELECT id FROM t WHERE f % 1 > 1", &[&["3"], &["4"]]),
        ("SELECT count(*) FROM (SELECT DISTINCT f * 0 FROM t)", &[&["2"]]),
        ("SELECT count(*) FROM t GROUP BY f - f", &[&["2"], &["3"]]),
        ("SELECT id FROM t ORDER BY f * 0 DESC, id LIMIT 3", &[&["3"], &["4"], &["1"]]),
        ("SELECT id FROM t ORDER BY -(f * 0), id", &[&["1"], &["2"], &["5"], &["3"], &["4"]]),
        ("SELECT max(f / f) > 5, min(f / f) > 5 FROM t", &[&["true", "false"]]),
        ("SELECT count(*) FROM t x JOIN t y ON x.f * 0 = y.f WHERE y.id = 4", &[&["2"]]),
        ("SELECT CAST('Infinity' AS DOUBLE) * 0 < 0", &[&["false"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_of_both_signs_tie() {
    agree(&[
        ("SELECT id FROM t WHERE id < 3 ORDER BY f, id DESC", &[&["2"], &["1"]]),
        ("SELECT id FROM t ORDER BY f, id DESC LIMIT 1", &[&["2"]]),
        (
            "SELECT id, rank() OVER (ORDER BY f) AS r FROM t ORDER BY id LIMIT 3",
            &[&["1", "1"], &["2", "1"], &["3", "4"]],
        ),
        ("SELECT id, count(*) OVER (PARTITION BY f) AS n FROM t ORDER BY id LIMIT 2", &[&["1", "2"], &["2", "2"]]),
        ("SELECT id, sum(id) OVER (ORDER BY f) AS n FROM t ORDER BY id LIMIT 2", &[&["1", "3"], &["2", "3"]]),
        ("SELECT id FROM t WHERE f IN (0, 7)", &[&["1"], &["2"]]),
        ("SELECT id FROM t WHERE f IN (0, 7, 8, 9, 10)", &[&["1"], &["2"]]),
        ("SELECT id FROM t WHERE CASE f WHEN 0 THEN true ELSE false END", &[&["1"], &["2"]]),
        ("SELECT count(*) FROM (SELECT DISTINCT f FROM t WHERE id < 3)", &[&["1"]]),
        ("SELECT count(*) FROM t x JOIN t y ON x.f = y.f WHERE x.id < 3", &[&["4"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_condition_guards_is_not_evaluated() {
    agree(&[
        ("SELECT id FROM t WHERE k <> 0 AND 10 / k > 2", &[&["2"]]),
        ("SELECT id FROM t WHERE (k <> 0 AND 10 / k > 2) OR id = 9", &[&["2"]]),
        ("SELECT id FROM t WHERE k = 0 OR 10 / k > 2", &[&["1"], &["2"], &["5"]]),
        ("SELECT id FROM t WHERE NOT (k = 0 OR 10 % k > 2)", &[&["2"], &["3"]]),
        ("SELECT id FROM t WHERE id > 0 AND k <> 0 AND 10 / k > 2 AND 20 / k > 2", &[&["2"]]),
        (
            "SELECT id, k <> 0 AND 10 / k > 2 AS c FROM t ORDER BY id LIMIT 3",
            &[&["1", "false"], &["2", "true"], &["3", "false"]],
        ),
        ("SELECT id FROM t WHERE CASE WHEN k = 0 THEN false ELSE 10 / k > 2 END", &[&["2"]]),
        (
            "SELECT id, CASE WHEN k = 0 THEN false ELSE 10 / k > 2 END AS c FROM t ORDER BY id LIMIT 2",
            &[&["1", "false"], &["2", "true"]],
        ),
        (
            "SELECT id, CASE WHEN k = 0 THEN NULL ELSE 10 / k END AS c FROM t ORDER BY id LIMIT 2",
            &[&["1", "NULL"], &["2", "5"]],
        ),
        ("SELECT sum(CASE WHEN k = 0 THEN 0 ELSE 10 / k END) FROM t", &[&["7"]]),
        ("SELECT id FROM t WHERE coalesce(k = 0, 10 / k > 2)", &[&["1"], &["5"]]),
        ("SELECT id FROM t WHERE 10 / nullif(k, 0) > 2", &[&["2"]]),
        ("SELECT id FROM t WHERE s ~ '^[0-9]+$' AND CAST(s AS INT) > 5", &[&["1"], &["3"]]),
        (
            "SELECT id FROM t WHERE s IS NULL OR s IN ('x', 'y') OR CAST(s AS INT) > 10",
            &[&["1"], &["2"], &["4"], &["5"]],
        ),
        ("SELECT x.id FROM t x JOIN t y ON x.id = y.id AND x.k <> 0 AND 10 / x.k > 2", &[&["2"]]),
        ("SELECT k, count(*) FROM t GROUP BY k HAVING k <> 0 AND 10 / k > 2", &[&["2", "1"]]),
        ("SELECT id FROM t WHERE k <> 0 AND 10 / k IN (SELECT k FROM t)", &[&["2"], &["3"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_division_that_nothing_guards_fails() {
    fail(&[
        ("SELECT id FROM t WHERE 10 / k > 2", "ivi"),
        ("SELECT id FROM t WHERE id < 9 AND 10 / k > 2", "ivi"),
        ("SELECT CASE WHEN k <> 0 THEN false ELSE 10 / k > 2 END FROM t", "ivi"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_fail_where_they_have_no_value() {
    fail(&[
        ("SELECT sqrt(f - 1) FROM t", "sqrt takes a number that is not negative, not -1"),
        ("SELECT id FROM t WHERE ln(f) > 0", "ln takes a positive number, not -0"),
        ("SELECT log(k) FROM t", "log takes a positive number, not 0"),
        ("SELECT log(1, 5)", "base of 1"),
        ("SELECT acos(f) FROM t WHERE id = 3", "acos takes a number from -1 to 1, not inf"),
        ("SELECT sin(f) FROM t", "sin takes a finite number, not inf"),
        ("SELECT CAST(f * 1e200 AS REAL) FROM t WHERE f > 1", "out of the range of REAL"),
        ("SELECT sqrt(-1)", "sqrt"),
    ])
    .await;
    agree(&[
        (
            "SELECT id, CAST(sqrt(f) AS VARCHAR) AS c FROM t WHERE id < 4 ORDER BY id",
            &[&["1", "-0.0"], &["2", "0.0"], &["3", "Infinity"]],
        ),
        ("SELECT CAST(sqrt(f) AS VARCHAR) FROM t WHERE id = 4", &[&["NaN"]]),
        ("SELECT sqrt(k) FROM t WHERE id = 4", &[&["NULL"]]),
        ("SELECT power(CAST(-8 AS DOUBLE), CAST(0.5 AS DOUBLE)) > 5", &[&["true"]]),
        (
            "SELECT degrees(CAST(1e38 AS REAL)) > CAST('1e39' AS DOUBLE), CAST(sqrt(CAST(2 AS REAL)) AS VARCHAR)",
            &[&["true", "1.4142135623730951"]],
        ),
        ("SELECT TRY_CAST(f * 1e200 AS REAL) FROM t WHERE id = 5", &[&["NULL"]]),
        ("SELECT CAST(CAST(f AS REAL) AS VARCHAR) FROM t WHERE id IN (3, 5)", &[&["1e+20"], &["Infinity"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_and_floats_are_written_as_elsewhere() {
    agree(&[
        (
            "SELECT CAST(ts AS VARCHAR) AS c FROM t ORDER BY id",
            &[
                &["2024-01-02 03:04:05.12"],
                &["1969-12-31 23:59:59.999999"],
                &["2024-01-02 00:00:00"],
                &["NULL"],
                &["2024-02-29 12:00:00"],
            ],
        ),
        ("SELECT 'at ' || ts FROM t WHERE id = 3", &[&["at 2024-01-02 00:00:00"]]),
        ("SELECT CAST(CAST(ts AS TIMESTAMPTZ) AS VARCHAR) FROM t WHERE id = 1", &[&["2024-01-02 03:04:05.12+00"]]),
        ("SELECT id FROM t WHERE CAST(ts AS VARCHAR) LIKE '2024-01-02 0%'", &[&["1"], &["3"]]),
        ("SELECT count(*) FROM t GROUP BY substr(CAST(ts AS VARCHAR), 1, 11)", &[&["1"], &["1"], &["1"], &["2"]]),
        (
            "SELECT CAST(f AS VARCHAR) AS c FROM t ORDER BY id",
            &[&["-0.0"], &["0.0"], &["Infinity"], &["NaN"], &["1e+20"]],
        ),
        ("SELECT concat('x', f / 1e20 / 100000) FROM t WHERE id = 5", &[&["x1e-05"]]),
        ("SELECT CAST(CAST(0.1 AS REAL) AS VARCHAR)", &[&["0.1"]]),
        ("SELECT TRY_CAST(f AS VARCHAR) FROM t WHERE id = 5", &[&["1e+20"]]),
        ("SELECT f FROM t WHERE id = 5", &[&["1e20f"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn casts_to_fewer_digits_round() {
    agree(&[
        ("SELECT CAST(2.5 AS INT), CAST(-2.5 AS INT), CAST(0.4999 AS INT)", &[&["3", "-3", "0"]]),
        ("SELECT CAST(CAST(2.5 AS DOUBLE) AS INT), CAST(CAST(3.5 AS REAL) AS BIGINT), CAST(CAST(-2.5 AS DOUBLE) AS SMALLINT)", &[&["2", "4", "-2"]]),
        ("SELECT id FROM t WHERE CAST(k + 0.5 AS INT) = 1", &[&["1"], &["5"]]),
        ("SELECT id FROM t WHERE CAST(k + 0.4 AS INT) = 2", &[&["2"]]),
        ("SELECT id FROM t WHERE CAST(k + 0.25 AS DECIMAL(9, 1)) IN (0.3, 2.3)", &[&["1"], &["2"], &["5"]]),
        ("SELECT id FROM t WHERE CAST(k + CAST(0.3 AS DOUBLE) AS INT) = 5", &[&["3"]]),
        (
            "SELECT CAST(k / 4.0 AS INT) AS q, count(*) FROM t GROUP BY CAST(k / 4.0 AS INT) ORDER BY q",
            &[&["0", "2"], &["1", "2"], &["NULL", "1"]],
        ),
        ("SELECT TRY_CAST(3000000000.5 AS INT), TRY_CAST(f AS INT) FROM t WHERE id = 3", &[&["NULL", "NULL"]]),
        ("SELECT CAST(99999.95 AS DECIMAL(7, 1)), CAST(2147483647.4 AS INT)", &[&["100000.0", "2147483647"]]),
    ])
    .await;
    fail(&[
        ("SELECT CAST(2147483647.5 AS INT)", "2147483648"),
        ("SELECT CAST(f AS INT) FROM t", "inf"),
        ("SELECT CAST(9.95 AS DECIMAL(2, 1))", "Decimal"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_in_a_list_is_no_constant() {
    agree(&[
        ("SELECT id FROM t WHERE id IN (9, CASE k WHEN 0 THEN id WHEN 2 THEN 2 ELSE 0 END)", &[&["1"], &["2"], &["5"]]),
        ("SELECT id FROM t WHERE id NOT IN (9, CASE k WHEN 0 THEN id WHEN 2 THEN 2 ELSE 0 END)", &[&["3"], &["4"]]),
        (
            "SELECT id, s IN ('7', CAST(CASE id WHEN 1 THEN k END AS VARCHAR)) AS c FROM t ORDER BY id LIMIT 3",
            &[&["1", "false"], &["2", "NULL"], &["3", "true"]],
        ),
        ("SELECT id FROM t WHERE id IN (9, coalesce(nullif(k, 0), nullif(k, 2), id))", &[&["2"], &["4"]]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_say_what_the_standard_says() {
    agree(&[
        ("SELECT 'a%b' LIKE 'a!%b' ESCAPE '!', 'axb' LIKE 'a!%b' ESCAPE '!'", &[&["true", "false"]]),
        ("SELECT id FROM t WHERE s LIKE '!%' ESCAPE '!'", &[]),
        ("SELECT id FROM t WHERE s LIKE '1!2' ESCAPE '!'", &[&["1"]]),
        ("SELECT 'a\\b' LIKE 'a\\b' ESCAPE '', 'A_' ILIKE 'a!_' ESCAPE '!'", &[&["true", "true"]]),
        ("SELECT id FROM t WHERE s SIMILAR TO '(1|x)%'", &[&["1"], &["2"]]),
        ("SELECT id FROM t WHERE s NOT SIMILAR TO '[0-9]+'", &[&["2"], &["4"]]),
        ("SELECT 'abc' SIMILAR TO 'a.c', 'abc' SIMILAR TO 'a_c', 'abc' SIMILAR TO 'b'", &[&["false", "true", "false"]]),
    ])
    .await;
    fail(&[
        ("SELECT id FROM t WHERE s SIMILAR TO s", "SIMILAR TO takes a constant pattern"),
        ("SELECT id FROM t WHERE s LIKE s ESCAPE '!'", "constant pattern"),
        ("SELECT id FROM t WHERE s LIKE 'a' ESCAPE 'ab'", "one character"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clauses_of_the_standard_are_read() {
    agree(&[
        ("SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY", &[&["1"], &["2"]]),
        ("SELECT id FROM t ORDER BY id OFFSET 2 ROWS FETCH NEXT ROW ONLY", &[&["3"]]),
        ("SELECT count(*) FROM (SELECT id FROM t FETCH FIRST 4 ROWS ONLY)", &[&["4"]]),
        ("SELECT count(*) FROM t GROUP BY ()", &[&["5"]]),
        ("SELECT count(*) FROM t WHERE id > 9 GROUP BY ()", &[&["0"]]),
        ("SELECT 1 FROM t HAVING true", &[&["1"]]),
        ("SELECT 1 HAVING 1 > 2", &[]),
        ("SELECT max(id) FROM t HAVING max(id) > 1000", &[]),
        ("SELECT ~5, ~k FROM t WHERE id = 3", &[&["-6", "-6"]]),
        ("SELECT id FROM t WHERE ~id = -3", &[&["2"]]),
    ])
    .await;
    fail(&[
        ("SELECT id FROM t ORDER BY k FETCH FIRST 2 ROWS WITH TIES", "WITH TIES is not supported"),
        ("SELECT id FROM t LIMIT 1 FETCH FIRST 2 ROWS ONLY", "FETCH"),
    ])
    .await;
}
