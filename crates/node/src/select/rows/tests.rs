use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::DataType;

use super::*;
use crate::select::csv::CsvWriter;
use crate::select::json::JsonWriter;
use crate::select::shape::{Shape, Token};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn rules(writer: RowWriter) -> RowRules {
    RowRules { writer, rest: None, record_bytes: 1 << 20 }
}

fn write(batch: &RecordBatch, writer: &RowWriter) -> String {
    let rules = rules(writer.clone());
    let mut out = Vec::new();
    assert!(!Rows::new(batch, &rules).unwrap().fill(&rules, &mut out, usize::MAX).unwrap());
    String::from_utf8(out).unwrap()
}

fn csv() -> CsvWriter {
    CsvWriter::new(",", "\n", "\"", "\"", false)
}

fn shape(token: Token, missing: bool) -> Shape {
    Shape { token, missing }
}

fn sample() -> RecordBatch {
    batch(vec![
        ("i", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef),
        ("d", Arc::new(Decimal128Array::from(vec![1234, -5]).with_precision_and_scale(15, 2).unwrap())),
        ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
        ("b", Arc::new(BooleanArray::from(vec![true, false]))),
        ("day", Arc::new(Date32Array::from(vec![0, 19_000]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![0, 1500]).with_timezone("UTC"))),
        ("s", Arc::new(StringArray::from(vec!["a,\"b\"\n", ""]))),
    ])
}

#[test]
fn csv_quotes_as_needed_or_always() {
    let csv = RowWriter::Csv(csv());
    let expected = "1,12.34,0.5,true,1970-01-01,1970-01-01T00:00:00Z,\"a,\"\"b\"\"\n\"\n\
                    ,-0.05,NaN,false,2022-01-08,1970-01-01T00:00:01.5Z,\n";
    assert_eq!(write(&sample(), &csv), expected);
    let always = RowWriter::Csv(CsvWriter::new("|", "\r\n", "'", "\\", true));
    let small = batch(vec![
        ("i", Arc::new(Int64Array::from(vec![Some(7), None])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["it's \\", "|"]))),
    ]);
    assert_eq!(write(&small, &always), "'7'|'it\\'s \\\\'\r\n''|'|'\r\n");
    // The dashes of a date are the delimiter, so it is quoted.
    let dashes = RowWriter::Csv(CsvWriter::new("-", "\n", "\"", "\"", false));
    let day = batch(vec![("day", Arc::new(Date32Array::from(vec![0])) as ArrayRef)]);
    assert_eq!(write(&day, &dashes), "\"1970-01-01\"\n");
}

#[test]
fn a_record_of_one_empty_field_is_an_empty_line_unless_quoted() {
    let one = batch(vec![("s", Arc::new(StringArray::from(vec![Some(""), None, Some("x")])) as ArrayRef)]);
    assert_eq!(write(&one, &RowWriter::Csv(csv())), "\n\nx\n");
    let always = CsvWriter::new(",", "\n", "\"", "\"", true);
    assert_eq!(write(&one, &RowWriter::Csv(always)), "\"\"\n\"\"\n\"x\"\n");
}

#[test]
fn json_keeps_types_and_tokens() {
    let schema = sample().schema();
    let json = RowWriter::Json(JsonWriter::new("\n", &schema, vec![]));
    let lines = write(&sample(), &json);
    let mut lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let first = lines.next().unwrap();
    assert_eq!(first["i"], 1);
    assert_eq!(first["d"], 12.34);
    assert_eq!(first["s"], "a,\"b\"\n");
    assert_eq!(first["t"], "1970-01-01T00:00:00Z");
    let second = lines.next().unwrap();
    assert!(second["i"].is_null());
    assert_eq!(second["f"], "NaN");

    let tokens = batch(vec![("v", Arc::new(StringArray::from(vec!["17.00", "{\"a\":\n1}", "\"x\""])) as ArrayRef)]);
    let value = RowWriter::Json(JsonWriter::new("\n", &tokens.schema(), vec![shape(Token::Value, true)]));
    assert_eq!(write(&tokens, &value), "{\"v\":17.00}\n{\"v\":{\"a\":1}}\n{\"v\":\"x\"}\n");
    let whole = RowWriter::Json(JsonWriter::new("\n", &tokens.schema(), vec![shape(Token::Record, true)]));
    assert_eq!(write(&tokens, &whole), "{\"_1\":17.00}\n{\"a\":1}\n{\"_1\":\"x\"}\n");
    let csv = csv().with_shapes(vec![shape(Token::Value, true)]);
    assert_eq!(write(&tokens, &RowWriter::Csv(csv)), "17.00\n\"{\"\"a\"\":\n1}\"\nx\n");
}

#[test]
fn what_is_missing_has_no_member() {
    let columns = batch(vec![
        ("a", Arc::new(StringArray::from(vec![Some("1"), None, None])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec![None, Some("null"), None])) as ArrayRef),
        ("c", Arc::new(Int64Array::from(vec![Some(1), None, Some(2)])) as ArrayRef),
    ]);
    let shapes = vec![shape(Token::No, true), shape(Token::Value, true), shape(Token::No, false)];
    let json = RowWriter::Json(JsonWriter::new("\n", &columns.schema(), shapes.clone()));
    assert_eq!(write(&columns, &json), "{\"a\":\"1\",\"c\":1}\n{\"b\":null,\"c\":null}\n{\"c\":2}\n");
    assert_eq!(write(&columns, &RowWriter::Csv(csv().with_shapes(shapes))), "1,,1\n,,\n,,2\n");
    let all = columns.project(&[0, 1]).unwrap().slice(2, 1);
    let missing = vec![shape(Token::No, true), shape(Token::Value, true)];
    assert_eq!(write(&all, &RowWriter::Json(JsonWriter::new("\n", &all.schema(), missing))), "{}\n");
}

#[test]
fn records_of_csv_keep_their_own_number_of_fields() {
    let ragged = batch(vec![
        ("a", Arc::new(StringArray::from(vec![Some("1"), Some("2"), Some("4")])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec![Some(""), None, Some("5")])) as ArrayRef),
        ("rest", Arc::new(StringArray::from(vec![None, None, Some("6,\"7,8\",")])) as ArrayRef),
    ]);
    let shapes = vec![shape(Token::No, true); 3];
    let write = |writer| {
        let rules = RowRules { rest: Some(CsvOptions::default()), ..rules(writer) };
        let mut out = Vec::new();
        assert!(!Rows::new(&ragged, &rules).unwrap().fill(&rules, &mut out, usize::MAX).unwrap());
        String::from_utf8(out).unwrap()
    };
    assert_eq!(write(RowWriter::Csv(csv().with_shapes(shapes.clone()))), "1,\n2\n4,5,6,\"7,8\",\n");
    assert_eq!(
        write(RowWriter::Json(JsonWriter::new("\n", &ragged.schema(), shapes))),
        "{\"a\":\"1\",\"b\":\"\"}\n{\"a\":\"2\"}\n{\"a\":\"4\",\"b\":\"5\",\"_3\":\"6\",\"_4\":\"7,8\",\"_5\":\"\"}\n"
    );
}

#[test]
fn nested_values_are_json() {
    use arrow::array::{Int32Array, Int64Builder, ListArray, MapBuilder, StringBuilder, StructArray};
    use arrow::datatypes::{Field, Int32Type};
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let object = StructArray::from(vec![
        (
            Arc::new(Field::new("x \"y\"", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["a,b", "c"])) as ArrayRef,
        ),
        (Arc::new(Field::new("l", list.data_type().clone(), true)), Arc::new(list.clone()) as ArrayRef),
    ]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    map.keys().append_value("k");
    map.values().append_value(5);
    map.append(true).unwrap();
    map.append(false).unwrap();
    let columns = batch(vec![
        ("o", Arc::new(object) as ArrayRef),
        ("l", Arc::new(list) as ArrayRef),
        ("m", Arc::new(map.finish()) as ArrayRef),
        ("b", Arc::new(BinaryArray::from(vec![b"text".as_slice(), b"\xff\x00"])) as ArrayRef),
        ("i", Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef),
    ]);
    let json = RowWriter::Json(JsonWriter::new("\n", &columns.schema(), vec![]));
    assert_eq!(
        write(&columns, &json),
        "{\"o\":{\"x \\\"y\\\"\":\"a,b\",\"l\":[1,null]},\"l\":[1,null],\"m\":{\"k\":5},\"b\":\"text\",\"i\":7}\n\
         {\"o\":{\"x \\\"y\\\"\":\"c\",\"l\":null},\"l\":null,\"m\":null,\"b\":\"/wA=\",\"i\":8}\n"
    );
    let only = columns.project(&[1, 4]).unwrap();
    assert_eq!(write(&only, &RowWriter::Csv(csv())), "\"[1,null]\",7\n,8\n");
}

#[test]
fn records_of_the_result_are_limited() {
    let long = batch(vec![("s", Arc::new(StringArray::from(vec!["x".repeat(10), "y".repeat(11)])) as ArrayRef)]);
    let rules = RowRules { record_bytes: 11, ..rules(RowWriter::Csv(csv())) };
    let mut out = Vec::new();
    let error = Rows::new(&long, &rules).unwrap().fill(&rules, &mut out, usize::MAX).unwrap_err();
    assert_eq!(error.code(), Some("OverMaxRecordSize"));
    assert_eq!(out, b"xxxxxxxxxx\n");
}

#[test]
fn frames_end_between_rows() {
    let many = batch(vec![("i", Arc::new(Int64Array::from_iter_values(0..1000)) as ArrayRef)]);
    let rules = rules(RowWriter::Csv(csv()));
    let (mut rows, mut all) = (Rows::new(&many, &rules).unwrap(), String::new());
    loop {
        let mut out = Vec::new();
        let more = rows.fill(&rules, &mut out, 100).unwrap();
        assert!(out.ends_with(b"\n") && out.len() < 110);
        all.push_str(std::str::from_utf8(&out).unwrap());
        if !more {
            break;
        }
    }
    assert_eq!(all.lines().count(), 1000);
}
