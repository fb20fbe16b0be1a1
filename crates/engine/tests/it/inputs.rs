//! Statements with parameters, and with tables that only they can name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::{Engine, InputTable, Inputs, NestedQuery, Parameters, Report, Statement};

use crate::world::{Rows, World, text};

fn statement(engine: &Engine, sql: &str) -> Statement {
    let mut statements = engine.parse(sql).unwrap();
    assert_eq!(statements.len(), 1, "{sql}");
    statements.remove(0)
}

async fn run(engine: &Engine, sql: &str, inputs: &Inputs) -> pushdowndb_contract::Result<(Rows, Report)> {
    let mut result = engine.run_with(&statement(engine, sql), inputs, |_| ()).await?;
    let batches = result.collect().await?;
    Ok((text(&batches), result.report()))
}

fn positional(values: impl IntoIterator<Item = ScalarValue>) -> Inputs {
    Inputs { parameters: Parameters::Positional(values.into_iter().collect()), ..Inputs::default() }
}

/// A table of one column `n`.
fn numbers(values: Vec<i64>) -> InputTable {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(values))]).unwrap();
    InputTable::Provider(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap()))
}

fn given(tables: impl IntoIterator<Item = (&'static str, InputTable)>) -> Inputs {
    let tables: HashMap<_, _> = tables.into_iter().map(|(name, table)| (name.to_owned(), table)).collect();
    Inputs { tables, ..Inputs::default() }
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_and_nested_queries_are_pushed_as_literals_are() {
    let world = World::node().await;
    let lines: String = (0..50_000).map(|n| format!("{n},name {n}\n")).collect();
    world.put("t/1.csv", format!("a,b\n{lines}")).await;
    let address = world.url("t/1.csv");
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        let declare = format!(
            "CREATE EXTERNAL TABLE t (a BIGINT NOT NULL, b VARCHAR) STORED AS CSV LOCATION '{address}' \
             OPTIONS ('format.has_header' 'true')"
        );
        engine.execute(&declare).await.unwrap().collect().await.unwrap();
        let literal = run(&engine, "SELECT b FROM t WHERE a = 4711", &Inputs::default()).await.unwrap();
        assert_eq!(literal.0, [["name 4711"]], "{level}");
        let bound = run(&engine, "SELECT b FROM t WHERE a = ?", &positional([int(4711)])).await.unwrap();
        let all = NestedQuery { statement: statement(&engine, "SELECT * FROM t"), inputs: Inputs::default() };
        let some = NestedQuery {
            statement: statement(&engine, "SELECT * FROM everything WHERE a < $1"),
            inputs: Inputs {
                tables: given([("everything", InputTable::Query(Arc::new(all)))]).tables,
                ..positional([int(10_000)])
            },
        };
        let inputs = Inputs {
            parameters: positional([int(4711)]).parameters,
            ..given([("some", InputTable::Query(Arc::new(some)))])
        };
        let nested = run(&engine, "SELECT b FROM Some WHERE a = ?", &inputs).await.unwrap();
        for (rows, report) in [bound, nested] {
            assert_eq!(rows, literal.0, "{level}");
            assert_eq!(report.usage.requests, literal.1.usage.requests, "{level}");
            assert_eq!(report.usage.bytes_scanned, literal.1.usage.bytes_scanned, "{level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_two_queries_name_is_looked_at_once() {
    let world = World::node().await;
    world.put("t/1.csv", "a,b\n1,x\n2,y\n").await;
    let engine = world.engine("auto").await;
    let sql = format!("SELECT * FROM '{}'", world.url("t/1.csv"));
    let query =
        || InputTable::Query(Arc::new(NestedQuery { statement: statement(&engine, &sql), inputs: Inputs::default() }));
    let once = run(&engine, &format!("SELECT count(*) FROM ({sql}) x, ({sql}) y"), &Inputs::default()).await.unwrap();
    let nested = run(&engine, "SELECT count(*) FROM x, y", &given([("x", query()), ("y", query())])).await.unwrap();
    assert_eq!((nested.0, nested.1.usage.requests.list), (once.0, once.1.usage.requests.list));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_found_by_their_statement_only() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let inputs = given([("mine", numbers(vec![1, 2, 3]))]);
    let unknown = |sql: &str, inputs: &Inputs| engine.unknown_tables(&statement(&engine, sql), inputs).unwrap();
    let sql = "WITH w AS (SELECT 1) SELECT * FROM w, Mine, 's3://b/x.csv', information_schema.tables";
    assert_eq!(unknown(sql, &Inputs::default()), ["Mine"]);
    assert_eq!(run(&engine, "SELECT sum(n) FROM Mine", &inputs).await.unwrap().0, [["6"]]);
    let error = run(&engine, "SELECT sum(n) FROM mine", &Inputs::default()).await.unwrap_err();
    assert!(error.message().contains("there is no table mine"), "{error}");

    // What is made of them stays.
    run(&engine, "CREATE TABLE kept AS SELECT n * 2 AS n FROM mine", &inputs).await.unwrap();
    assert_eq!(run(&engine, "SELECT sum(n) FROM kept", &Inputs::default()).await.unwrap().0, [["12"]]);
    assert!(unknown("SELECT * FROM kept", &Inputs::default()).is_empty());
    // A table of the session comes first.
    let shadowed = run(&engine, "SELECT sum(n) FROM kept", &given([("kept", numbers(vec![100]))])).await.unwrap();
    assert_eq!(shadowed.0, [["12"]]);

    let InputTable::Provider(provider) = numbers(vec![7]) else { panic!() };
    engine.register_table("held", provider).unwrap();
    assert_eq!(run(&engine, "SELECT n FROM HELD", &Inputs::default()).await.unwrap().0, [["7"]]);
    assert!(engine.deregister_table("held").unwrap() && !engine.deregister_table("held").unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_tables_and_nothing_else_is() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let is_query = |sql: &str| engine.is_query(&statement(&engine, sql), &Inputs::default()).unwrap();
    for sql in ["SELECT 1", "VALUES (1)", "(SELECT 1) UNION SELECT 2", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM t"]
    {
        assert!(is_query(sql), "{sql}");
    }
    for sql in [
        "SHOW ALL",
        "EXPLAIN SELECT 1",
        "SET pushdown.level = 'none'",
        "COPY (SELECT 1) TO 'x.csv'",
        "CREATE TABLE a AS SELECT 1",
    ] {
        assert!(!is_query(sql), "{sql}");
        let nested = NestedQuery { statement: statement(&engine, sql), inputs: Inputs::default() };
        let inputs = given([("x", InputTable::Query(Arc::new(nested)))]);
        let error = run(&engine, "SELECT * FROM x", &inputs).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sql}: {error}");
    }
    let ordered = NestedQuery {
        statement: statement(&engine, "SELECT n FROM numbers ORDER BY n DESC"),
        inputs: given([("numbers", numbers((0..1000).collect()))]),
    };
    let inputs = given([("ordered", InputTable::Query(Arc::new(ordered)))]);
    let first = run(&engine, "SELECT * FROM ordered WHERE n < 900 LIMIT 2", &inputs).await.unwrap();
    assert_eq!(first.0, [["899"], ["898"]]);
    let columns =
        engine.query_schema(&statement(&engine, "SELECT ? AS a, 'x' AS b"), &positional([int(1)])).await.unwrap();
    let names: Vec<String> =
        columns.unwrap().fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(names, ["a Int64", "b Utf8"]);
    assert!(engine.query_schema(&statement(&engine, "SHOW ALL"), &Inputs::default()).await.unwrap().is_none());
}
