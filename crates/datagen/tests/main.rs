//! Generates small data into a store in memory and reads it back with Arrow's own readers.

use std::io::{BufReader, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Date32Type, Decimal128Type, Int64Type};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pushdowndb_contract::ErrorKind;
use pushdowndb_datagen::{DataSet, Destination, Format, Options, TABLES, generate, generate_over, schema};

const SCALE: f64 = 0.001;

fn options(format: Format, parts: u32) -> Options {
    Options { scale: SCALE, format, parts, overwrite: false }
}

fn destination() -> Destination {
    destination_at(None)
}

fn destination_at(endpoint: Option<&str>) -> Destination {
    Destination {
        store: Arc::new(InMemory::new()),
        prefix: Path::from("sf"),
        url: "s3://bucket/sf".into(),
        endpoint: endpoint.map(str::to_owned),
    }
}

async fn objects(at: &Destination, table: &str) -> Vec<(String, Bytes)> {
    let mut all: Vec<_> = at.store.list(Some(&Path::from(format!("sf/{table}")))).try_collect().await.unwrap();
    // The number between the dots orders the parts.
    all.sort_by_key(|meta| meta.location.as_ref().split('.').nth(1).unwrap().parse::<u32>().unwrap_or(0));
    let mut read = Vec::new();
    for meta in all {
        let bytes = at.store.get(&meta.location).await.unwrap().bytes().await.unwrap();
        read.push((meta.location.filename().unwrap().to_owned(), bytes));
    }
    read
}

fn decode(table: &str, format: Format, bytes: Bytes) -> Vec<RecordBatch> {
    let schema = schema(table).unwrap();
    match format {
        Format::Csv => {
            let reader = arrow::csv::ReaderBuilder::new(schema).with_header(true).build(Cursor::new(bytes)).unwrap();
            reader.map(|batch| batch.unwrap()).collect()
        }
        Format::Json => {
            let reader = arrow::json::ReaderBuilder::new(schema).build(BufReader::new(Cursor::new(bytes))).unwrap();
            reader.map(|batch| batch.unwrap()).collect()
        }
        Format::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
            assert_eq!(reader.schema(), &schema, "declared and stored types");
            reader.build().unwrap().map(|batch| batch.unwrap()).collect()
        }
    }
}

async fn table(at: &Destination, table: &str, format: Format) -> RecordBatch {
    let objects = objects(at, table).await;
    let rows: Vec<_> = objects.into_iter().flat_map(|(_, bytes)| decode(table, format, bytes)).collect();
    concat_batches(&schema(table).unwrap(), &rows).unwrap()
}

#[tokio::test]
async fn formats_and_parts_hold_the_same_rows() {
    let csv = destination();
    let summary = generate(options(Format::Csv, 1), &csv, |_| ()).await.unwrap();
    let expected = [
        ("region", 5),
        ("nation", 25),
        ("supplier", 10),
        ("customer", 150),
        ("part", 200),
        ("partsupp", 800),
        ("orders", 1500),
        ("lineitem", 6005),
    ];
    assert_eq!(summary.rows, expected);
    assert_eq!(summary.objects, 9);

    for (format, parts) in
        [(Format::Csv, 3), (Format::Parquet, 1), (Format::Parquet, 3), (Format::Json, 1), (Format::Json, 3)]
    {
        let other = destination();
        assert_eq!(generate(options(format, parts), &other, |_| ()).await.unwrap().rows, expected);
        for name in TABLES {
            assert_eq!(table(&other, name, format).await, table(&csv, name, Format::Csv).await, "{name} {format:?}");
        }
    }
}

#[tokio::test]
async fn the_first_rows_are_the_known_ones() {
    let at = destination();
    generate(options(Format::Csv, 1), &at, |_| ()).await.unwrap();
    let nation = objects(&at, "nation").await.remove(0);
    assert_eq!(nation.0, "nation.csv");
    let text = String::from_utf8(nation.1.to_vec()).unwrap();
    let expected =
        "n_nationkey,n_name,n_regionkey,n_comment\n0,ALGERIA,0, haggle. carefully final deposits detect slyly agai\n";
    assert!(text.starts_with(expected), "{text}");
    let lineitem = table(&at, "lineitem", Format::Csv).await;
    assert_eq!(lineitem["l_orderkey"].as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(lineitem["l_quantity"].as_primitive::<Decimal128Type>().value(0), 1700);
    assert_eq!(lineitem["l_shipdate"].as_primitive::<Date32Type>().value_as_date(0).unwrap().to_string(), "1996-03-13");
    let text = String::from_utf8(objects(&at, "lineitem").await[0].1.to_vec()).unwrap();
    assert!(
        text.lines().nth(1).unwrap().starts_with("1,156,4,1,17.00,17954.55,0.04,0.02,N,O,1996-03-13,"),
        "{}",
        &text[..600]
    );
}

#[tokio::test]
async fn json_decimals_are_numbers_with_scale() {
    let at = destination();
    generate(options(Format::Json, 1), &at, |_| ()).await.unwrap();
    let text = String::from_utf8(objects(&at, "lineitem").await[0].1.to_vec()).unwrap();
    assert!(text.starts_with(r#"{"l_orderkey":1,"#), "{}", &text[..300]);
    assert!(text.lines().next().unwrap().contains(r#""l_quantity":17.00,"#));
    assert!(text.lines().next().unwrap().contains(r#""l_shipdate":"1996-03-13""#));
}

#[tokio::test]
async fn objects_are_named_by_part_and_declared() {
    let at = destination();
    generate(options(Format::Parquet, 3), &at, |_| ()).await.unwrap();
    let names: Vec<_> = objects(&at, "orders").await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["orders.1.parquet", "orders.2.parquet", "orders.3.parquet"]);
    assert_eq!(objects(&at, "region").await.len(), 1);
    let sql = at.store.get(&Path::from("sf/schema.sql")).await.unwrap().bytes().await.unwrap();
    let sql = String::from_utf8(sql.to_vec()).unwrap();
    assert!(sql.contains("STORED AS PARQUET LOCATION 's3://bucket/sf/orders/';"), "{sql}");
}

#[tokio::test]
async fn tables_that_are_there_are_not_mixed() {
    let at = destination();
    generate(options(Format::Csv, 4), &at, |_| ()).await.unwrap();
    let error = generate(options(Format::Csv, 1), &at, |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    generate(Options { overwrite: true, ..options(Format::Csv, 1) }, &at, |_| ()).await.unwrap();
    assert_eq!(objects(&at, "lineitem").await.len(), 1);
}

#[tokio::test]
async fn progress_ends_at_what_was_written() {
    let (rows, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let summary = generate(options(Format::Csv, 2), &destination(), |progress| {
        rows.fetch_max(progress.rows, Ordering::Relaxed);
        bytes.fetch_max(progress.bytes, Ordering::Relaxed);
    })
    .await
    .unwrap();
    assert_eq!(rows.into_inner(), summary.rows.iter().map(|(_, n)| n).sum::<u64>());
    assert!(bytes.into_inner() < summary.bytes, "schema.sql comes last");
}

#[tokio::test]
async fn impossible_wishes_are_refused() {
    for (scale, parts) in [(0.0, 1), (f64::NAN, 1), (1e9, 1), (1.0, 0), (1.0, 1_000_000)] {
        let wish = Options { scale, parts, ..options(Format::Csv, 1) };
        let error = generate(wish, &destination(), |_| ()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// The parts of a table are dealt to the places in turn, and with replicas to the next one, too; together
/// they are the objects of one place.
#[tokio::test]
async fn parts_are_dealt_over_places() {
    let one = destination();
    generate(options(Format::Csv, 4), &one, |_| ()).await.unwrap();
    let want = objects(&one, "orders").await;
    for replicas in [1, 2] {
        let places = ["http://d1:1", "http://d2:1", "http://d3:1"].map(|endpoint| destination_at(Some(endpoint)));
        let summary = generate_over(DataSet::Tpch, options(Format::Csv, 4), &places, replicas, |_| ()).await.unwrap();
        assert_eq!(summary.rows.iter().find(|(table, _)| *table == "region").unwrap().1, 5);
        let mut held = Vec::new();
        for place in &places {
            held.push(objects(place, "orders").await);
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, if replicas == 1 { [2, 1, 1] } else { [3, 3, 2] });
        let mut all: Vec<_> = held.concat();
        all.sort();
        all.dedup();
        assert_eq!(all, want, "{replicas}");
        let text = async |name: &str| {
            let found = places[0].store.get(&Path::from("sf").join(name)).await.unwrap();
            String::from_utf8(found.bytes().await.unwrap().to_vec()).unwrap()
        };
        let sql = text("schema.sql").await;
        let location = match replicas {
            1 => "LOCATION ('s3://bucket/sf/orders/@http://d1:1', 's3://bucket/sf/orders/@http://d2:1'",
            _ => "LOCATION 's3://bucket/sf/orders.manifest.json@http://d1:1'",
        };
        assert!(sql.contains(location), "{sql}");
        if replicas == 2 {
            let manifest = text("orders.manifest.json").await;
            assert!(manifest.contains("[\"s3://bucket@http://d3:1\", \"s3://bucket@http://d1:1\"]"), "{manifest}");
        }
    }
    assert!(generate_over(DataSet::Tpch, options(Format::Csv, 1), &[one], 2, |_| ()).await.is_err());
}
