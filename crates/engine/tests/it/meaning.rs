//! Statements whose meaning was once another one at some level, and what they mean.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType, Field, Int8Type};
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
async fn the_least_and_greatest_of_literals_may_be_the_empty_text() {
    let world = World::node().await;
    world.put("t/1.csv", "id,s\n1,ab\n2,b\n").await;
    let statements: [(&str, &[&[&str]]); 4] = [
        ("SELECT count(*), max(lower('')) FROM t", &[&["2", ""]]),
        ("SELECT min(''), max(id) FROM t WHERE id > 1", &[&["", "2"]]),
        ("SELECT min('') FROM t WHERE id > 2", &[&["NULL"]]),
        ("SELECT max(CASE WHEN id = 1 THEN '' END), min(CASE WHEN id = 3 THEN '' END) FROM t", &[&["", "NULL"]]),
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
async fn decimals_beside_doubles_are_doubles() {
    let world = World::node().await;
    world
        .put("t/1.csv", "id,m,f\n1,0.00,1e-20\n2,0.00,0\n3,1.00,1.0000000000000002\n4,5.00,\n5,7.25,1e300\n6,1,NaN\n")
        .await;
    let statements: [(&str, &[&[&str]]); 6] = [
        ("SELECT id FROM t WHERE m = f", &[&["2"]]),
        ("SELECT id FROM t WHERE m < f AND id < 6", &[&["1"], &["3"], &["5"]]),
        ("SELECT a.id, b.id FROM t a JOIN t b ON a.m = b.f", &[&["1", "2"], &["2", "2"]]),
        ("SELECT id FROM t WHERE m IN (SELECT f FROM t)", &[&["1"], &["2"]]),
        ("SELECT id FROM t WHERE m BETWEEN f AND f + 1 AND id < 6", &[&["2"]]),
        ("SELECT id FROM t WHERE f < 1e299 AND f > 5e-324", &[&["1"], &["3"]]),
    ];
    mean(&world, "(id INT, m DECIMAL(15, 2), f DOUBLE)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct_from_ends_where_a_comparison_does() {
    let world = World::node().await;
    world.put("t/1.csv", "id,a,b\n1,1,1\n2,1,2\n3,,2\n4,,\n").await;
    let statements: [(&str, &[&[&str]]); 3] = [
        ("SELECT id FROM t WHERE a IS DISTINCT FROM b AND id < 3", &[&["2"]]),
        ("SELECT id FROM t WHERE a IS NOT DISTINCT FROM b OR id = 2", &[&["1"], &["2"], &["4"]]),
        ("SELECT id FROM t WHERE NOT a IS DISTINCT FROM b AND id > 1", &[&["4"]]),
    ];
    mean(&world, "(id INT, a INT, b INT)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_is_a_character_where_it_begins_no_object() {
    let world = World::node().await;
    world.put("t/1.csv", "g,n\n\u{feff},5\n\u{feff}x,6\ny,7\n").await;
    let statements: [(&str, &[&[&str]]); 2] = [
        ("SELECT g, n FROM t", &[&["y", "7"], &["\u{feff}", "5"], &["\u{feff}x", "6"]]),
        ("SELECT g FROM t WHERE n = 6", &[&["\u{feff}x"]]),
    ];
    mean(&world, "(g VARCHAR, n INT)", "CSV", &statements).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_begins_an_object_is_no_character_of_a_foreign_store() {
    let Some(world) = crate::minio::world().await else { return };
    world.put("t/1.csv", "\u{feff}x,1\ny,2\nx,3\n").await;
    world.put("t/2.csv", "x,4\n").await;
    for level in ["none", "select"] {
        let engine = world.engine(level).await;
        let table = "CREATE EXTERNAL TABLE t (a VARCHAR, b INT) STORED AS CSV LOCATION 's3://data/t/' \
                     OPTIONS ('format.has_header' 'false')";
        engine.execute(table).await.expect("a table");
        let expected: [(&str, &[&[&str]]); 4] = [
            ("SELECT b FROM t WHERE a = 'x'", &[&["1"], &["3"], &["4"]]),
            ("SELECT b, a FROM t WHERE b < 3", &[&["1", "x"], &["2", "y"]]),
            ("SELECT count(*) FROM t WHERE a <> 'y'", &[&["3"]]),
            ("SELECT max(b) FROM t", &[&["4"]]),
        ];
        for (sql, wanted) in expected {
            let mut got = rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql} at {level}: {error}")).0;
            got.sort();
            assert_eq!(got, wanted, "{sql} at {level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_program_held_as_dictionaries_are_their_values() {
    let world = World::node().await;
    let words: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("a"), Some("b"), Some("a"), None]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let batch = RecordBatch::try_from_iter([("g", words), ("n", numbers)]).expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    world.put("t/1.parquet", writer.into_inner().expect("a file")).await;
    let statements: [(&str, &[&[&str]]); 4] = [
        ("SELECT count(DISTINCT g) FROM t", &[&["2"]]),
        ("SELECT g, sum(n) FROM t GROUP BY g", &[&["NULL", "4"], &["a", "4"], &["b", "2"]]),
        ("SELECT g FROM t WHERE g = 'b'", &[&["b"]]),
        ("SELECT upper(g), count(*) FROM t GROUP BY 1", &[&["A", "2"], &["B", "1"], &["NULL", "1"]]),
    ];
    mean(&world, "", "PARQUET", &statements).await;
    let typed = "arrow_cast(g, 'Dictionary(Int32, Utf8)')";
    let grouped = format!("SELECT count(*) FROM (SELECT {typed} AS d, count(*) FROM t GROUP BY {typed})");
    mean(&world, "", "PARQUET", &[(grouped.as_str(), &[&["3"]])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_structs_do_not_depend_on_who_was_first() {
    let world = World::node().await;
    let number = |n: i32| (n >= 0).then_some(n);
    for (name, ids, numbers, texts) in [
        ("t/1.parquet", [0, 1, 2, 3], [0, 0, -1, 0], [None, Some("y"), Some("x"), Some("")]),
        ("t/2.parquet", [4, 5, 6, 7], [1, 2, 0, -1], [Some("x"), None, Some(""), Some("")]),
    ] {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter(numbers.map(number)));
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
        let inside = vec![(field("a", DataType::Int32), numbers), (field("b", DataType::Utf8), texts)];
        let columns: [(&str, ArrayRef); 2] =
            [("id", Arc::new(Int64Array::from(ids.to_vec()))), ("st", Arc::new(StructArray::from(inside)))];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("rows");
        world.put(name, writer.into_inner().expect("a file")).await;
    }
    for _ in 0..5 {
        let statements: [(&str, &[&[&str]]); 2] = [
            ("SELECT id FROM t ORDER BY st, id LIMIT 3", &[&["1"], &["3"], &["6"]]),
            ("SELECT id FROM t ORDER BY st DESC, id LIMIT 2", &[&["2"], &["7"]]),
        ];
        mean(&world, "", "PARQUET", &statements).await;
    }
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
