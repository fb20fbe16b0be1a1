//! Running fragments and showing rows, for all tests.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use pushdowndb_contract::{CsvOptions, Expr, Format, Fragment, SortKey};
use pushdowndb_scan::{Helpers, InMemory, ObjectReader, ScanCounters, ScanOptions, Spawner, output_schema, scan};
pub use pushdowndb_testkit::batch::{rows, schema};

/// The rows of a fragment, as one batch.
pub async fn try_run_with(
    fragment: &Fragment,
    reader: impl ObjectReader,
    range: Option<Range<u64>>,
    batch_rows: usize,
) -> pushdowndb_contract::Result<(RecordBatch, ScanCounters)> {
    try_run_as(fragment, reader, range, ScanOptions { batch_rows, ..ScanOptions::default() }).await
}

pub async fn try_run_as(
    fragment: &Fragment,
    reader: impl ObjectReader,
    range: Option<Range<u64>>,
    options: ScanOptions,
) -> pushdowndb_contract::Result<(RecordBatch, ScanCounters)> {
    let counters = Arc::new(ScanCounters::default());
    let stream = scan(Arc::new(fragment.clone()), Arc::new(reader), range, options, Arc::clone(&counters))?;
    let batch = collect(fragment, stream).await?;
    Ok((batch, Arc::try_unwrap(counters).expect("the scan is over")))
}

/// What a scan of the fragment gives, as one batch.
pub async fn collect(
    fragment: &Fragment,
    stream: impl Stream<Item = pushdowndb_contract::Result<RecordBatch>>,
) -> pushdowndb_contract::Result<RecordBatch> {
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let schema = output_schema(fragment)?;
    assert!(batches.iter().all(|b| b.schema() == schema && b.num_rows() > 0));
    Ok(concat_batches(&schema, &batches).expect("batches of one schema"))
}

pub async fn try_run(fragment: &Fragment, bytes: impl Into<Bytes>) -> pushdowndb_contract::Result<RecordBatch> {
    Ok(try_run_with(fragment, InMemory::new("s3://b/k", bytes), None, 8192).await?.0)
}

pub async fn run(fragment: &Fragment, bytes: impl Into<Bytes>) -> RecordBatch {
    try_run(fragment, bytes).await.expect("the scan succeeds")
}

pub async fn error(fragment: &Fragment, bytes: impl Into<Bytes>) -> String {
    match try_run(fragment, bytes).await {
        Ok(batch) => panic!("no error but {} rows", batch.num_rows()),
        Err(error) => error.to_string(),
    }
}

/// Everybody is free to scan pieces of so many bytes.
pub fn helpers(most: usize, piece_bytes: u64) -> Option<Helpers> {
    Some(Helpers::new(most, || Some(Spawner::default())).with_piece_bytes(piece_bytes))
}

/// Text columns of these names.
pub fn texts(names: &[&str]) -> SchemaRef {
    schema(names.iter().map(|name| (*name, DataType::Utf8)).collect::<Vec<_>>())
}

pub fn csv(schema: &SchemaRef, options: CsvOptions) -> Fragment {
    Fragment::all(Format::Csv(options), Arc::clone(schema))
}

pub fn no_header() -> CsvOptions {
    CsvOptions { header: false, ..CsvOptions::default() }
}

/// The rows of a one-column batch.
pub fn values(batch: &RecordBatch) -> Vec<String> {
    assert_eq!(batch.num_columns(), 1);
    rows(batch)
}

/// Ascending with NULLs last, or the reverse.
pub fn by(expr: Expr, descending: bool) -> SortKey {
    SortKey { expr, descending, nulls_first: descending }
}

pub fn sales() -> SchemaRef {
    schema(&[("city", DataType::Utf8), ("n", DataType::Int64), ("price", DataType::Decimal128(10, 2))])
}

/// Rows of [`sales`], with NULLs.
pub const SALES: &str = "Oslo,1,1.50\nRome,2,\nOslo,,0.25\n,4,10\nRome,5,0.75\n,6,1\n";
