//! Statements with parameters, and sessions that share an engine.

use arrow::datatypes::DataType;
use pushdowndb_contract::{ErrorKind, Result};
use pushdowndb_engine::{AccessPolicy, Engine, ParameterValue, Report, UserConfig, UserLimits};

use crate::world::World;

fn text(value: &str) -> ParameterValue {
    ParameterValue::Text(value.to_owned())
}

/// Runs a statement with values, and returns the number of rows and the report.
async fn run(engine: &Engine, sql: &str, values: &[ParameterValue]) -> Result<(usize, Report)> {
    let statement = engine.parse(sql)?.remove(0);
    let mut prepared = engine.prepare(&statement, &[]).await?;
    let mut result = engine.run_prepared(&mut prepared, values, |_| ()).await?;
    let rows = result.collect().await?.iter().map(|batch| batch.num_rows()).sum();
    Ok((rows, result.report()))
}

async fn world() -> World {
    let world = World::node().await;
    let lines: String =
        (0..20_000).map(|n| format!("{n},name {},{}.50,2024-01-{:02}\n", n % 10, n, n % 28 + 1)).collect();
    world.put("t/1.csv", format!("id,name,price,day\n{lines}")).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_arguments_of_macros() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    let table = world.url("t/");
    let small =
        format!("CREATE MACRO small(least, most) AS TABLE SELECT * FROM '{table}' WHERE id >= least AND id < most");
    for created in ["CREATE MACRO twice(x) AS x + x", &small] {
        run(&engine, created, &[]).await.unwrap();
    }
    let sql = "SELECT twice(id), name FROM small($1, $2) WHERE twice(id) < $3";
    let values = [text("10"), text("40"), text("60")];
    let (rows, report) = run(&engine, sql, &values).await.unwrap();
    assert_eq!(rows, 20);
    let (same, of_meaning) = run(
        &world.engine("fragment").await,
        &format!("SELECT id + id, name FROM '{table}' WHERE id >= 10 AND id < 40 AND id + id < 60"),
        &[],
    )
    .await
    .unwrap();
    assert_eq!((rows, report.usage.bytes_returned), (same, of_meaning.usage.bytes_returned));
    let error = run(&engine, "SELECT twice($1, $2)", &[text("1"), text("2")]).await.unwrap_err();
    assert!(error.to_string().contains("the macro is called twice(x)"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_typed_and_pushed_as_literals_are() {
    let world = world().await;
    let table = world.url("t/");
    for (condition, literal, values, types) in [
        ("id = $1", "id = 77", vec![text("77")], vec![DataType::Int64]),
        (
            "name = $1 AND id < $2",
            "name = 'name 3' AND id < 50",
            vec![text("name 3"), text("50")],
            vec![DataType::Utf8, DataType::Int64],
        ),
        ("day = $1", "day = '2024-01-05'", vec![text("2024-01-05")], vec![DataType::Date32]),
        ("id IN ($1, $2)", "id IN (1, 2)", vec![text("1"), text("2")], vec![DataType::Int64; 2]),
        ("id BETWEEN $1 AND $2", "id BETWEEN 1 AND 9", vec![text("1"), text("9")], vec![DataType::Int64; 2]),
        ("id = $1", "id = NULL", vec![ParameterValue::Null], vec![DataType::Int64]),
        (
            "id = ANY ($1)",
            "id IN (1, 5)",
            vec![ParameterValue::List(vec![text("1"), text("5")])],
            vec![DataType::new_list(DataType::Int64, true)],
        ),
    ] {
        let mut counts = Vec::new();
        for level in ["none", "select", "fragment"] {
            let engine = world.engine(level).await;
            let sql = format!("SELECT id, name FROM '{table}' WHERE {condition}");
            let statement = engine.parse(&sql).unwrap().remove(0);
            let prepared = engine.prepare(&statement, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let found: Vec<DataType> = prepared.parameters().to_vec();
            let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View);
            for (found, wanted) in found.iter().zip(&types) {
                assert!(found == wanted || is_text(found) && is_text(wanted), "{sql}: {found} is not {wanted}");
            }
            assert_eq!(prepared.columns().unwrap().fields().len(), 2);
            let (rows, report) = run(&engine, &sql, &values).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let fresh = world.engine(level).await;
            let written = format!("SELECT id, name FROM '{table}' WHERE {literal}");
            let (same, of_literal) = run(&fresh, &written, &[]).await.unwrap();
            assert_eq!(rows, same, "{sql} at {level}");
            // A list is not pushed as its values are.
            if !condition.contains("ANY") {
                assert_eq!(report.usage.bytes_returned, of_literal.usage.bytes_returned, "{sql} at {level}");
            }
            counts.push(rows);
        }
        assert!(counts.iter().all(|count| *count == counts[0]), "{condition}: {counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_lists_its_objects_once() {
    let world = world().await;
    let engine = world.engine("none").await;
    let sql = format!("SELECT count(*) FROM '{}' WHERE id < $1", world.url("t/"));
    let statement = engine.parse(&sql).unwrap().remove(0);
    let before = world.requests_of("ListObjectsV2");
    let mut prepared = engine.prepare(&statement, &[]).await.unwrap();
    engine.run_prepared(&mut prepared, &[text("5")], |_| ()).await.unwrap().collect().await.unwrap();
    assert_eq!(world.requests_of("ListObjectsV2") - before, 1);
    // Later runs see what has changed since.
    engine.run_prepared(&mut prepared, &[text("6")], |_| ()).await.unwrap().collect().await.unwrap();
    assert_eq!(world.requests_of("ListObjectsV2") - before, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_values_and_no_sql() {
    let world = world().await;
    let engine = world.engine("auto").await;
    let table = world.url("t/");
    let count = |condition: &str| format!("SELECT id FROM '{table}' WHERE {condition}");
    assert_eq!(run(&engine, &count("name = $1"), &[text("x' OR 'a' = 'a")]).await.unwrap().0, 0);
    assert_eq!(run(&engine, &format!("SELECT id FROM '{table}' LIMIT $1"), &[text("3")]).await.unwrap().0, 3);
    for (sql, values) in [
        (count("id = $1"), vec![text("x")]),
        (count("id = $1"), vec![]),
        (count("id = $1"), vec![text("1"), text("2")]),
        (count("id = $0"), vec![text("1")]),
        (count("id = $70000"), vec![text("1")]),
    ] {
        let error = run(&engine, &sql, &values).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_an_engine_and_no_settings_or_tables() {
    let world = world().await;
    let shared = world.engine("auto").await;
    let access = AccessPolicy::nothing().and_read(&world.url("t/")).unwrap();
    let limits = UserLimits { max_bytes: 10, ..UserLimits::default() };
    let settings = vec![("pushdown.level".to_owned(), "none".to_owned())];
    let user = shared.for_user(UserConfig { access, settings, limits }).await.unwrap();
    let (one, two) = (user.session(), user.session());
    let level = |engine: &Engine| {
        engine.pushdown_settings().into_iter().find(|setting| setting.name == "pushdown.level").unwrap().value
    };
    one.execute("SET pushdown.level = 'select'").await.unwrap();
    one.execute("CREATE VIEW v AS SELECT 1 AS a").await.unwrap();
    assert_eq!((level(&one), level(&two), level(&shared)), ("select".into(), "none".into(), "auto".into()));
    assert!(two.execute("SELECT * FROM v").await.is_err());
    // The limit holds whatever is set, and the policy.
    one.execute("SET pushdown.max_bytes = 0").await.unwrap();
    let sql = format!("SELECT sum(id) FROM '{}'", world.url("t/"));
    let stopped = match one.execute(&sql).await {
        Ok(mut result) => result.collect().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(stopped.kind(), ErrorKind::Limit, "{stopped}");
    let denied = one.execute(&format!("SELECT * FROM '{}'", world.url("u/"))).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    assert!(shared.execute(&sql).await.unwrap().collect().await.is_ok());
}
