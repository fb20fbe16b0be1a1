//! The AWS SDK for Python against a node: everyday operations, S3 Select, error codes.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn conformance() {
    let imported = Command::new("python3").args(["-c", "import boto3"]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        writeln!(std::io::stderr(), "SKIPPED: boto3 missing").unwrap();
        return;
    }
    // With one turn for all, a Select whose client went away must give it back or the next one waits in vain.
    let world = World::with(|limits| limits.selects = 1).await;
    let table = world.dir.path().join("table.parquet");
    write_table(&table);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boto3_conformance.py");
    let keys = world.node.credentials();
    let mut run = Command::new("python3");
    run.arg(script)
        .env("PUSHDOWNDB_ENDPOINT", world.node.endpoint())
        .env("AWS_ACCESS_KEY_ID", &keys.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PUSHDOWNDB_PARQUET", &table);
    let output = tokio::task::spawn_blocking(move || run.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    assert!(world.node.counters().bytes_scanned > 0);
}

/// 1000 rows in row groups of 250; every tenth name is NULL.
fn write_table(path: &Path) {
    let ids = Int64Array::from_iter_values(0..1000);
    let names: StringArray = (0..1000).map(|i| (i % 10 != 0).then(|| format!("name {i}"))).collect();
    let prices = Decimal128Array::from_iter_values((0..1000).map(|i| i * 101)).with_precision_and_scale(15, 2).unwrap();
    let days = Date32Array::from_iter_values((0..1000).map(|i| 8036 + i));
    let ratios = Float64Array::from_iter_values((0..1000).map(|i| f64::from(i) / 3.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(ids)),
        ("name", Arc::new(names)),
        ("price", Arc::new(prices)),
        ("day", Arc::new(days)),
        ("ratio", Arc::new(ratios)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(250)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}
