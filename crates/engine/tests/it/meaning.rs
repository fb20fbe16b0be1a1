//! Statements whose meaning was once another one at some level, and what they mean.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;

use crate::world::{World, rows};

const LEVELS: [&str; 3] = ["none", "select", "fragment"];

/// The rows of statements about a table `t` of these columns, at every level.
async fn mean(world: &World, declared: &str, format: &str, statements: &[(&str, &[&[&str]])]) {
    for level in LEVELS {
        let engine = world.engine(level).await;
        let options = if format == "CSV" { "OPTIONS ('format.has_header' 'true')" } else { "" };
        let table =
            format!("CREATE EXTERNAL TABLE t {declared} STORED AS {format} LOCATION '{}' {options}", world.url("t/"));
        engine.execute(&table).await.expect("a table");
        for (sql, wanted) in statements {
            let mut got = rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql} at {level}: {error}")).0;
            got.sort();
            assert_eq!(got, *wanted, "{sql} at {level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ilike_is_not_for_s3_select() {
    let world = World::node().await;
    world.put("t/1.csv", "id,s\n1,ab\n2,b\n3,A\n").await;
    let statements: [(&str, &[&[&str]]); 3] = [
        ("SELECT id FROM t WHERE s ILIKE 'a%'", &[&["1"], &["3"]]),
        ("SELECT id FROM t WHERE s NOT ILIKE 'a%'", &[&["2"]]),
        ("SELECT count(*) FROM t WHERE s ILIKE 'A' OR id = 2", &[&["2"]]),
    ];
    mean(&world, "(id INT, s VARCHAR)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_beside_doubles_are_doubles() {
    let world = World::node().await;
    world
        .put("t/1.csv", "id,f,r\n1,1e-16,16777216\n2,0.30000000000000004,0.1\n3,1e300,\n4,0.3,0.75\n5,,1\n6,NaN,NaN\n")
        .await;
    let statements: [(&str, &[&[&str]]); 7] = [
        ("SELECT id FROM t WHERE f > 0.0", &[&["1"], &["2"], &["3"], &["4"], &["6"]]),
        ("SELECT id FROM t WHERE f = 0.3", &[&["4"]]),
        ("SELECT id FROM t WHERE 0.3 < f AND id < 6", &[&["2"], &["3"]]),
        ("SELECT id FROM t WHERE f BETWEEN -0.5 AND 0.3", &[&["1"], &["4"]]),
        ("SELECT id FROM t WHERE f IN (0.3, 0.5)", &[&["4"]]),
        ("SELECT id FROM t WHERE r > 0.75 AND id < 6", &[&["1"], &["5"]]),
        ("SELECT id, f > 0.4 AS x FROM t WHERE id < 3", &[&["1", "false"], &["2", "false"]]),
    ];
    mean(&world, "(id INT, f DOUBLE, r REAL)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_and_all_compare_with_the_subquery() {
    let world = World::node().await;
    world.put("t/1.csv", "k\n0\n1\n2\n3\n4\n").await;
    let statements: [(&str, &[&[&str]]); 3] = [
        ("SELECT k FROM t WHERE k > ANY (SELECT k FROM t WHERE k < 3)", &[&["1"], &["2"], &["3"], &["4"]]),
        ("SELECT k FROM t WHERE k = ANY (SELECT k FROM t WHERE k < 3)", &[&["0"], &["1"], &["2"]]),
        ("SELECT k FROM t WHERE k > ALL (SELECT k FROM t WHERE k < 3)", &[&["3"], &["4"]]),
    ];
    mean(&world, "(k INT)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn years_beyond_a_timestamp_are_years() {
    let world = World::node().await;
    world.put("t/1.csv", "id,ts\n1,1967-02-03T04:05:06\n2,1969-01-01T00:00:00\n3,1971-01-01T00:00:00\n").await;
    let statements: [(&str, &[&[&str]]); 3] = [
        ("SELECT count(*) FROM t WHERE extract(year FROM ts) < 9999", &[&["3"]]),
        ("SELECT count(*) FROM t WHERE extract(year FROM ts) <> 1600", &[&["3"]]),
        ("SELECT id FROM t WHERE extract(year FROM ts) = 1969", &[&["2"]]),
    ];
    mean(&world, "(id INT, ts TIMESTAMP)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_what_they_are() {
    let world = World::node().await;
    let bytes = BinaryArray::from_iter_values([b"ab".as_slice(), b"00", b"\xff\x01"]);
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(Int64Array::from(vec![1, 2, 3]))), ("bin", Arc::new(bytes))];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
    world.put("t/1.parquet", file).await;
    let statements: [(&str, &[&[&str]]); 2] = [
        ("SELECT id, encode(bin, 'hex') FROM t WHERE id < 9", &[&["1", "6162"], &["2", "3030"], &["3", "ff01"]]),
        ("SELECT encode(max(bin), 'hex') FROM t WHERE id < 3", &[&["6162"]]),
    ];
    mean(&world, "", "PARQUET", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_the_greatest_of_its_group() {
    let world = World::node().await;
    world.put("t/1.csv", "g,f\n1,5\n1,NaN\n1,1\n1,3\n2,1\n2,NaN\n2,5\n3,2\n3,1\n").await;
    let groups: &[&[&str]] = &[&["1", "NaN", "1.0"], &["2", "NaN", "1.0"], &["3", "2.0", "1.0"]];
    let statements: [(&str, &[&[&str]]); 2] = [
        ("SELECT g, CAST(max(f) AS VARCHAR), CAST(min(f) AS VARCHAR) FROM t GROUP BY g", groups),
        ("SELECT CAST(max(f) AS VARCHAR), CAST(min(f) AS VARCHAR) FROM t", &[&["NaN", "1.0"]]),
    ];
    mean(&world, "(g INT, f DOUBLE)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_beyond_64_bits_are_an_error() {
    let world = World::node().await;
    world.put("t/1.csv", "k,n\n1,9000000000000000000\n1,9000000000000000000\n2,1\n").await;
    for level in LEVELS {
        for setting in ["aggregate", "group_by"] {
            for value in ["auto", "compute", "storage"] {
                let engine = world
                    .engine_configured(&[("pushdown.level", level), (&format!("pushdown.{setting}"), value)])
                    .await;
                let table = format!(
                    "CREATE EXTERNAL TABLE t (k INT, n BIGINT) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
                    world.url("t/")
                );
                engine.execute(&table).await.expect("a table");
                for sql in ["SELECT sum(n) FROM t", "SELECT k, sum(n) FROM t GROUP BY k"] {
                    let error = crate::world::failure(&engine, sql).await;
                    assert!(
                        error.to_string().contains("out of the range"),
                        "{sql} at {level}, {setting}={value}: {error}"
                    );
                }
                let fine = rows(&engine, "SELECT k, sum(n) FROM t WHERE k = 2 GROUP BY k").await.expect("rows").0;
                assert_eq!(fine, [["2", "1"]]);
            }
        }
    }
}
