//! Arithmetic that leaves its type is an error in every clause, at every level, for local tables
//! and those of a node.

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use pushdowndb_engine::Engine;
use std::sync::Arc;

use crate::world::{World, failure, rows};

const LEVELS: [&str; 3] = ["none", "select", "fragment"];

/// Each row but the first leaves the type of `a + b`, of `n + m`, or of `d + d`.
fn batch() -> RecordBatch {
    let widest = |value: i128| value * 10_i128.pow(37);
    let decimals = Decimal128Array::from(vec![widest(1), widest(6)]).with_precision_and_scale(38, 0).unwrap();
    RecordBatch::try_from_iter([
        ("a", Arc::new(Int64Array::from(vec![1, i64::MAX])) as ArrayRef),
        ("b", Arc::new(Int64Array::from(vec![2, 1]))),
        ("n", Arc::new(Int32Array::from(vec![1, i32::MAX]))),
        ("m", Arc::new(Int32Array::from(vec![2, 1]))),
        ("d", Arc::new(decimals)),
    ])
    .unwrap()
}

async fn engines(world: &World) -> Vec<(String, Engine)> {
    let mut parquet = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut parquet, batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    world.put("p/1.parquet", parquet).await;
    let csv = format!("a,b,n,m,d\n1,2,1,2,1{z}\n{},1,{},1,6{z}\n", i64::MAX, i32::MAX, z = "0".repeat(37));
    world.put("c/1.csv", csv).await;
    let columns = "(a BIGINT, b BIGINT, n INT, m INT, d DECIMAL(38, 0))";
    let tables = [
        (
            "CSV",
            format!(
                "CREATE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
                world.url("c/")
            ),
        ),
        ("Parquet", format!("CREATE EXTERNAL TABLE t {columns} STORED AS PARQUET LOCATION '{}'", world.url("p/"))),
        (
            "memory",
            format!(
                "CREATE TABLE t AS SELECT arrow_cast(a, 'Int64') a, arrow_cast(b, 'Int64') b, arrow_cast(n, 'Int32') n, arrow_cast(m, 'Int32') m, \
             arrow_cast(d, 'Decimal128(38, 0)') d FROM '{}'",
                world.url("p/1.parquet")
            ),
        ),
    ];
    let mut engines = Vec::new();
    for level in LEVELS {
        for (name, table) in &tables {
            let engine = world.engine(level).await;
            engine.execute(table).await.unwrap_or_else(|error| panic!("{table}: {error}")).collect().await.unwrap();
            engines.push((format!("{name} at {level}"), engine));
        }
    }
    engines
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_its_type_is_an_error_in_every_clause() {
    let world = World::node().await;
    for (name, engine) in engines(&world).await {
        for sql in [
            "SELECT a + b FROM t",
            "SELECT n + m FROM t",
            "SELECT b FROM t WHERE -(-a - 1) > 5",
            "SELECT count(*) FROM t WHERE -(-n - CAST(1 AS INT)) BETWEEN 0 AND 5",
            "SELECT d + d FROM t",
            "SELECT d * 10 FROM t",
            "SELECT a * 2 FROM t",
            "SELECT -(a * -1 - 1) FROM t",
            "SELECT a - (0 - b) FROM t",
            "SELECT a << 1 FROM t",
            "SELECT abs(-a - 1) FROM t",
            "SELECT b FROM t WHERE a + b < 0",
            "SELECT b FROM t WHERE n + m > 5",
            "SELECT b FROM t WHERE n + CAST(1 AS INT) > 5",
            "SELECT a + b, count(*) FROM t GROUP BY a + b",
            "SELECT b FROM t GROUP BY b HAVING max(a) + 1 > 0",
            "SELECT b FROM t ORDER BY a + b",
            "SELECT b FROM t ORDER BY a + b LIMIT 1",
            "SELECT b FROM t ORDER BY n + m LIMIT 1",
            "SELECT x.b FROM t x JOIN t y ON x.a + x.b = y.b",
            "SELECT sum(a) FROM t",
            "SELECT sum(a) OVER (ORDER BY b ROWS UNBOUNDED PRECEDING) FROM t",
            "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
            "SELECT sum(DISTINCT a), sum(DISTINCT b) FROM t",
            "SELECT sum(DISTINCT a) FROM t GROUP BY CUBE (n)",
            "SELECT sum(d * 2) FROM t",
            "SELECT sum(d) FROM (SELECT d FROM t UNION ALL SELECT d FROM t)",
            "SELECT b, sum(d) FROM (SELECT 1 b, d FROM t UNION ALL SELECT 1, d FROM t) GROUP BY b",
            "SELECT CASE WHEN a > 5 THEN a + 1 ELSE 0 END FROM t",
            "SELECT (SELECT max(y.a + 1) FROM t y) FROM t x",
            "SELECT 100000000000 * 100000000000 FROM t",
        ] {
            let error = failure(&engine, sql).await.to_string().to_lowercase();
            assert!(
                ["overflow", "out of the range", "too large"].iter().any(|word| error.contains(word)),
                "{sql}, {name}: {error}"
            );
        }
        for (sql, wanted) in [
            ("SELECT a + b FROM t WHERE b = 2", vec![vec!["3"]]),
            ("SELECT n + m FROM t WHERE n < 5", vec![vec!["3"]]),
            ("SELECT n + 1 FROM t WHERE n > 5", vec![vec!["2147483648"]]),
            (
                "SELECT sum(DISTINCT b), sum(DISTINCT n), count(*) FROM t WHERE b < 5",
                vec![vec!["3", "2147483648", "2"]],
            ),
            (
                "SELECT a << 3, a >> 1, -a, d + d FROM t WHERE b = 2",
                vec![vec!["8", "0", "-1", "20000000000000000000000000000000000000"]],
            ),
            ("SELECT CASE WHEN a < 5 THEN a + 1 ELSE 0 END AS x FROM t ORDER BY x", vec![vec!["0"], vec!["2"]]),
            (
                "SELECT sum(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t ORDER BY x",
                vec![vec!["2"], vec!["3"]],
            ),
        ] {
            let got = rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql}, {name}: {error}")).0;
            assert_eq!(got, wanted, "{sql}, {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_computed_is_called_as_it_is_written() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let named = async |sql: &str| {
        engine.execute(sql).await.unwrap().collect().await.unwrap()[0].schema().field(0).name().clone()
    };
    assert_eq!(named("SELECT x + 1 FROM (VALUES (1)) t(x)").await, "x + 1");
    assert_eq!(named("SELECT -x FROM (VALUES (1)) t(x)").await, "-x");
    assert_eq!(named("SELECT sum(x * 2) FROM (VALUES (1)) t(x)").await, "sum(x * 2)");
}
