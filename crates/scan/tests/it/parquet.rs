//! Parquet: columns by name, pruning that keeps every match, and files that are none.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, CompareOp, ErrorKind, Expr, Format, Fragment, Literal, NamedExpr, Output,
};
use pushdowndb_scan::InMemory;

use crate::support::*;

fn write(batch: &RecordBatch, group_rows: usize) -> Bytes {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("closed").into()
}

/// 1000 rows: `i` ascending, `t` text of it or NULL, `f` with a NaN, `d` days, `c` a dictionary.
fn file() -> Bytes {
    let n = 1000;
    let words: DictionaryArray<Int32Type> = (0..n).map(|i| ["red", "green"][(i % 2) as usize]).collect();
    let text: StringArray = (0..n).map(|i| (i % 7 != 0).then(|| format!("t{i:04}"))).collect();
    let floats: Vec<f64> = (0..n).map(|i| if i == 500 { f64::NAN } else { f64::from(i) }).collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("i", Arc::new(Int32Array::from_iter_values(0..n)) as ArrayRef, true),
        ("t", Arc::new(text), true),
        ("f", Arc::new(Float64Array::from(floats)), true),
        ("d", Arc::new(Date32Array::from_iter_values(0..n)), true),
        ("c", Arc::new(words), true),
    ]);
    write(&batch.expect("a batch"), 100)
}

fn all() -> Fragment {
    let columns = schema(&[
        ("i", DataType::Int64),
        ("t", DataType::Utf8View),
        ("f", DataType::Float64),
        ("d", DataType::Date32),
        ("c", DataType::Utf8),
        ("missing", DataType::Decimal128(5, 1)),
    ]);
    Fragment::all(Format::Parquet, columns)
}

fn column(index: usize) -> Output {
    Output::Rows(vec![NamedExpr { expr: Expr::Column(index), name: "v".into() }])
}

#[tokio::test]
async fn columns_come_by_name_and_declared_type() {
    let batch = run(&all(), file()).await;
    assert_eq!(batch.num_rows(), 1000);
    let shown = rows(&batch);
    assert_eq!(shown[0], "0|NULL|0.0|1970-01-01|red|NULL");
    assert_eq!(shown[999], "999|t0999|999.0|1972-09-26|green|NULL");
    let count = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
    let count = Fragment { output: Output::scalar(vec![count]), ..all() };
    assert_eq!(values(&run(&count, file()).await), ["1000"]);
    assert_eq!(run(&Fragment { limit: Some(250), ..all() }, file()).await.num_rows(), 250);
}

#[tokio::test]
async fn pruning_keeps_every_match() {
    use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let bytes = file();
    let cmp = |op, column, value| Expr::compare(op, Expr::Column(column), value);
    let day = |n| Expr::Literal(Literal::Date(n));
    let float = |x| Expr::Literal(Literal::Float64(x));
    for (predicate, count, groups) in [
        (cmp(Eq, 0, Expr::int(250)), 1, 1),
        (cmp(Lt, 0, Expr::int(100)), 100, 1),
        (cmp(LtEq, 0, Expr::int(100)), 101, 2),
        (cmp(GtEq, 0, Expr::int(899)), 101, 2),
        (cmp(NotEq, 0, Expr::int(5)), 999, 10),
        (cmp(Gt, 3, day(949)), 50, 1),
        (Expr::compare(Lt, day(949), Expr::Column(3)), 50, 1),
        (cmp(Eq, 1, Expr::text("t0250")), 1, 1),
        (cmp(Gt, 1, Expr::text("t0990")), 8, 1),
        (Expr::IsNull(Box::new(Expr::Column(1))), 143, 10),
        (cmp(Gt, 2, float(2000.0)), 1, 10),
        (cmp(Eq, 4, Expr::text("red")), 500, 10),
        (cmp(Eq, 4, Expr::text("blue")), 0, 0),
        (cmp(Eq, 5, Expr::int(1)), 0, 10),
        (
            Expr::InList { expr: Box::new(Expr::Column(0)), list: vec![Expr::int(5), Expr::int(905)], negated: false },
            2,
            2,
        ),
        (Expr::Or(vec![cmp(Lt, 0, Expr::int(3)), cmp(Gt, 3, day(990))]), 12, 2),
        (cmp(Gt, 0, Expr::int(150)).and(cmp(Lt, 3, day(160))), 9, 1),
        (cmp(Gt, 0, Expr::Literal(Literal::Decimal(99_850, 10, 2))), 1, 1),
    ] {
        for output in [column(0), column(5), all().output] {
            let fragment = Fragment { predicate: Some(predicate.clone()), output, ..all() };
            let reader = InMemory::new("k", bytes.clone());
            let (batch, counters) = try_run_with(&fragment, reader, None, 64).await.expect("rows");
            assert_eq!(batch.num_rows(), count, "{predicate:?}");
            let scanned = counters.row_groups_scanned.into_inner();
            assert_eq!(scanned, groups, "{predicate:?}");
            assert_eq!(counters.row_groups_pruned.into_inner(), 10 - scanned);
        }
    }
}

#[tokio::test]
async fn fewer_columns_and_groups_read_fewer_bytes() {
    let bytes = file();
    let scanned = async |fragment: Fragment| {
        let (_, counters) = try_run_with(&fragment, InMemory::new("k", bytes.clone()), None, 8192).await.expect("rows");
        counters.bytes_scanned.into_inner()
    };
    let everything = scanned(all()).await;
    let one = Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::int(5));
    assert!(scanned(Fragment { predicate: Some(one), ..all() }).await < everything / 4);
    assert!(everything < bytes.len() as u64);
}

#[tokio::test]
async fn row_groups_belong_to_one_range() {
    let bytes = file();
    let size = bytes.len() as u64;
    let whole = rows(&run(&all(), bytes.clone()).await);
    for parts in [1, 2, 3, 10, 40] {
        let mut together = Vec::new();
        for part in 0..parts {
            let range = size * part / parts..size * (part + 1) / parts;
            let reader = InMemory::new("k", bytes.clone());
            together.extend(rows(&try_run_with(&all(), reader, Some(range), 8192).await.expect("rows").0));
        }
        assert_eq!(together, whole, "{parts} parts");
    }
}

#[tokio::test]
async fn what_is_no_parquet_file_is_named() {
    let bytes = file();
    for (bytes, message) in [
        (Bytes::new(), "s3://b/k: is empty, so it is no Parquet file"),
        (Bytes::from_static(b"a,b\n1,2\n"), "s3://b/k: is no complete Parquet file: it does not end as one"),
        (bytes.slice(..bytes.len() - 10), "s3://b/k: is no complete Parquet file: it does not end as one"),
        (bytes.slice(bytes.len() - 100..), "s3://b/k: is no complete Parquet file: its footer cannot be read"),
    ] {
        let error = try_run(&all(), bytes).await.map(|b| b.num_rows()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let mut broken = bytes.to_vec();
    broken[4..1500].fill(0xff);
    let error = try_run(&all(), broken).await.map(|b| b.num_rows()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().starts_with("s3://b/k: the Parquet file contradicts itself"), "{error}");
}

#[tokio::test]
async fn types_that_do_not_fit_are_errors() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(Int64Array::from(vec![Some(300), None])) as ArrayRef, true),
        ("t", Arc::new(StringArray::from(vec!["1999-01-01", "x"])), true),
    ]);
    let bytes = write(&batch.expect("a batch"), 10);
    let declared = |name: &str, data_type, nullable| {
        Fragment::all(Format::Parquet, Arc::new(Schema::new(vec![Field::new(name, data_type, nullable)])))
    };
    let text = error(&declared("n", DataType::Int8, true), bytes.clone()).await;
    assert!(
        text.starts_with("s3://b/k, column \"n\": holds BIGINT, which does not fit the declared TINYINT"),
        "{text}"
    );
    let text = error(&declared("t", DataType::Date32, true), bytes.clone()).await;
    assert_eq!(text, "s3://b/k, column \"t\": cannot parse 'x' as DATE");
    let text = error(&declared("n", DataType::Int64, false), bytes.clone()).await;
    assert_eq!(text, "s3://b/k, column \"n\": a value is NULL, but the column is declared NOT NULL");
    let text = error(&declared("z", DataType::Int64, false), bytes.clone()).await;
    assert_eq!(text, "s3://b/k, column \"z\": the file has no such column, but it is declared NOT NULL");
    let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Literal(Literal::Date(0))));
    let text = error(&Fragment { predicate, ..declared("t", DataType::Date32, true) }, bytes.clone()).await;
    assert_eq!(text, "s3://b/k, column \"t\": cannot parse 'x' as DATE");
    assert_eq!(values(&run(&declared("n", DataType::Decimal128(10, 2), true), bytes).await), ["300.00", "NULL"]);
}
