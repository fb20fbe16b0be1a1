//! What a scan takes from its budget of memory, and what becomes of it where that is too little.

use std::io::Write;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression as Codec, ZstdLevel};
use ::parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use bytes::Bytes;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, Compression, CsvOptions, ErrorKind, Expr, Format, Fragment, Function, NamedExpr,
    Output,
};
use pushdowndb_scan::{InMemory, MemoryBudget, ScanOptions};

use crate::support::*;

const MIB: usize = 1 << 20;

/// Rows, or the code and kind of the error, of a scan with so much memory; and the most it took of
/// that.
async fn within(
    limit: usize,
    fragment: &Fragment,
    bytes: &Bytes,
    options: ScanOptions,
) -> (Result<Vec<String>, (Option<&'static str>, ErrorKind)>, usize) {
    let memory = MemoryBudget::new(limit);
    let options = ScanOptions { memory: memory.share(limit), ..options };
    let rows = try_run_as(fragment, InMemory::new("k", bytes.clone()), None, options).await;
    // Tasks that decompress end a moment later.
    for _ in 0..1000 {
        if memory.used() > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(memory.used(), 0, "all of it was given back");
    let rows = rows.map(|(batch, _)| rows_of(&batch)).map_err(|error| (error.code(), error.kind()));
    (rows, memory.peak())
}

/// The rows in short.
fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let mut rows = rows(batch);
    rows.iter_mut().for_each(|row| row.truncate(40));
    rows
}

/// The same rows with little memory as with any amount, or the error with this code where it is
/// less still.
async fn is_bounded(
    fragment: &Fragment,
    bytes: impl Into<Bytes>,
    enough: usize,
    too_little: usize,
    code: &'static str,
) {
    let bytes = bytes.into();
    let (free, _) = within(usize::MAX / 2, fragment, &bytes, ScanOptions::default()).await;
    let (rows, peak) = within(enough, fragment, &bytes, ScanOptions::default()).await;
    assert_eq!(rows, free);
    assert!(peak <= enough && rows.is_ok(), "{peak} of {enough} bytes");
    let (refused, peak) = within(too_little, fragment, &bytes, ScanOptions::default()).await;
    assert_eq!(refused, Err((Some(code), ErrorKind::Limit)));
    assert!(peak <= too_little);
}

fn parquet(columns: Vec<ArrayRef>, dictionaries: bool) -> Vec<u8> {
    let named = columns.into_iter().enumerate().map(|(place, column)| (format!("c{place}"), column));
    let batch = RecordBatch::try_from_iter(named).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Codec::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_dictionary_enabled(dictionaries)
        .set_dictionary_page_size_limit(1 << 30)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn column(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// The file with a footer that says its row groups are of 1000 bytes.
fn lying(file: Vec<u8>) -> Vec<u8> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file.clone())).unwrap();
    let mut metadata = metadata.into_builder();
    let small = |group: RowGroupMetaData| group.into_builder().set_total_byte_size(1000).build().unwrap();
    let groups = metadata.take_row_groups().into_iter().map(small).collect();
    let metadata = metadata.set_row_groups(groups).build();
    let footer = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
    let mut lies = file[..file.len() - 8 - footer].to_vec();
    ParquetMetaDataWriter::new(&mut lies, &metadata).finish().unwrap();
    lies
}

fn columns(count: usize) -> Arc<arrow::datatypes::Schema> {
    let names: Vec<String> = (0..count).map(|place| format!("c{place}")).collect();
    texts(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn count() -> Output {
    let call = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
    Output::Aggregate { groups: vec![], calls: vec![call] }
}

fn like(column: usize, pattern: &str) -> Expr {
    let (expr, pattern) = (Box::new(Expr::Column(column)), Box::new(Expr::text(pattern)));
    Expr::Like { expr, pattern, negated: false, case_insensitive: false }
}

#[tokio::test]
async fn pages_are_counted_whatever_the_footer_says() {
    let file = lying(parquet(vec![column(["a".repeat(16 * MIB)]); 6], false));
    assert!(file.len() < 100_000);
    // All of a row is in memory.
    let all = Fragment::all(Format::Parquet, columns(6));
    is_bounded(&all, file.clone(), 800 * MIB, 64 * MIB, "OverMaxParquetBlockSize").await;
    let condition = (0..6).map(|c| like(c, "%a")).collect();
    let counted = Fragment { predicate: Some(Expr::And(condition)), output: count(), ..all };
    is_bounded(&counted, file, 400 * MIB, 24 * MIB, "OverMaxParquetBlockSize").await;
}

#[tokio::test]
async fn dictionaries_are_counted_with_what_becomes_of_them() {
    let file = parquet(vec![column((0..64).map(|i| format!("{}{i}", "0".repeat(1_000_000))))], true);
    let fragment = Fragment { predicate: Some(like(0, "%7")), ..Fragment::all(Format::Parquet, columns(1)) };
    is_bounded(&fragment, file, 900 * MIB, 32 * MIB, "OverMaxParquetBlockSize").await;
    let many = parquet(vec![column((0..20).map(|_| "b".repeat(MIB))); 50], true);
    let fragment = Fragment { output: count(), ..Fragment::all(Format::Parquet, columns(50)) };
    let all = Fragment { predicate: Some(Expr::And((0..50).map(|c| like(c, "b%")).collect())), ..fragment };
    is_bounded(&all, many, 400 * MIB, 2 * MIB, "OverMaxParquetBlockSize").await;
}

#[tokio::test]
async fn columns_of_long_dictionary_values_are_decoded_few_rows_at_a_time() {
    // Decoded at once they would be 800 MB.
    let file = parquet(vec![column((0..20).map(|_| "b".repeat(MIB))); 40], true);
    let length =
        |c: usize| NamedExpr { expr: Expr::Call(Function::CharLength, vec![Expr::Column(c)]), name: format!("n{c}") };
    let output = Output::Rows((0..40).map(length).collect());
    let fragment = Fragment { output, ..Fragment::all(Format::Parquet, columns(40)) };
    let (rows, peak) = within(400 * MIB, &fragment, &Bytes::from(file), ScanOptions::default()).await;
    let rows = rows.unwrap();
    assert!(rows.len() == 20 && rows.iter().all(|row| row.starts_with("1048576|1048576|")), "{rows:?}");
    assert!(peak <= 400 * MIB);
}

#[tokio::test]
async fn windows_of_zstd_are_counted() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(26).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder.write_all(&b"1,2\n".repeat(1000)).unwrap();
    let frame = encoder.finish().unwrap();
    let options = CsvOptions { compression: Compression::Zstd, ..no_header() };
    let fragment = Fragment { output: count(), ..csv(&texts(&["a", "b"]), options) };
    is_bounded(&fragment, frame, 70 * MIB, 60 * MIB, "InvalidCompressionFormat").await;
}

#[tokio::test]
async fn groups_are_counted_and_passed_on_early_where_somebody_merges_them() {
    let text: String = (0..100_000).map(|i| format!("{:0>50},{i}\n", i * 7919 % 100_003)).collect();
    let call = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
    let key = NamedExpr { expr: Expr::Column(0), name: "k".into() };
    let output = Output::Aggregate { groups: vec![key], calls: vec![call] };
    let fragment = Fragment { output, ..csv(&texts(&["a", "b"]), no_header()) };
    is_bounded(&fragment, text.clone(), 64 * MIB, 4 * MIB, "ExternalEvalException").await;
    let partial = ScanOptions { partial_group_bytes: Some(32 * MIB), ..ScanOptions::default() };
    let (rows, peak) = within(8 * MIB, &fragment, &Bytes::from(text), partial).await;
    assert_eq!(rows.unwrap().len(), 100_000);
    assert!(peak <= 8 * MIB);
}

#[tokio::test]
async fn first_rows_are_counted_with_their_keys() {
    let text: String = (0..2000).map(|i| format!("{:0>8000},{i}\n", i * 7919 % 1_000_003)).collect();
    let fragment = csv(&texts(&["a", "b"]), no_header());
    let fragment = Fragment { order: vec![by(Expr::Column(0), false)], limit: Some(1500), ..fragment };
    is_bounded(&fragment, text.clone(), 160 * MIB, 8 * MIB, "ExternalEvalException").await;
    // Long keys of many rows are not held to learn from them.
    let few = Fragment { limit: Some(100_000), ..fragment };
    let (rows, _) = within(160 * MIB, &few, &Bytes::from(text), ScanOptions::default()).await;
    assert_eq!(rows.unwrap().len(), 2000);
}

#[tokio::test]
async fn expressions_that_make_much_text_are_evaluated_few_rows_at_a_time() {
    let text: String = (0..400).map(|i| format!("{},{i}\n", "x".repeat(10_000))).collect();
    let joined = (0..100).fold(Expr::Column(0), |sum, _| Expr::Call(Function::Concat, vec![sum, Expr::Column(0)]));
    let length = Expr::Call(Function::CharLength, vec![joined.clone()]);
    // All rows at once would be 400 MB, and more than a concatenation may have.
    let output = Output::Rows(vec![NamedExpr { expr: length, name: "n".into() }]);
    let fragment = csv(&texts(&["a", "b"]), no_header());
    let counted = Fragment { output, ..fragment.clone() };
    assert_eq!(values(&run(&counted, text.clone()).await), vec!["1010000"; 400]);
    let matching = Expr::Like {
        expr: Box::new(joined.clone()),
        pattern: Box::new(Expr::text("%x")),
        negated: false,
        case_insensitive: false,
    };
    let filtered = Fragment { predicate: Some(matching), output: count(), ..fragment.clone() };
    assert_eq!(values(&run(&filtered, text.clone()).await), ["400"]);
    let output = Output::Rows(vec![NamedExpr { expr: joined, name: "t".into() }]);
    let long = Fragment { output, ..fragment };
    let few = text.lines().take(100).map(|line| format!("{line}\n")).collect::<String>();
    let (rows, peak) = within(64 * MIB, &long, &Bytes::from(few), ScanOptions::default()).await;
    assert_eq!(rows.unwrap().len(), 100);
    assert!(peak <= 64 * MIB);
}

#[tokio::test]
async fn what_others_have_taken_is_another_error() {
    let memory = MemoryBudget::new(64 * MIB);
    let _others = memory.try_reserve(60 * MIB).unwrap();
    let file = Bytes::from(parquet(vec![column(["a".repeat(16 * MIB)])], false));
    let fragment = Fragment { predicate: Some(like(0, "%b")), ..Fragment::all(Format::Parquet, columns(1)) };
    let options = ScanOptions { memory: memory.share(64 * MIB), ..ScanOptions::default() };
    let error = try_run_as(&fragment, InMemory::new("k", file), None, options).await.map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Throttled, Some("SlowDown")), "{error}");
}
