//! Positions: each row says where its record lies, and reading just there gives the row again.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, CompareOp, Compression, CsvOptions, ErrorKind, Expr, Format, Fragment,
    JsonOptions, JsonShape, Output,
};
use pushdowndb_scan::{InMemory, POSITION_COLUMNS, ScanCounters, ScanOptions, ScanRange, output_schema, scan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

fn reader(bytes: &Bytes) -> Arc<InMemory> {
    Arc::new(InMemory::new("s3://b/k", bytes.clone()).with_piece_bytes(7))
}

fn options() -> ScanOptions {
    ScanOptions { batch_rows: 3, ..ScanOptions::default() }
}

/// The rows, and the bytes or rows that each of them lies in.
async fn located(fragment: &Fragment, bytes: &Bytes) -> (Vec<String>, Vec<Range<u64>>) {
    let rows_of = |batches: &[RecordBatch]| {
        let columns: Vec<usize> = (0..batches[0].num_columns() - 2).collect();
        batches.iter().flat_map(|batch| rows(&batch.project(&columns).expect("columns"))).collect()
    };
    let stream = scan(Arc::new(fragment.clone()), reader(bytes), ScanRange::WithPositions, options(), Arc::default());
    let batches: Vec<RecordBatch> = stream.expect("a scan").try_collect().await.expect("rows");
    if batches.is_empty() {
        return (vec![], vec![]);
    }
    let mut places = Vec::new();
    for batch in &batches {
        let [first, last] = POSITION_COLUMNS.map(|name| batch.column_by_name(name).expect(name));
        let (first, last) = (first.as_primitive::<Int64Type>(), last.as_primitive::<Int64Type>());
        let pairs = first.values().iter().zip(last.values());
        places.extend(pairs.map(|(first, last)| first.cast_unsigned()..last.cast_unsigned() + 1));
    }
    (rows_of(&batches), places)
}

async fn parts(fragment: &Fragment, bytes: &Bytes, parts: &[Range<u64>]) -> (Vec<String>, u64) {
    let counters = Arc::new(ScanCounters::default());
    let stream = scan(
        Arc::new(fragment.clone()),
        reader(bytes),
        ScanRange::Records(parts.to_vec()),
        options(),
        Arc::clone(&counters),
    );
    let batches: Vec<RecordBatch> = stream.expect("a scan").try_collect().await.expect("rows");
    let batch = concat_batches(&output_schema(fragment).expect("a schema"), &batches).expect("one schema");
    (rows(&batch), Arc::try_unwrap(counters).expect("over").bytes_scanned.into_inner())
}

/// Any choice of records is read by its parts, alone or joined with neighbours.
async fn check(fragment: &Fragment, bytes: impl Into<Bytes>) -> Vec<Range<u64>> {
    let bytes = bytes.into();
    let whole = rows(&run(fragment, bytes.clone()).await);
    let (all, places) = located(fragment, &bytes).await;
    assert_eq!(all, whole);
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "in order and apart: {places:?}");
    let everything = places.first().map_or(0, |p| p.start)..places.last().map_or(0, |p| p.end);
    assert_eq!(parts(fragment, &bytes, &[everything]).await.0, whole, "records and what lies between them");
    let mut random = StdRng::seed_from_u64(bytes.len() as u64);
    for _ in 0..50 {
        let chance = random.random_range(0.0..1.0);
        let picked: Vec<usize> = (0..all.len()).filter(|_| random.random_bool(chance)).collect();
        let ranges: Vec<Range<u64>> = picked.iter().map(|i| places[*i].clone()).collect();
        let want: Vec<String> = picked.iter().map(|i| all[*i].clone()).collect();
        assert_eq!(parts(fragment, &bytes, &ranges).await.0, want, "parts {ranges:?}");
    }
    places
}

fn columns() -> arrow::datatypes::SchemaRef {
    schema(&[("a", DataType::Int64), ("b", DataType::Utf8)])
}

fn at_least_two(fragment: Fragment) -> Fragment {
    Fragment { predicate: Some(Expr::compare(CompareOp::GtEq, Expr::Column(0), Expr::int(2))), ..fragment }
}

#[tokio::test]
async fn csv_records() {
    let header = csv(&columns(), CsvOptions { comment: Some(b'#'), ..CsvOptions::default() });
    assert_eq!(check(&header, "a,b\n1,x\n2,yy\n\n3,\"z,\"\n4,w").await, [4..7, 8..12, 14..20, 21..24]);
    assert_eq!(check(&header, "\u{feff}a,b\r\n1,x\r\n22,yé\r\n").await, [8..11, 13..19]);
    check(&header, "# about\n#more\na,b\n1,x\n#2,y\n3,z\n").await;
    assert_eq!(check(&header, "a,b\n").await, []);
    assert_eq!(check(&csv(&columns(), no_header()), "\u{feff}1,x\n2,y").await, [3..6, 7..10]);
    assert_eq!(check(&csv(&columns(), no_header()), "1,\"x\"\"y\"\n2,\n").await, [0..8, 9..11]);
    let ended = CsvOptions { terminator: Some(b';'), ..no_header() };
    check(&csv(&columns(), ended), "1,x;22,y\n;3,z").await;
    assert_eq!(check(&at_least_two(header), "a,b\n1,x\n2,y\n1,z\n3,\n").await, [8..11, 16..18]);
}

#[tokio::test]
async fn csv_records_with_line_ends_in_them() {
    let options = CsvOptions { newlines_in_values: true, ..CsvOptions::default() };
    let text = "a,b\n1,\"x\ny\"\n2,\"\n\n\"\n3,z\n";
    assert_eq!(check(&csv(&columns(), options), text).await, [4..11, 12..18, 19..22]);
}

#[tokio::test]
async fn many_csv_records() {
    let mut random = StdRng::seed_from_u64(11);
    let mut text = String::from("a,b\n");
    for i in 0..5000 {
        let quoted = if i % 3 == 0 { "\"" } else { "" };
        let end = if i % 5 == 0 { "\r\n" } else { "\n" };
        text.push_str(&format!("{i},{quoted}{}{quoted}{end}", "é".repeat(random.random_range(0..100))));
    }
    check(&csv(&columns(), CsvOptions::default()), text.clone()).await;
    check(&at_least_two(csv(&columns(), CsvOptions::default())), text).await;
}

#[tokio::test]
async fn json_records() {
    let fragment = Fragment::all(Format::Json(JsonOptions::default()), columns());
    let text = "{\"a\":1,\"b\":\"x\"}\n\n  {\"a\":2}\r\n{\"b\":\"\\n\"}";
    assert_eq!(check(&fragment, text).await, [0..15, 19..27, 28..38]);
    check(&fragment, "\u{feff}{\"a\":1}\n{\"a\":2}\n\n").await;
    check(&at_least_two(fragment), text).await;
}

/// `n` rows that do not compress, in row groups and pages of so many.
fn parquet(n: i64, group_rows: usize, page_rows: usize) -> Bytes {
    let mut random = StdRng::seed_from_u64(5);
    let text: StringArray = (0..n).map(|i| (i % 7 != 0).then(|| format!("t{:016x}", random.random::<u64>()))).collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from_iter_values(0..n)) as ArrayRef, true),
        ("b", Arc::new(text), true),
    ]);
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        .build();
    let batch = batch.expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.into_inner().expect("closed").into()
}

#[tokio::test]
async fn parquet_rows() {
    let file = parquet(1000, 300, 20);
    let fragment = Fragment::all(Format::Parquet, columns());
    let places = check(&fragment, file.clone()).await;
    assert_eq!(places, (0..1000).map(|row| row..row + 1).collect::<Vec<_>>());
    let whole = rows(&run(&fragment, file.clone()).await);
    let picked = |rows: &[usize]| rows.iter().map(|row| whole[*row].clone()).collect::<Vec<_>>();
    let (some, _) = parts(&fragment, &file, &[5..6, 299..301, 999..2000]).await;
    assert_eq!(some, picked(&[5, 299, 300, 999]));
    let filtered = at_least_two(fragment.clone());
    assert_eq!(parts(&filtered, &file, &[0..4]).await.0, picked(&[2, 3]));
    assert!(parts(&fragment, &file, &[1000..1001]).await.0.is_empty());
}

#[tokio::test]
async fn only_pages_with_wanted_rows_are_read() {
    let file = parquet(100_000, 60_000, 1000);
    let fragment = Fragment::all(Format::Parquet, columns());
    let (some, scanned) = parts(&fragment, &file, &[5..6, 50_000..50_001, 99_999..100_000]).await;
    assert_eq!(some.len(), 3);
    let (_, whole) = try_run_with(&fragment, InMemory::new("k", file), None, 8192).await.expect("all rows");
    let whole = whole.bytes_scanned.into_inner();
    assert!(scanned * 5 < whole, "{scanned} bytes for three rows, {whole} for all");
}

#[tokio::test]
async fn what_has_no_position_is_refused() {
    let bytes = Bytes::from_static(b"1,x\n");
    let refused = |fragment: Fragment| {
        let error =
            scan(Arc::new(fragment), reader(&bytes), ScanRange::WithPositions, options(), Arc::default()).map(|_| ());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        error.to_string()
    };
    let gzip = CsvOptions { compression: Compression::Gzip, ..no_header() };
    assert!(refused(csv(&columns(), gzip)).ends_with("it is compressed"));
    let document = Format::Json(JsonOptions { shape: JsonShape::Document, ..JsonOptions::default() });
    assert!(refused(Fragment::all(document, columns())).ends_with("its records are no lines"));
    assert!(refused(at_least_two(Fragment::all(Format::Parquet, columns()))).contains("no records"));
    let call = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
    let count = Fragment { output: Output::scalar(vec![call]), ..csv(&columns(), no_header()) };
    assert!(refused(count).contains("no records"));
}

#[tokio::test]
async fn parts_beyond_the_object_are_an_error() {
    let fragment = Arc::new(csv(&columns(), no_header()));
    let stream = scan(
        fragment,
        reader(&Bytes::from_static(b"1,x\n")),
        ScanRange::Records(vec![0..9]),
        options(),
        Arc::default(),
    );
    let error = stream.expect("a scan").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
