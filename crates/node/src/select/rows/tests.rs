use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, TimestampMillisecondArray};

use super::*;
use crate::select::Token;
use crate::select::csv::CsvWriter;
use crate::select::json::JsonWriter;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn write(batch: &RecordBatch, writer: &RowWriter) -> String {
    let mut out = Vec::new();
    assert!(!Rows::new(batch, writer).unwrap().fill(writer, &mut out, usize::MAX));
    String::from_utf8(out).unwrap()
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
    let csv = RowWriter::Csv(CsvWriter::new(",", "\n", b'"', b'"', false));
    let expected = "1,12.34,0.5,true,1970-01-01,1970-01-01T00:00:00Z,\"a,\"\"b\"\"\n\"\n\
                    ,-0.05,NaN,false,2022-01-08,1970-01-01T00:00:01.5Z,\n";
    assert_eq!(write(&sample(), &csv), expected);
    let always = RowWriter::Csv(CsvWriter::new("|", "\r\n", b'\'', b'\\', true));
    let small = batch(vec![
        ("i", Arc::new(Int64Array::from(vec![Some(7), None])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["it's \\", "|"]))),
    ]);
    assert_eq!(write(&small, &always), "'7'|'it\\'s \\\\'\r\n''|'|'\r\n");
    // A date is quoted where its dashes delimit.
    let dashes = RowWriter::Csv(CsvWriter::new("-", "\n", b'"', b'"', false));
    let day = batch(vec![("day", Arc::new(Date32Array::from(vec![0])) as ArrayRef)]);
    assert_eq!(write(&day, &dashes), "\"1970-01-01\"\n");
}

#[test]
fn a_record_of_one_empty_field_is_no_empty_line() {
    let csv = RowWriter::Csv(CsvWriter::new(",", "\n", b'"', b'"', false));
    let one = batch(vec![("s", Arc::new(StringArray::from(vec![Some(""), None, Some("x")])) as ArrayRef)]);
    assert_eq!(write(&one, &csv), "\"\"\n\"\"\nx\n");
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
    let value = RowWriter::Json(JsonWriter::new("\n", &tokens.schema(), vec![Token::Value]));
    assert_eq!(write(&tokens, &value), "{\"v\":17.00}\n{\"v\":{\"a\":1}}\n{\"v\":\"x\"}\n");
    let whole = RowWriter::Json(JsonWriter::new("\n", &tokens.schema(), vec![Token::Record]));
    assert_eq!(write(&tokens, &whole), "17.00\n{\"a\":1}\n\"x\"\n");
    let csv = CsvWriter::new(",", "\n", b'"', b'"', false).with_tokens(vec![Token::Value]);
    assert_eq!(write(&tokens, &RowWriter::Csv(csv)), "17.00\n\"{\"\"a\"\":\n1}\"\nx\n");
}

#[test]
fn frames_end_between_rows() {
    let many = batch(vec![("i", Arc::new(Int64Array::from_iter_values(0..1000)) as ArrayRef)]);
    let csv = RowWriter::Csv(CsvWriter::new(",", "\n", b'"', b'"', false));
    let (mut rows, mut all) = (Rows::new(&many, &csv).unwrap(), String::new());
    loop {
        let mut out = Vec::new();
        let more = rows.fill(&csv, &mut out, 100);
        assert!(out.ends_with(b"\n") && out.len() < 110);
        all.push_str(std::str::from_utf8(&out).unwrap());
        if !more {
            break;
        }
    }
    assert_eq!(all.lines().count(), 1000);
}
