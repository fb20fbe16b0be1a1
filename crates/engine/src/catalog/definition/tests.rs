//! Tests of table definitions: objects in a store and a declaration give a table's columns.

use arrow::datatypes::{DataType, Field};
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};
use pushdowndb_contract::Compression;
use pushdowndb_contract::{ErrorKind, Ragged};

use super::*;

use crate::access::Access;

async fn store(objects: &[(&str, &[u8])]) -> InMemory {
    let store = InMemory::new();
    for (path, bytes) in objects {
        store.put(&Path::parse(path).unwrap(), PutPayload::from(bytes.to_vec())).await.unwrap();
    }
    store
}

async fn text_store(objects: &[(&str, &str)]) -> InMemory {
    let objects: Vec<(&str, &[u8])> = objects.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    store(&objects).await
}

async fn resolve(store: &InMemory, location: &str, options: &[(&str, &str)]) -> Result<TableDefinition> {
    let location = TableLocation::parse(location, &Access::everything())?;
    let options = TableOptions::parse("", options.iter().copied())?;
    // Boxed to check that the future is `Send`, which DataFusion's traits require.
    TableDefinition::resolve(store, store, location, options, Declared::default()).boxed().await.map(|(table, _)| table)
}

fn columns(table: &TableDefinition) -> Vec<String> {
    table.schema().fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
}

fn csv(table: &TableDefinition) -> &CsvOptions {
    match &table.format {
        Format::Csv(csv) => csv,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn csv_is_inferred() {
    let text = "\u{feff}id;name;price;day\r\n1;\"a;b\";1.5;2024-01-31\r\n2;;;\r\n";
    let store = text_store(&[("t/a.csv", text)]).await;
    let table = resolve(&store, "s3://b/t/a.csv", &[]).await.unwrap();
    assert_eq!(columns(&table), ["id Int64", "name Utf8", "price Float64", "day Date32"]);
    assert_eq!((csv(&table).delimiter, csv(&table).header), (b';', true));
    assert!(table.schema().fields().iter().all(|field| field.is_nullable()));
    // The same by its folder, and by a glob.
    assert_eq!(columns(&resolve(&store, "s3://b/t/", &[]).await.unwrap()).len(), 4);
    assert_eq!(columns(&resolve(&store, "s3://b/*/*.csv", &[]).await.unwrap()).len(), 4);
}

#[tokio::test]
async fn options_outrank_the_sniffer() {
    let store = text_store(&[("a.csv", "x,y\n1,NA\n")]).await;
    let options = [("has_header", "false"), ("null_value", "NA"), ("truncated_rows", "true")];
    let table = resolve(&store, "s3://b/a.csv", &options).await.unwrap();
    assert_eq!(columns(&table), ["column_1 Utf8", "column_2 Utf8"]);
    assert_eq!(csv(&table).ragged, Ragged::Lenient);
    let table = resolve(&store, "s3://b/a.csv", &[("delimiter", ";")]).await.unwrap();
    assert_eq!(columns(&table), ["x,y Utf8"]);
}

#[tokio::test]
async fn compressed_text_is_inferred() {
    use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
    let mut text = String::from("id,name\n");
    (0..200_000).for_each(|n| text.push_str(&format!("{n},name {}\n", n * 7919 % 100_003)));
    for (name, codec) in [("a.csv.gz", FileCompressionType::GZIP), ("a.csv.zst", FileCompressionType::ZSTD)] {
        let plain = stream::iter([Ok(bytes::Bytes::from(text.clone()))]).boxed();
        let packed: Vec<bytes::Bytes> = codec.convert_to_compress_stream(plain).unwrap().try_collect().await.unwrap();
        let packed = packed.concat();
        let store = store(&[(name, &packed), ("b.csv", b"id,name\n1,x\n")]).await;
        let table = resolve(&store, &format!("s3://b/{name}"), &[]).await.unwrap();
        assert_eq!(columns(&table), ["id Int64", "name Utf8"]);
        assert_ne!(table.format.compression(), Compression::None);
        // Objects of one table may be compressed differently.
        let table = resolve(&store, "s3://b/*", &[]).await.unwrap();
        let objects = table.objects(&store).await.unwrap();
        assert_ne!(table.format_of(&objects[0]).compression(), table.format_of(&objects[1]).compression());
        let error = resolve(&store, "s3://b/b.csv", &[("compression", "gzip")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("s3://b/b.csv: is not gzip"), "{error}");
    }
}

#[tokio::test]
async fn json_is_inferred() {
    let store = text_store(&[("a.json", "{\"id\":1,\"x\":null}\n{\"id\":2,\"x\":\"a\",\"n\":[1]}\n")]).await;
    let table = resolve(&store, "s3://b/a.json", &[]).await.unwrap();
    assert_eq!(columns(&table)[..2], ["id Int64", "x Utf8"]);
    assert_eq!(table.schema().fields().len(), 3);
}

fn parquet(schema: Schema) -> Vec<u8> {
    let schema = Arc::new(schema);
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, Arc::clone(&schema), None).unwrap();
    writer.write(&arrow::array::RecordBatch::new_empty(schema)).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn parquet_is_read_from_its_footer() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let a = parquet(Schema::new(vec![field("id", DataType::Int32), field("d", DataType::Decimal128(15, 2))]));
    let b = parquet(Schema::new(vec![field("id", DataType::Int64), field("e", DataType::Utf8)]));
    let store = store(&[("a.parquet", &a), ("b.parquet", &b), ("cut.parquet", &a[..a.len() - 5])]).await;
    let table = resolve(&store, "s3://b/a.parquet", &[]).await.unwrap();
    assert_eq!(columns(&table), ["id Int32", "d Decimal128(15, 2)"]);

    let error = resolve(&store, "s3://b/?.parquet", &[("union_by_name", "false")]).await.unwrap_err().to_string();
    assert!(error.contains("the second has no column 'd'"), "{error}");
    for options in [&[][..], &[("union_by_name", "true")]] {
        let table = resolve(&store, "s3://b/?.parquet", options).await.unwrap();
        assert_eq!(columns(&table), ["id Int64", "d Decimal128(15, 2)", "e Utf8"]);
        // The scan's schema marks the columns that differ; the schema of queries does not.
        assert!(table.file_schema.fields().iter().all(|field| field.metadata().contains_key(MIXED)));
        assert!(table.schema().fields().iter().all(|field| field.metadata().is_empty()));
    }

    let error = resolve(&store, "s3://b/cut.parquet", &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("s3://b/cut.parquet: is no complete Parquet file: it does not end as one"),
        "{error}"
    );
}

#[tokio::test]
async fn columns_too_deep_to_build_are_refused() {
    // A schema of 100,000 nested columns: each is named "a" and has one child.
    let deep: Vec<u8> = [[0x48, 0x01, b'a', 0x15, 0x02, 0x00]; 100_000].concat();
    let footer =
        [&[0x15, 0x02, 0x19, 0xfc, 0xa1, 0x8d, 0x06], deep.as_slice(), &[0x15, 0x02, 0x38, 1, b'b', 0, 0]].concat();
    let file = [footer.as_slice(), &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
    let error = resolve(&store(&[("deep.parquet", &file)]).await, "s3://b/deep.parquet", &[]).await.unwrap_err();
    assert!(error.to_string().contains("nested deeper than"), "{error}");
}

#[tokio::test]
async fn drift_is_an_error_or_a_union() {
    let store = text_store(&[
        ("t/1.csv", "id,name,price\n1,a,1\n"),
        ("t/2.csv", "price,id,note\n2.5,2,x\n"),
        ("t/3.csv", "id,name,price\n3,c,3\n"),
    ])
    .await;
    let error = resolve(&store, "s3://b/t/", &[("union_by_name", "false")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("s3://b/t/1.csv and s3://b/t/2.csv differ") && text.contains("union_by_name"), "{text}");

    for options in [&[][..], &[("union_by_name", "true")]] {
        let table = resolve(&store, "s3://b/t/", options).await.unwrap();
        assert_eq!(columns(&table), ["id Int64", "name Utf8", "price Float64", "note Utf8"]);
        let objects = table.objects(&store).boxed().await.unwrap();
        let own = objects[1].columns.as_ref().unwrap();
        let names: Vec<_> = own.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["price", "id", "note"]);
        assert_eq!(own.schema().field(0).data_type(), &DataType::Float64);
        // These lack the last column.
        assert!(objects[0].columns.is_some());
    }
}

#[tokio::test]
async fn empty_objects_and_headers_alone() {
    let store =
        text_store(&[("empty.csv", ""), ("header.csv", "id,name\n"), ("blank.csv", "\n\n"), ("e.json", "")]).await;
    for name in ["empty.csv", "blank.csv", "e.json"] {
        let error = resolve(&store, &format!("s3://b/{name}"), &[]).await.unwrap_err().to_string();
        assert!(error.contains(&format!("s3://b/{name}: is empty: no schema can be inferred")), "{error}");
    }
    let table = resolve(&store, "s3://b/header.csv", &[]).await.unwrap();
    assert_eq!(columns(&table), ["id Utf8", "name Utf8"]);
    assert!(csv(&table).header);
}

#[tokio::test]
async fn partitions_are_columns() {
    let store = text_store(&[("t/y=1/a.csv", "id\n1\n"), ("t/y=2/a.csv", "id\n2\n")]).await;
    let table = resolve(&store, "s3://b/t/", &[]).await.unwrap();
    assert_eq!(columns(&table), ["id Int64", "y Int64"]);
    assert_eq!(table.file_schema.fields().len(), 1);
    let objects = table.objects(&store).await.unwrap();
    assert_eq!(objects[1].partition_values, [datafusion::common::ScalarValue::Int64(Some(2))]);
    let table = resolve(&store, "s3://b/t/", &[("hive_partitioning", "false")]).await.unwrap();
    assert_eq!(columns(&table), ["id Int64"]);
    // A glob leaves the same part of the path open.
    assert_eq!(columns(&resolve(&store, "s3://b/t/y=*/*.csv", &[]).await.unwrap()), ["id Int64", "y Int64"]);

    let twice = text_store(&[("t/id=1/a.csv", "id\n1\n")]).await;
    let error = resolve(&twice, "s3://b/t/", &[]).await.unwrap_err().to_string();
    assert!(error.contains("both in the objects and in their path"), "{error}");
}

#[tokio::test]
async fn declared_tables_cost_no_request() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let declared = Declared {
        columns: Some(Arc::new(Schema::new(vec![field("id", DataType::Int64), field("y", DataType::Utf8)]))),
        partitions: vec!["y".into()],
    };
    let nothing = InMemory::new();
    let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
    let options = TableOptions::parse("CSV", [("format.delimiter", "|")]).unwrap();
    let (table, _) = TableDefinition::resolve(&nothing, &nothing, location, options, declared.clone()).await.unwrap();
    assert_eq!(columns(&table), ["id Int64", "y Utf8"]);
    assert_eq!(table.file_schema.fields().len(), 1);
    assert_eq!(table.objects(&nothing).await.unwrap_err().kind(), ErrorKind::NotFound);

    let store = text_store(&[("t/y=01/a.csv", "1\n")]).await;
    let objects = table.objects(&store).await.unwrap();
    assert_eq!(objects[0].partition_values, [datafusion::common::ScalarValue::Utf8(Some("01".into()))]);

    // PARTITIONED BY a column without a type takes it from the paths.
    let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
    let columns_only = Schema::new(vec![field("id", DataType::Int64)]);
    let declared = Declared { columns: Some(Arc::new(columns_only)), ..declared };
    let options = TableOptions::parse("CSV", [("has_header", "false")]).unwrap();
    let (table, _) = TableDefinition::resolve(&store, &store, location, options, declared).await.unwrap();
    assert_eq!(columns(&table), ["id Int64", "y Utf8"]);
}

#[tokio::test]
async fn formats_are_told_by_names() {
    let store =
        text_store(&[("t/a.csv", "a\n1\n"), ("t/b.json", "{}"), ("u/part-0", "1\n"), ("u/schema.sql", "x")]).await;
    let error = resolve(&store, "s3://b/t/", &[]).await.unwrap_err().to_string();
    assert!(error.contains("CSV (s3://b/t/a.csv) and JSON (s3://b/t/b.json)"), "{error}");
    let error = resolve(&store, "s3://b/u/", &[]).await.unwrap_err().to_string();
    assert!(error.contains("s3://b/u/part-0 does not tell its format") && error.contains("STORED AS"), "{error}");
    assert_eq!(resolve(&store, "s3://b/none/", &[]).await.unwrap_err().kind(), ErrorKind::NotFound);
}
