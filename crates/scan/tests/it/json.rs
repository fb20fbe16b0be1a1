//! JSON: typed by name, as raw tokens, as lines and as documents.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use pushdowndb_contract::{CompareOp, Expr, Format, Fragment, JsonOptions, JsonShape, NamedExpr, Output};
use pushdowndb_scan::InMemory;

use crate::support::*;

fn json(schema: &SchemaRef, options: JsonOptions) -> Fragment {
    Fragment::all(Format::Json(options), Arc::clone(schema))
}

fn lines() -> JsonOptions {
    JsonOptions::default()
}

fn document() -> JsonOptions {
    JsonOptions { shape: JsonShape::Document, ..JsonOptions::default() }
}

#[tokio::test]
async fn typed_columns_read_as_arrow_reads_them() {
    let columns = schema(&[
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("d", DataType::Decimal128(15, 2)),
        ("t", DataType::Utf8),
        ("v", DataType::Utf8View),
        ("day", DataType::Date32),
        ("b", DataType::Boolean),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ]);
    let text = r#"{"i":1,"f":1.5,"d":17.00,"t":"aé\n","v":"view","day":"1994-01-01","b":true,"ts":"2020-01-02T03:04:05"}
{"ts":null,"d":"0.10","extra":{"x":[1,2]},"i":-5}

{}
"#;
    let ours = run(&json(&columns, lines()), text).await;
    let reader = arrow::json::ReaderBuilder::new(Arc::clone(&columns)).build(text.as_bytes()).expect("a reader");
    let theirs: Vec<_> = reader.map(|b| b.expect("a batch")).collect();
    assert_eq!(ours, concat_batches(&columns, &theirs).expect("one batch"));
    for piece in [1, 2, 3, 7, 50] {
        let reader = InMemory::new("k", text).with_piece_bytes(piece);
        assert_eq!(try_run_with(&json(&columns, lines()), reader, None, 2).await.expect("rows").0, ours);
    }
}

#[tokio::test]
async fn decimals_are_exact_and_scalars_are_text() {
    let columns = schema(&[("d", DataType::Decimal128(20, 2)), ("t", DataType::Utf8)]);
    let text = "{\"d\":12345678901234567.89,\"t\":17.00}\n{\"d\":0.005,\"t\":true}\n{\"d\":1e2,\"t\":null}\n";
    let batch = run(&json(&columns, lines()), text).await;
    assert_eq!(rows(&batch), ["12345678901234567.89|17.00", "0.01|true", "100.00|NULL"]);
}

/// What a sample did not show is an error, where it would be lost; of columns that were declared it
/// is left out.
#[tokio::test]
async fn inferred_columns_lose_nothing() {
    let columns = schema(&[("a", DataType::Int64), ("f", DataType::Float64)]);
    let inferred = JsonOptions { inferred: true, ..lines() };
    let all = json(&columns, inferred.clone());
    let only = |column: usize, format: JsonOptions| {
        let name = columns.field(column).name().clone();
        Fragment {
            output: Output::Rows(vec![NamedExpr { expr: Expr::Column(column), name }]),
            ..json(&columns, format)
        }
    };
    let many = "{\"a\":1,\"f\":1.5}\n".repeat(3_000);
    let late = format!("{many}{{\"a\":2,\"f\":2,\"late\":3}}\n");
    let said = error(&all, late.clone()).await;
    let at = many.len();
    assert!(said.contains(&format!("byte {at}")) && said.contains("the field \"late\" is in none"), "{said}");
    assert_eq!(run(&json(&columns, lines()), late.clone()).await.num_rows(), 3_001);
    assert_eq!(run(&only(0, inferred.clone()), late.clone()).await.num_rows(), 3_001);
    // A record that does not pass loses nothing.
    let passing =
        Fragment { predicate: Some(Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::int(2))), ..all.clone() };
    assert_eq!(run(&passing, late).await.num_rows(), 3_000);

    for (record, parsed) in
        [("{\"f\":9007199254740993}", "plain"), ("{\"f\":9007199254740993,\"a\":null,\"x\":\"\\n\"}", "exact")]
    {
        let long = format!("{many}{record}\n");
        let said = error(&only(1, inferred.clone()), long.clone()).await;
        assert!(said.contains("9007199254740993") && said.contains("\"f\""), "{parsed}: {said}");
        assert_eq!(run(&only(1, lines()), long).await.num_rows(), 3_001, "{parsed}");
    }
}

/// `17.0` is an integer and `2.5` is none: it is not cut.
#[tokio::test]
async fn integers_are_not_cut() {
    let columns = schema(&[("i", DataType::Int64), ("s", DataType::Int16), ("u", DataType::UInt64)]);
    let text = "{\"i\":17.0,\"s\":1e3,\"u\":18446744073709551615}\n{\"i\":\"-5\",\"s\":-0,\"u\":null}\n";
    assert_eq!(rows(&run(&json(&columns, lines()), text).await), ["17|1000|18446744073709551615", "-5|0|NULL"]);
    for (record, named) in [
        ("{\"i\":2.5}", "2.5"),
        ("{\"i\":1e30}", "1000000000000000000000000000000"),
        ("{\"s\":40000}", "40000"),
        ("{\"u\":-1}", "-1"),
        ("{\"i\":9223372036854775808}", "9223372036854775808"),
    ] {
        let said = error(&json(&columns, lines()), record).await;
        assert!(said.contains(&format!("cannot parse '{named}")), "{record}: {said}");
    }
}

/// Where most records pass, their columns are found at once; what is wrong with one that does not
/// pass still is not seen.
#[tokio::test]
async fn only_records_that_pass_can_be_wrong() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Int64)]);
    let passing = Fragment {
        predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(0))),
        ..json(&columns, lines())
    };
    let many: String = (0..20_000)
        .map(|n| match n % 5_000 {
            4_321 => format!("{{\"a\":-{n},\"b\":\"none\"}}\n"),
            _ => format!("{{\"a\":{},\"b\":{n}}}\n", n + 1),
        })
        .collect();
    assert_eq!(run(&passing, many.clone()).await.num_rows(), 20_000 - 4);
    let error = error(&passing, format!("{many}{{\"a\":1,\"b\":\"none\"}}\n")).await;
    assert!(error.contains(&format!("byte {}", many.len())), "{error}");
}

#[tokio::test]
async fn predicates_outputs_and_counts() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Int64)]);
    let text = "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\",\"c\":7}\n{\"b\":\"z\"}\n";
    let some = Fragment {
        predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(2), Expr::int(5))),
        output: Output::Rows(vec![NamedExpr { expr: Expr::Column(1), name: "b".into() }]),
        ..json(&columns, lines())
    };
    assert_eq!(values(&run(&some, text).await), ["y"]);
    let count = Fragment {
        output: Output::scalar(vec![pushdowndb_contract::AggregateCall {
            function: pushdowndb_contract::AggregateFunction::Count,
            argument: None,
            name: "n".into(),
        }]),
        ..json(&columns, lines())
    };
    assert_eq!(values(&run(&count, text).await), ["3"]);
}

#[tokio::test]
async fn documents_hold_values_one_after_the_other_or_an_array() {
    let columns = schema(&[("a", DataType::Int64)]);
    for text in [
        "{\"a\":1}{\"a\":\n2} {\"b\":\"}\"}",
        "[{\"a\":1},\n{\"a\":2} , {}]",
        " [ {\"a\":1}, {\"a\":2}, {\"a\":null} ] ",
    ] {
        for piece in [1, 3, 100] {
            let reader = InMemory::new("k", text).with_piece_bytes(piece);
            let batch = try_run_with(&json(&columns, document()), reader, None, 100).await.expect("rows").0;
            assert_eq!(values(&batch), ["1", "2", "NULL"], "{text}");
        }
    }
    assert_eq!(run(&json(&columns, document()), " \n ").await.num_rows(), 0);
}

#[tokio::test]
async fn raw_tokens_are_as_they_are_written() {
    let path = |name: &str, path: &str| {
        let metadata = HashMap::from([("path".to_owned(), path.to_owned())]);
        Field::new(name, DataType::Utf8, true).with_metadata(metadata)
    };
    let columns: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Utf8, true),
        path("deep", "b.c[1]"),
        path("all", ""),
        Field::new("x.y", DataType::Utf8, true),
    ]));
    let raw = |shape| JsonOptions { raw_tokens: true, shape, ..JsonOptions::default() };
    let text = "{\"a\":\"q\",\"b\":{\"c\":[1,17.00]},\"x.y\":null}\n{\"a\" : [1, {}]}\n";
    let expected =
        ["\"q\"|17.00|{\"a\":\"q\",\"b\":{\"c\":[1,17.00]},\"x.y\":null}|null", "[1, {}]|NULL|{\"a\" : [1, {}]}|NULL"];
    assert_eq!(rows(&run(&json(&columns, raw(JsonShape::Lines)), text).await), expected);
    assert_eq!(rows(&run(&json(&columns, raw(JsonShape::Document)), text).await), expected);
}

#[tokio::test]
async fn errors_name_object_and_record() {
    let columns = schema(&[("a", DataType::Int64), ("d", DataType::Date32)]);
    let fragment = json(&columns, lines());
    for (text, start) in [
        ("{\"a\":1}\n{\"a\":}\n", "s3://b/k, byte 8: "),
        ("{\"a\":1}\n  {\"a\":\"x\"}\n", "s3://b/k, byte 10: "),
        ("{\"a\":1}\n{\"a\":2\n", "s3://b/k, byte 8: the record is not complete"),
        ("{\"a\":1}\n{\"a\":1}{\"a\":2}\n", "s3://b/k, byte 8: there is more than one value"),
        // No blank of JSON, whether another record follows or not.
        ("{\"a\":1}\u{c}\n{\"a\":2}\n", "s3://b/k, byte 0: there is more than one value"),
        ("{\"a\":1}\u{c}", "s3://b/k, byte 0: there is more than one value"),
        ("{\"a\":1}\n[]\n", "s3://b/k, byte 8: "),
        ("{\"a\":1}\n{\"d\":\"1999-1-1\"}\n", "s3://b/k, byte 8: field \"d\": cannot parse '1999-1-1' as DATE"),
    ] {
        let error = error(&fragment, text).await;
        assert!(error.starts_with(start), "{error}");
    }
    let raw = JsonOptions { raw_tokens: true, ..lines() };
    let error_text = error(&json(&texts(&["a"]), raw), "{\"a\":1}\n{\"a\":1,}\n").await;
    assert_eq!(error_text, "s3://b/k, byte 8: the record is not JSON at its byte 7");
    let required: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let error_text = error(&json(&required, lines()), "{\"a\":1}\n{}\n").await;
    assert_eq!(error_text, "s3://b/k, byte 8: field \"a\" is absent or null, but the column is declared NOT NULL");
}
