//! Parquet in every codec and encoding, and columns inside columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use pushdowndb_contract::{CompareOp, Expr, Format, Fragment};
use pushdowndb_scan::{InMemory, ScanOptions};

use crate::support::*;

fn write(batch: &RecordBatch, properties: WriterProperties) -> Bytes {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("closed").into()
}

fn field(path: &str, data_type: DataType) -> Field {
    Field::new(path, data_type, true).with_metadata(HashMap::from([("path".to_owned(), path.to_owned())]))
}

fn fragment(fields: Vec<Field>) -> Fragment {
    Fragment::all(Format::Parquet, Arc::new(Schema::new(fields)))
}

#[tokio::test]
async fn every_codec_and_encoding_is_read() {
    let n = 3000;
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("i", Arc::new(Int32Array::from_iter((0..n).map(|i| (i % 5 > 0).then_some(i * 3)))) as ArrayRef, true),
        ("t", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("text {}", i % 700)))), true),
        ("f", Arc::new(Float64Array::from_iter_values((0..n).map(|i| f64::from(i) / 7.0))), true),
        ("b", Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(i % 3 == 0)))), true),
    ])
    .expect("a batch");
    let all = fragment(batch.schema().fields().iter().map(|f| f.as_ref().clone()).collect());
    let some =
        Fragment { predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(8_000))), ..all.clone() };
    let expected = rows(&batch);
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let encodings = [
        ("i", Encoding::DELTA_BINARY_PACKED),
        ("t", Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ("t", Encoding::DELTA_BYTE_ARRAY),
        ("f", Encoding::BYTE_STREAM_SPLIT),
        ("i", Encoding::BYTE_STREAM_SPLIT),
        ("b", Encoding::RLE),
        ("i", Encoding::PLAIN),
    ];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for codec in codecs {
            let properties = WriterProperties::builder().set_writer_version(version).set_compression(codec).build();
            let bytes = write(&batch, properties);
            assert_eq!(rows(&run(&all, bytes.clone()).await), expected, "{codec}");
            assert_eq!(run(&some, bytes).await.num_rows(), 267, "{codec}");
        }
        for (column, encoding) in encodings {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(false)
                .set_column_encoding(column.into(), encoding)
                .build();
            assert_eq!(rows(&run(&all, write(&batch, properties)).await), expected, "{encoding}");
        }
    }
}

/// Rows of a struct, a list of structs and a map; the last row is NULL throughout.
fn nested() -> RecordBatch {
    let inner = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("Y", DataType::Utf8, true)]);
    let point = |xs: Vec<Option<i64>>, ys: Vec<Option<&str>>, valid: Option<Vec<bool>>| {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(xs)), Arc::new(StringArray::from(ys))];
        StructArray::new(inner.clone(), columns, valid.map(Into::into))
    };
    let s = point(
        vec![Some(1), None, Some(3), Some(9)],
        vec![Some("a"), Some("b"), None, Some("z")],
        Some(vec![true, true, true, false]),
    );
    let elements = point(vec![Some(10), Some(20), Some(30)], vec![None, Some("q"), Some("r")], None);
    let item = Arc::new(Field::new("item", DataType::Struct(inner.clone()), true));
    let l = ListArray::new(
        item,
        OffsetBuffer::from_lengths([2, 0, 1, 0]),
        Arc::new(elements),
        Some(vec![true, true, true, false].into()),
    );
    let mut m = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for (entries, valid) in [(vec![("k", 5), ("j", 6)], true), (vec![], true), (vec![("k", 7)], true), (vec![], false)]
    {
        for (key, value) in entries {
            m.keys().append_value(key);
            m.values().append_value(value);
        }
        m.append(valid).expect("appended");
    }
    let g = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(2)]),
        Some(vec![]),
        None,
        None,
    ]);
    RecordBatch::try_from_iter_with_nullable([
        ("s", Arc::new(s) as ArrayRef, true),
        ("l", Arc::new(l), true),
        ("m", Arc::new(m.finish()), true),
        ("g", Arc::new(g), true),
        ("plain", Arc::new(Int64Array::from(vec![1, 2, 3, 4])), true),
    ])
    .expect("a batch")
}

#[tokio::test]
async fn values_inside_values_are_columns() {
    let bytes = write(&nested(), WriterProperties::builder().build());
    let paths = fragment(vec![
        field("\"s\".\"x\"", DataType::Int64),
        field("s.y", DataType::Utf8),
        field("\"l\"[0].\"x\"", DataType::Int64),
        field("\"l\"[1].\"Y\"", DataType::Utf8),
        field("\"m\".\"k\"", DataType::Int64),
        field("\"g\"[2]", DataType::Int64),
        Field::new("plain", DataType::Int64, true),
    ]);
    let expected = [
        "1|a|10|q|5|2|1",
        "NULL|b|NULL|NULL|NULL|NULL|2",
        "3|NULL|30|NULL|7|NULL|3",
        "NULL|NULL|NULL|NULL|NULL|NULL|4",
    ];
    assert_eq!(rows(&run(&paths, bytes.clone()).await), expected);
    // Behind a condition on a member of the struct, whichever way it is evaluated.
    for (column, value, expected) in [(0, 3, expected[2]), (2, 10, expected[0]), (6, 2, expected[1])] {
        let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::int(value)));
        assert_eq!(rows(&run(&Fragment { predicate, ..paths.clone() }, bytes.clone()).await), [expected]);
    }
    let whole = fragment(nested().schema().fields().iter().map(|f| f.as_ref().clone()).collect());
    assert_eq!(rows(&run(&whole, bytes.clone()).await), rows(&nested()));
    let bad = error(&fragment(vec![field("\"s\".\"nothing\"", DataType::Int64)]), bytes.clone()).await;
    assert!(bad.contains("has no member \"nothing\""), "{bad}");
    let bad = error(&fragment(vec![field("\"s\"[0]", DataType::Int64)]), bytes).await;
    assert!(bad.contains("has no elements"), "{bad}");
}

#[tokio::test]
async fn odd_types_fit_what_they_are_declared() {
    let uuid = FixedSizeBinaryArray::try_from_iter([[0u8; 16], *b"0123456789abcdef"].into_iter()).expect("uuids");
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("u", Arc::new(uuid) as ArrayRef, true),
        ("b", Arc::new(BinaryArray::from(vec![b"text".as_slice(), b"more"])), true),
        ("big", Arc::new(UInt64Array::from(vec![u64::MAX, 0])), true),
    ])
    .expect("a batch");
    let bytes = write(&batch, WriterProperties::builder().build());
    let declared = fragment(vec![
        Field::new("u", DataType::Utf8, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("big", DataType::UInt64, true),
    ]);
    assert_eq!(
        rows(&run(&declared, bytes).await),
        [
            "00000000-0000-0000-0000-000000000000|text|18446744073709551615",
            "30313233-3435-3637-3839-616263646566|more|0"
        ]
    );
}

#[tokio::test]
async fn row_groups_that_are_too_large_are_refused() {
    let bytes = write(&nested(), WriterProperties::builder().build());
    let fragment = fragment(vec![Field::new("plain", DataType::Int64, true)]);
    let options = |row_group_bytes| ScanOptions { row_group_bytes, ..ScanOptions::default() };
    let read = try_run_as(&fragment, InMemory::new("k", bytes.clone()), None, options(10)).await;
    assert_eq!(read.map(|_| ()).unwrap_err().code(), Some("OverMaxParquetBlockSize"));
    assert!(try_run_as(&fragment, InMemory::new("k", bytes), None, options(100_000)).await.is_ok());
}
