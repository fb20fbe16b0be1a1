//! Tests that inferred definitions can be read by the scan.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use pushdowndb_contract::{AggregateCall, AggregateFunction, Expr, Fragment, Output, Result};
use pushdowndb_scan::{ScanCounters, ScanOptions, scan};

use super::{DataObject, Declared, TableDefinition, TableLocation, TableOptions};
use crate::access::Access;

/// A folder `t/` of objects and its table.
async fn table(objects: &[(&str, &str)], options: &[(&str, &str)]) -> (InMemory, TableDefinition) {
    let store = InMemory::new();
    for (name, text) in objects {
        let path = Path::from(format!("t/{name}"));
        store.put(&path, PutPayload::from(text.to_string())).await.unwrap();
    }
    let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
    let options = TableOptions::parse("", options.iter().copied()).unwrap();
    let (table, _) = TableDefinition::resolve(&store, &store, location, options, Declared::default()).await.unwrap();
    (store, table)
}

async fn read(
    store: &InMemory,
    table: &TableDefinition,
    object: &DataObject,
    output: Option<Output>,
) -> Result<Vec<RecordBatch>> {
    let mut fragment = Fragment::all(table.format_of(object), Arc::clone(&table.file_schema));
    if let Some(output) = output {
        fragment.output = output;
    }
    if let Some(columns) = &object.columns {
        fragment = columns.adapt(&fragment);
    }
    let bytes = store.get(&object.path).await.unwrap().bytes().await.unwrap();
    let reader = pushdowndb_scan::InMemory::new(table.location.address(&object.path), bytes);
    let options = ScanOptions::default();
    scan(Arc::new(fragment), Arc::new(reader), None, options, Arc::new(ScanCounters::default()))?.try_collect().await
}

/// All rows of all objects, one line each.
async fn rows(store: &InMemory, table: &TableDefinition) -> Vec<String> {
    let mut batches = Vec::new();
    for object in table.objects(store).await.unwrap() {
        batches.extend(read(store, table, &object, None).await.unwrap());
    }
    let shown = pretty_format_batches(&batches).unwrap().to_string();
    let cells = |line: &str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",");
    shown.lines().filter(|line| line.starts_with('|')).skip(1).map(cells).collect()
}

#[tokio::test]
async fn every_inferred_type_decodes() {
    let text = "\u{feff}b;i;f;d;t;z;n;s\r\n\
                TRUE;7;1.;2024-02-29;2024-01-01 00:00:01;2024-01-01T00:00:00+01:00;2024-01-01 00:00:00.123456789;x\r\n\
                false;-9223372036854775808;NaN;1999-01-01;2024-01-01;2024-01-01 00:00:00.5Z;2024-01-01;\"a;b\"\r\n\
                ;;;;;;;\r\n";
    let (store, table) = table(&[("a.csv", text)], &[]).await;
    let types: Vec<String> = table.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types[..4], ["Boolean", "Int64", "Float64", "Date32"]);
    assert!(types[4..7].iter().all(|t| t.starts_with("Timestamp")), "{types:?}");
    let found = rows(&store, &table).await;
    assert_eq!(
        found[0],
        "true,7,1.0,2024-02-29,2024-01-01T00:00:01,2023-12-31T23:00:00Z,2024-01-01T00:00:00.123456789,x"
    );
    assert!(found[1].starts_with("false,-9223372036854775808,NaN,1999-01-01,2024-01-01T00:00:00,"), "{found:?}");
    assert!(found[1].ends_with(",a;b"), "{found:?}");
    assert_eq!(found[2], ",,,,,,,");
}

#[tokio::test]
async fn lines_in_quotes_of_any_object_are_minded() {
    let objects = [("1.csv", "id,text\n1,a\n"), ("2.csv", "id,text\n2,\"b\nc\"\n")];
    let (store, table) = table(&objects, &[]).await;
    let batches = read(&store, &table, &table.objects(&store).await.unwrap()[1], None).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test]
async fn columns_by_name_land_where_they_belong() {
    let objects = [("1.csv", "id,name\n1,a\n2,b\n"), ("2.csv", "note,Id\nx,3\n"), ("3.csv", "name,id\nc,4\n")];
    let (store, table) = table(&objects, &[("union_by_name", "true")]).await;
    // Names that differ in case are one column.
    assert_eq!(rows(&store, &table).await, ["1,a,", "2,b,", "3,,x", "4,c,"]);

    let count = |column| AggregateCall {
        function: AggregateFunction::Count,
        argument: Some(Expr::Column(column)),
        name: "n".into(),
    };
    let object = table.objects(&store).await.unwrap().remove(1);
    let counts = Output::scalar(vec![count(0), count(2)]);
    let batches = read(&store, &table, &object, Some(counts)).await.unwrap();
    assert!(pretty_format_batches(&batches).unwrap().to_string().contains("| 1 | 1 |"));
}

#[tokio::test]
async fn json_of_every_shape_decodes() {
    let lines = "{\"id\":1,\"o\":{\"x\":1.5},\"l\":[1,2]}\n{\"id\":2,\"s\":\"a\"}\n";
    let (store, inferred) = table(&[("a.json", lines)], &[]).await;
    assert_eq!(rows(&store, &inferred).await, ["1,{x: 1.5},[1, 2],", "2,,,a"]);
    let array = "[\n  {\"id\": 1},\n  {\"id\": 2, \"s\": \"a\"}\n]\n";
    let (store, inferred) = table(&[("a.json", array)], &[]).await;
    assert_eq!(rows(&store, &inferred).await, ["1,", "2,a"]);
}

#[tokio::test]
async fn what_comes_after_the_sample_is_not_lost() {
    let pad = "x".repeat(3_000);
    for (early, late, named) in [
        ("\"a\":1", "\"a\":1,\"late\":2", "the field \"late\""),
        ("\"o\":{\"x\":1}", "\"o\":{\"x\":1,\"late\":2}", "the field \"o.late\""),
        ("\"o\":{\"x\":1}", "\"o\":{\"x\":2.5}", "field \"o.x\""),
        ("\"o\":{\"x\":1.5}", "\"o\":{\"x\":9007199254740993}", "field \"o.x\""),
        ("\"a\":1.5", "\"a\":9007199254740993", "field \"a\""),
        ("\"a\":1", "\"a\":2.5", "field \"a\""),
    ] {
        let line = |fields: &str| format!("{{{fields},\"pad\":\"{pad}\"}}\n");
        let text = format!("{}{}", line(early).repeat(400), line(late));
        let (store, table) = table(&[("a.json", &text)], &[]).await;
        let object = table.objects(&store).await.unwrap().remove(0);
        let said = read(&store, &table, &object, None).await.unwrap_err().to_string();
        assert!(said.contains(named) && said.contains("CREATE EXTERNAL TABLE"), "{late}: {said}");
        // Other columns can still be read.
        let count =
            AggregateCall { function: AggregateFunction::Count, argument: Some(Expr::Column(1)), name: "n".into() };
        let batches = read(&store, &table, &object, Some(Output::scalar(vec![count]))).await.unwrap();
        assert!(pretty_format_batches(&batches).unwrap().to_string().contains("| 401 |"));
    }
}

#[tokio::test]
async fn carriage_returns_alone_end_lines() {
    let (store, table) = table(&[("a.csv", "id,name\r1,a\r2,b\r")], &[]).await;
    assert_eq!(rows(&store, &table).await, ["1,a", "2,b"]);
}

#[tokio::test]
async fn a_header_alone_has_no_rows() {
    let (store, table) = table(&[("a.csv", "id,name\n")], &[]).await;
    assert!(rows(&store, &table).await.is_empty());
}
