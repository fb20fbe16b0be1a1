//! CSV as S3 Select lets it be: marks of any length, records of any number of fields, errors with
//! their codes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Format, Fragment, NullRule, Ragged, WideMarks};
use pushdowndb_scan::{InMemory, REST, ScanOptions, rest_fields};

use crate::support::*;

fn select() -> CsvOptions {
    CsvOptions { null: NullRule::Never, ragged: Ragged::Lenient, ..no_header() }
}

fn wide(delimiter: &str, terminator: Option<&str>) -> CsvOptions {
    let marks = WideMarks {
        delimiter: delimiter.into(),
        terminator: terminator.map(str::to_owned),
        quote: Some("\"".into()),
        escape: None,
        comment: Some("#".into()),
    };
    CsvOptions { wide: Some(marks), ..select() }
}

/// Two columns, and what records have beyond.
fn with_rest(options: CsvOptions) -> Fragment {
    let rest = Field::new(REST, DataType::Utf8, true).with_metadata(HashMap::from([(REST.to_owned(), String::new())]));
    let columns: SchemaRef =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, true), rest]));
    Fragment::all(Format::Csv(options), columns)
}

#[tokio::test]
async fn what_a_record_has_beyond_the_columns_is_kept() {
    let text = "1,2\n3\n4,5,6,\"7,\"\"x\"\n8,9,\n\n";
    let expected = ["1|2|NULL", "3|NULL|NULL", "4|5|6,\"7,\"\"x\"", "8|9|"];
    let fragment = with_rest(select());
    assert_eq!(rows(&run(&fragment, text).await), expected);
    // The rest of records that pass, behind a condition on the first field, on the last, on both.
    for (column, value, expected) in [(0, "4", vec!["4|5|6,\"7,\"\"x\""]), (1, "9", vec!["8|9|"])] {
        let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::text(value)));
        assert_eq!(rows(&run(&Fragment { predicate, ..fragment.clone() }, text).await), expected);
    }
    let fields = |rest: &str| rest_fields(rest, &select()).expect("fields");
    assert_eq!(fields("6,\"7,\"\"x\""), ["6", "7,\"x"]);
    assert_eq!(fields(""), [""]);
    assert_eq!(rest_fields("\"x", &select()).unwrap_err().code(), Some("CSVUnescapedQuote"));
    let rewritten = run(&with_rest(wide("||", None)), "1||2||3||\"4||\"\n").await;
    assert_eq!(rows(&rewritten), ["1|2|\"3\",\"4||\""]);
    assert_eq!(rest_fields("\"3\",\"4||\"", &wide("||", None)).expect("fields"), ["3", "4||"]);
}

#[tokio::test]
async fn long_marks_read_like_short_ones() {
    let columns = texts(&["a", "b"]);
    let short = "# x\na,b\n1,\"x,\"\"y\"\n\n2,ü\n3,\n#4,\n5\n";
    let options = CsvOptions { header: true, comment: Some(b'#'), ..select() };
    let expected = rows(&run(&csv(&columns, options), short).await);
    assert_eq!(expected.len(), 4);
    for (delimiter, terminator) in [("¦", None), ("||", None), (",", Some("@@")), ("→", Some("¶")), ("ab", Some("ba"))]
    {
        let text = short.replace(',', delimiter).replace('\n', terminator.unwrap_or("\n"));
        let options = CsvOptions { header: true, ..wide(delimiter, terminator) };
        let expected: Vec<String> = expected.iter().map(|row| row.replace(',', delimiter)).collect();
        let fragment = csv(&columns, options);
        for piece in [1, 2, 5, 1000] {
            let reader = InMemory::new("k", text.clone()).with_piece_bytes(piece);
            let (batch, counters) = try_run_with(&fragment, reader, None, 100).await.expect("rows");
            assert_eq!(rows(&batch), expected, "{delimiter} {terminator:?} in pieces of {piece}");
            assert_eq!(counters.bytes_scanned.into_inner(), text.len() as u64);
        }
        // Every record belongs to one range.
        for cut in 1..text.len() as u64 {
            let mut together = Vec::new();
            for range in [0..cut, cut..text.len() as u64] {
                let reader = InMemory::new("k", text.clone());
                together.extend(rows(&try_run_with(&fragment, reader, Some(range), 100).await.expect("rows").0));
            }
            assert_eq!(together, expected, "{text:?} cut at {cut}");
        }
    }
}

#[tokio::test]
async fn open_quotes_have_their_codes() {
    let columns = texts(&["a", "b"]);
    let inside = CsvOptions { newlines_in_values: true, ..select() };
    let long = CsvOptions { newlines_in_values: true, ..wide("||", None) };
    for (options, text, code) in [
        (select(), "1,\"2\n3\"\n", "CSVEscapingRecordDelimiter"),
        (select(), "1,\"2\n3,4\n", "CSVUnescapedQuote"),
        (select(), "1,\"2", "CSVUnescapedQuote"),
        (inside, "1,\"2\n3,4\n", "CSVUnescapedQuote"),
        (wide("||", None), "1||\"2\n3\"\n", "CSVEscapingRecordDelimiter"),
        (long, "1||\"2\n3\n", "CSVUnescapedQuote"),
    ] {
        let error = try_run(&csv(&columns, options), text).await.map(|b| rows(&b)).unwrap_err();
        assert_eq!(error.code(), Some(code), "{text:?}: {error}");
    }
    let error = try_run(&csv(&columns, select()), &b"1,\xff\n"[..]).await.map(|b| rows(&b)).unwrap_err();
    assert_eq!(error.code(), Some("InvalidTextEncoding"));
}

#[tokio::test]
async fn records_are_limited_to_the_byte() {
    let columns = texts(&["a", "b"]);
    let field = "x".repeat(400_000);
    let quoted = CsvOptions { newlines_in_values: true, ..select() };
    for (options, delimiter, end) in
        [(select(), ",", "\n"), (select(), ",", "\r\n"), (quoted, ",", ""), (wide("||", None), "||", "\n")]
    {
        let record = format!("\"{field}\"{delimiter}{field}");
        let text = format!("1{delimiter}2\n{record}{end}");
        let fragment = csv(&columns, options);
        for (limit, fits) in [(record.len(), true), (record.len() - 1, false)] {
            let options = ScanOptions { record_bytes: limit, ..ScanOptions::default() };
            let read = try_run_as(&fragment, InMemory::new("k", text.clone()), None, options).await;
            assert_eq!(read.as_ref().map(|(b, _)| b.num_rows()).ok(), fits.then_some(2), "{delimiter}{end:?} {limit}");
            if let Err(error) = read {
                assert_eq!(error.code(), Some("OverMaxRecordSize"));
            }
        }
    }
}

#[tokio::test]
async fn what_is_beyond_the_limit_is_not_looked_at() {
    let columns = schema(&[("n", DataType::Int64)]);
    let long = "9".repeat(2000);
    let options = ScanOptions { record_bytes: 1000, ..ScanOptions::default() };
    for beyond in ["three", "\"4", &long] {
        let fragment = Fragment { limit: Some(2), ..csv(&columns, select()) };
        let reader = InMemory::new("k", format!("1\n2\n{beyond}\n"));
        let (batch, _) = try_run_as(&fragment, reader, None, options.clone()).await.expect("rows");
        assert_eq!(values(&batch), ["1", "2"]);
    }
}
