//! Files of Parquet, which declare their types.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, LargeStringArray, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Int32Type};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::Files;
use crate::world::{World, rows};

/// A file of these columns with `group` rows in a row group.
fn parquet(columns: Vec<(&str, ArrayRef)>, group: usize) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.expect("a batch");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.into_inner().expect("closed")
}

fn of<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
    of(Decimal128Array::from(values).with_precision_and_scale(precision, scale).expect("decimals"))
}

/// 2024-03-01 12:00:00.123 in milliseconds.
const NOON: i64 = 1_709_294_400_123;

/// Three files with the same columns in different types and orders, of which the second has one
/// more, and the third lacks some.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let first = parquet(
        vec![
            ("n", of(Int32Array::from(vec![Some(1), Some(2), Some(3), None]))),
            ("x", of(Int64Array::from(vec![1, 2, 3, 4]))),
            ("d", decimals(vec![Some(150), Some(250), None, Some(400)], 10, 2)),
            ("t", of(TimestampMillisecondArray::from(vec![NOON, NOON + 1, NOON + 86_400_000, 0]))),
            ("s", of(DictionaryArray::<Int32Type>::from_iter([Some("a"), Some("b"), Some("a"), None]))),
            ("u", of(UInt8Array::from(vec![1, 2, 3, 255]))),
            ("Name", of(StringArray::from(vec!["A", "B", "C", "D"]))),
        ],
        2,
    );
    let second = parquet(
        vec![
            ("s", of(LargeStringArray::from(vec!["b", "c"]))),
            ("name", of(StringArray::from(vec!["E", "F"]))),
            ("t", of(TimestampMicrosecondArray::from(vec![NOON * 1000, NOON * 1000 + 1]))),
            ("n", of(Int64Array::from(vec![5_000_000_000, -1]))),
            ("x", of(Float64Array::from(vec![Some(0.5), None]))),
            ("d", decimals(vec![Some(1), Some(25_000)], 18, 4)),
            ("u", of(Int16Array::from(vec![-1, 300]))),
            ("e", of(Date32Array::from(vec![Some(19_782), None]))),
        ],
        1,
    );
    let third = parquet(
        vec![
            ("n", of(NullArray::new(1))),
            ("x", of(Int8Array::from(vec![7]))),
            ("t", of(TimestampNanosecondArray::from(vec![NOON * 1_000_000 + 1]))),
            ("s", of(StringViewArray::from(vec!["z"]))),
            ("u", of(UInt16Array::from(vec![65_535]))),
            ("NAME", of(StringArray::from(vec!["G"]))),
        ],
        1,
    );
    vec![("t/1.parquet", first), ("t/2.parquet", second), ("t/3.parquet", third)]
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_types_are_widened() {
    let files = Files::new(&files()).await;
    files
        .answer(&[
            (
                "SELECT count(*), count(n), sum(n), min(n), max(n) FROM '{}/t/'",
                &[&["7", "5", "5000000005", "-1", "5000000000"]],
            ),
            ("SELECT count(*) FROM '{}/t/' WHERE n < 4000000000", &[&["4"]]),
            ("SELECT count(*) FROM '{}/t/' WHERE n > -4000000000", &[&["5"]]),
            ("SELECT n FROM '{}/t/' WHERE n > 2 ORDER BY n", &[&["3"], &["5000000000"]]),
            ("SELECT name FROM '{}/t/' WHERE n = 5000000000", &[&["E"]]),
            ("SELECT name FROM '{}/t/' WHERE n IN (3, 5000000000, 99999999999) ORDER BY n", &[&["C"], &["E"]]),
            ("SELECT n, name FROM '{}/t/' ORDER BY n DESC NULLS LAST LIMIT 2", &[&["5000000000", "E"], &["3", "C"]]),
            (
                "SELECT n, count(*) FROM '{}/t/' WHERE n < 3 GROUP BY n ORDER BY n",
                &[&["-1", "1"], &["1", "1"], &["2", "1"]],
            ),
            ("SELECT sum(x), max(x) FROM '{}/t/'", &[&["17.5f", "7.0f"]]),
            ("SELECT x FROM '{}/t/' WHERE x = 2 OR x < 1 ORDER BY x", &[&["0.5f"], &["2.0f"]]),
            ("SELECT name FROM '{}/t/' WHERE x BETWEEN 1.5 AND 7 ORDER BY x LIMIT 2", &[&["B"], &["C"]]),
            ("SELECT sum(d), min(d), count(*) FROM '{}/t/' WHERE d > 0", &[&["10.5001", "0.0001", "5"]]),
            ("SELECT name FROM '{}/t/' WHERE d = 2.5 ORDER BY name", &[&["B"], &["F"]]),
            (
                "SELECT d, count(*) FROM '{}/t/' WHERE d >= 2.5 GROUP BY d ORDER BY d",
                &[&["2.5000", "2"], &["4.0000", "1"]],
            ),
            (
                "SELECT s, count(*) FROM '{}/t/' GROUP BY s ORDER BY s NULLS LAST",
                &[&["a", "2"], &["b", "2"], &["c", "1"], &["z", "1"], &["NULL", "1"]],
            ),
            ("SELECT name FROM '{}/t/' WHERE s = 'b' ORDER BY name", &[&["B"], &["E"]]),
            ("SELECT name FROM '{}/t/' WHERE s LIKE 'z%'", &[&["G"]]),
            ("SELECT sum(u), min(u), max(u) FROM '{}/t/'", &[&["66095", "-1", "65535"]]),
            ("SELECT name FROM '{}/t/' WHERE u > 254 ORDER BY u", &[&["D"], &["F"], &["G"]]),
            // A column that only one file has, and names in another case.
            ("SELECT count(*), count(e) FROM '{}/t/'", &[&["7", "1"]]),
            ("SELECT name, e FROM '{}/t/' WHERE e = DATE '2024-02-29'", &[&["E", "2024-02-29"]]),
            ("SELECT count(*) FROM '{}/t/' WHERE e IS NULL", &[&["6"]]),
            ("SELECT count(*) FROM '{}/t/' WHERE d IS NULL", &[&["2"]]),
            ("SELECT string_agg(\"Name\", '' ORDER BY \"Name\") FROM '{}/t/'", &[&["ABCDEFG"]]),
            ("SELECT \"Name\" FROM '{}/t/' WHERE \"Name\" IN ('A', 'F', 'G') ORDER BY 1", &[&["A"], &["F"], &["G"]]),
            (
                "SELECT name FROM '{}/t/' WHERE t >= TIMESTAMP '2024-03-01 12:00:00.123' AND \
                 t < TIMESTAMP '2024-03-01 12:00:00.124' ORDER BY t, name",
                &[&["A"], &["E"], &["G"], &["F"]],
            ),
            ("SELECT max(t) FROM '{}/t/'", &[&["2024-03-02T12:00:00.123"]]),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instants_and_times_of_several_kinds_are_one_column() {
    let instants = |values: Vec<i64>| of(TimestampMicrosecondArray::from(values).with_timezone("+02:00"));
    let files = Files::new(&[
        ("t/1.parquet", parquet(vec![("t", of(TimestampMillisecondArray::from(vec![NOON])))], 9)),
        ("t/2.parquet", parquet(vec![("t", instants(vec![NOON * 1000, NOON * 1000 - 1]))], 9)),
        ("d/1.parquet", parquet(vec![("t", of(Date32Array::from(vec![19_783])))], 9)),
        ("d/2.parquet", parquet(vec![("t", of(TimestampMillisecondArray::from(vec![NOON])))], 9)),
    ])
    .await;
    files
        .answer(&[
            ("SELECT count(*) FROM '{}/t/' WHERE t = TIMESTAMP '2024-03-01 12:00:00.123'", &[&["2"]]),
            ("SELECT count(*) FROM '{}/d/' WHERE t < TIMESTAMP '2024-03-01 12:00:00'", &[&["1"]]),
            ("SELECT CAST(min(t) AS VARCHAR) FROM '{}/d/'", &[&["2024-03-01 00:00:00"]]),
        ])
        .await;
}

fn member(name: &str, column: &ArrayRef) -> Arc<Field> {
    Arc::new(Field::new(name, column.data_type().clone(), true))
}

fn structs(members: Vec<(&str, ArrayRef)>) -> ArrayRef {
    of(StructArray::from(members.into_iter().map(|(name, column)| (member(name, &column), column)).collect::<Vec<_>>()))
}

fn list(element: &str, values: ArrayRef, ends: Vec<i32>) -> ArrayRef {
    let offsets = OffsetBuffer::new(std::iter::once(0).chain(ends).collect::<Vec<_>>().into());
    of(ListArray::new(member(element, &values), offsets, values, None))
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_types_grow() {
    let numbers = |values: Vec<i32>| of(Int32Array::from(values));
    let old = structs(vec![("a", numbers(vec![1, 2]))]);
    let new = structs(vec![("b", of(StringArray::from(vec!["x"]))), ("A", of(Int64Array::from(vec![5_000_000_000])))]);
    let both = |own: &ArrayRef, element: &str, ends: Vec<i32>, ids: Vec<i32>| {
        let in_list = list(element, own.clone(), ends);
        let plain = list(element, numbers(vec![7; ids.len()]), (1..=ids.len() as i32).collect());
        parquet(vec![("id", numbers(ids)), ("s", own.clone()), ("l", in_list), ("p", plain)], 9)
    };
    let files = Files::new(&[
        ("t/1.parquet", both(&old, "element", vec![2, 2], vec![1, 2])),
        ("t/2.parquet", both(&new, "item", vec![1], vec![3])),
        ("u/1.parquet", parquet(vec![("l", list("x", of(NullArray::new(1)), vec![1]))], 9)),
        ("u/2.parquet", parquet(vec![("l", list("y", of(StringArray::from(vec!["z"])), vec![1]))], 9)),
    ])
    .await;
    files
        .answer(&[
            (
                "SELECT id, s['a'], s['b'] FROM '{}/t/' ORDER BY id",
                &[&["1", "1", "NULL"], &["2", "2", "NULL"], &["3", "5000000000", "x"]],
            ),
            ("SELECT id FROM '{}/t/' WHERE s['a'] > 1 ORDER BY id", &[&["2"], &["3"]]),
            ("SELECT count(*) FROM '{}/t/' WHERE s['b'] IS NULL", &[&["2"]]),
            ("SELECT sum(s['a']) FROM '{}/t/'", &[&["5000000003"]]),
            ("SELECT id, array_length(l), p[1] FROM '{}/t/' ORDER BY id LIMIT 1", &[&["1", "2", "7"]]),
            ("SELECT id, l[1]['b'] FROM '{}/t/' WHERE id = 3", &[&["3", "x"]]),
            ("SELECT l[1] FROM '{}/u/' WHERE l[1] = 'z'", &[&["z"]]),
        ])
        .await;
}

/// Row groups are ruled out by bounds in the table's type, and none that holds a row of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn narrower_files_are_pruned_and_looked_up_in_the_type_of_the_table() {
    let world = World::node().await;
    let narrow: ArrayRef = of(Int32Array::from_iter_values(0..20_000));
    let wide: ArrayRef = of(Int64Array::from_iter_values((0..20_000).map(|n| 3_000_000_000 + n)));
    let times =
        |from: i64| -> ArrayRef { of(TimestampMillisecondArray::from_iter_values((0..20_000).map(|n| from + n))) };
    let micros: ArrayRef = of(TimestampMicrosecondArray::from_iter_values((0..20_000).map(|n| (NOON + n) * 1000)));
    let narrow = parquet(vec![("n", narrow), ("t", times(0))], 1000);
    let wide = parquet(vec![("n", wide), ("t", micros)], 1000);
    let all = (narrow.len() + wide.len()) as u64;
    world.put("t/1.parquet", narrow).await;
    world.put("t/2.parquet", wide).await;
    let cases = [
        ("n >= 19990 AND n < 3000000002", "12"),
        ("n > 3000019997", "2"),
        ("n = 500", "1"),
        ("n = 4294967796", "0"),
        ("n IN (-1, 19999, 3000000000)", "2"),
        ("t BETWEEN TIMESTAMP '1970-01-01 00:00:19.998' AND TIMESTAMP '2024-03-01 12:00:00.123'", "3"),
    ];
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        for (condition, count) in cases {
            let sql = format!("SELECT count(*) FROM 's3://data/t/' WHERE {condition}");
            let (got, report) = rows(&engine, &sql).await.expect("rows");
            assert_eq!(got, [[count]], "{condition} at {level}");
            if level == "fragment" {
                assert!(report.usage.requests.fragment > 0, "{condition}: {:?}", report.usage.requests);
                let some = report.usage.bytes_scanned;
                assert!(some * 3 < all, "{condition}: {some} of {all} bytes");
            }
        }
    }
    // An index has the values of the table's type, too.
    let engine = world.engine("none").await;
    engine.execute("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://data/t/'").await.expect("a table");
    engine.execute("CREATE INDEX ON t (n)").await.expect("an index");
    engine.execute("SET pushdown.level = 'fragment'").await.expect("SET");
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    for (condition, count) in cases {
        let sql = format!("SELECT n FROM t WHERE {condition}");
        assert_eq!(rows(&engine, &sql).await.expect("rows").0.len().to_string(), count, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contradictions_name_both_files_and_the_way_out() {
    let files = Files::new(&[
        ("t/1.parquet", parquet(vec![("id", of(Int64Array::from(vec![1]))), ("v", of(Int64Array::from(vec![7])))], 9)),
        (
            "t/2.parquet",
            parquet(vec![("id", of(Int64Array::from(vec![2]))), ("v", of(StringArray::from(vec!["x"])))], 9),
        ),
        ("w/1.parquet", parquet(vec![("id", of(Int32Array::from(vec![1])))], 9)),
        ("w/2.parquet", parquet(vec![("id", of(Int64Array::from(vec![2])))], 9)),
        ("r/1.parquet", parquet(vec![("id", of(Int64Array::from(vec![9_007_199_254_740_993])))], 9)),
        (
            "r/2.parquet",
            parquet(vec![("id", of(Float64Array::from(vec![0.5]))), ("k", of(Int64Array::from(vec![1])))], 9),
        ),
    ])
    .await;
    let parts = ["t/1.parquet", "t/2.parquet", "column 'v' is BIGINT in the first and VARCHAR", "union_by_name"];
    files.refuse("SELECT id FROM '{}/t/'", &parts).await;
    let declare = |path: &str, value: &str| {
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{{}}/{path}/' OPTIONS ('union_by_name' '{value}')")
    };
    files.refuse(&declare("w", "false"), &["column 'id' is INT in the first and BIGINT"]).await;
    files.refuse(&declare("r", "false"), &["the first has no column 'k'"]).await;
    // What the common type would change is an error, where it is read.
    files
        .refuse("SELECT id FROM '{}/r/'", &["r/1.parquet", "\"id\"", "9007199254740993", "CREATE EXTERNAL TABLE"])
        .await;
    files
        .answer(&[
            ("SELECT count(k) FROM '{}/r/'", &[&["1"]]),
            (format!("{};SELECT id, v FROM t ORDER BY id", declare("t", "true")).as_str(), &[&["1", "7"], &["2", "x"]]),
            (format!("{};SELECT id FROM t WHERE v = '7'", declare("t", "true")).as_str(), &[&["1"]]),
            (
                format!("{};SELECT v, count(*) FROM t GROUP BY v ORDER BY v", declare("t", "true")).as_str(),
                &[&["7", "1"], &["x", "1"]],
            ),
            ("SELECT sum(id) FROM '{}/w/'", &[&["3"]]),
        ])
        .await;
}
