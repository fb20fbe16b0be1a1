//! Records inside documents, names whatever their case, and what is refused.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use pushdowndb_contract::{Format, Fragment, JsonOptions, JsonShape, JsonStep};
use pushdowndb_scan::{InMemory, ScanOptions};

use crate::support::*;

fn key(name: &str) -> JsonStep {
    JsonStep::Key { name: name.into(), exact: false }
}

/// The tokens at these paths, of the records at `from`.
fn tokens(shape: JsonShape, from: &[JsonStep], paths: &[&str]) -> Fragment {
    let field = |path: &&str| {
        let metadata = HashMap::from([("path".to_owned(), (*path).to_owned())]);
        Field::new(*path, DataType::Utf8, true).with_metadata(metadata)
    };
    let columns: SchemaRef = Arc::new(Schema::new(paths.iter().map(field).collect::<Vec<_>>()));
    let options = JsonOptions { shape, raw_tokens: true, from: from.to_vec(), ..JsonOptions::default() };
    Fragment::all(Format::Json(options), columns)
}

#[tokio::test]
#[allow(clippy::type_complexity, reason = "shape, text, where its records are, the columns asked for, and the rows")]
async fn every_element_at_the_path_is_a_record() {
    use JsonShape::{Document, Lines};
    let any = JsonStep::AnyElement;
    let rules =
        "{\"Rules\":[{\"id\":\"1\"},{\"expr\":\"y > x\"},{\"id\":\"2\",\"expr\":\"z\"}]}\n{\"created\":\"June 27\"}";
    let id = ["\"1\"", "NULL", "\"2\"", "NULL"];
    let cases: [(_, &str, Vec<JsonStep>, &[&str], &[&str]); 10] = [
        (Document, rules, vec![key("rules"), any.clone(), key("id")], &["$"], &id),
        (Lines, rules, vec![key("rules"), any.clone(), key("id")], &["$"], &id),
        (
            Document,
            rules,
            vec![key("Rules"), any.clone()],
            &["id", "expr"],
            &["\"1\"|NULL", "NULL|\"y > x\"", "\"2\"|\"z\"", "NULL|NULL"],
        ),
        // An array at the root is one value.
        (Document, "[{\"a\":[1,2]},{\"a\":[]}]", vec![], &["$", "a"], &["[{\"a\":[1,2]},{\"a\":[]}]|NULL"]),
        (Document, "[{\"a\":[1,2]},{\"a\":[]}]", vec![key("a"), any.clone()], &["$"], &["NULL"]),
        (Document, "[{\"a\":[1,2]},{\"a\":[]}]", vec![any.clone(), key("a"), any.clone()], &["$"], &["1", "2", "NULL"]),
        (Document, "[[1,2],[3]]", vec![any.clone()], &["$"], &["[1,2]", "[3]"]),
        (Document, "[[1,2],[3]] [[4]]", vec![any.clone(), any.clone()], &["$"], &["1", "2", "3", "4"]),
        (Lines, "[1,2]\n\n[3]\n", vec![any.clone()], &["$"], &["1", "2", "3"]),
        (
            Document,
            "{\"a\":{\"x\":1,\"y\":{\"z\":2}}}",
            vec![key("a"), JsonStep::AnyMember],
            &["$", "z"],
            &["1|NULL", "{\"z\":2}|2"],
        ),
    ];
    for (shape, text, from, paths, expected) in cases {
        let fragment = tokens(shape, &from, paths);
        for (piece, batch_rows) in [(1, 1), (3, 2), (1000, 8192)] {
            let reader = InMemory::new("k", text).with_piece_bytes(piece);
            let (batch, counters) = try_run_with(&fragment, reader, None, batch_rows).await.expect("rows");
            assert_eq!(rows(&batch), expected, "{text} in pieces of {piece}");
            assert_eq!(counters.bytes_scanned.into_inner(), text.len() as u64, "{text}");
        }
    }
}

#[tokio::test]
async fn a_document_may_be_longer_than_any_record() {
    let rows: String = (0..60_000).map(|i| format!("{{\"i\": {i}, \"pad\": \"xxxxxxxxxxxxxxxx\"}},")).collect();
    let beside = "y".repeat(3 << 20);
    let text =
        format!("{{\"beside\":\"{beside}\",\"rows\":[{}],\"after\":[\"{beside}\"]}}", rows.trim_end_matches(','));
    let fragment = tokens(JsonShape::Document, &[key("rows"), JsonStep::AnyElement], &["i"]);
    let options = ScanOptions { record_bytes: 1 << 20, ..ScanOptions::default() };
    let reader = InMemory::new("k", text.clone());
    let (batch, _) = try_run_as(&fragment, reader, None, options.clone()).await.expect("rows");
    assert_eq!(batch.num_rows(), 60_000);
    // As one record it is too long.
    let whole = tokens(JsonShape::Document, &[], &["rows"]);
    let error = try_run_as(&whole, InMemory::new("k", text), None, options).await.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Some("OverMaxRecordSize"), "{error}");
}

#[tokio::test]
async fn records_are_limited_to_the_byte() {
    let options = |record_bytes| ScanOptions { record_bytes, ..ScanOptions::default() };
    let line = format!("{{\"a\":\"{}\"}}", "x".repeat(500_000));
    for (shape, end) in [(JsonShape::Lines, "\n"), (JsonShape::Lines, ""), (JsonShape::Document, "\n")] {
        let text = Bytes::from(format!("{{}}\n{line}{end}"));
        let fragment = tokens(shape, &[], &["a"]);
        for (limit, fits) in [(line.len(), true), (line.len() - 1, false), (1 << 20, true)] {
            let read = try_run_as(&fragment, InMemory::new("k", text.clone()), None, options(limit)).await;
            assert_eq!(read.as_ref().map(|(b, _)| b.num_rows()).ok(), fits.then_some(2), "{limit} of {}", line.len());
            if let Err(error) = read {
                assert_eq!(error.code(), Some("OverMaxRecordSize"));
            }
        }
    }
}

#[tokio::test]
async fn names_are_found_whatever_their_case_unless_quoted() {
    let text = "{\"Name\":1,\"name\":2}\n";
    let lines = |path| tokens(JsonShape::Lines, &[], &[path]);
    assert_eq!(values(&run(&lines("\"name\""), text).await), ["2"]);
    assert_eq!(values(&run(&lines("\"NAME\""), text).await), ["NULL"]);
    let error = try_run(&lines("NAME"), text).await.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Some("AmbiguousFieldName"), "{error}");
    assert_eq!(values(&run(&lines("a.B"), "{\"A\":{\"b\":[1]}}\n").await), ["[1]"]);
}

#[tokio::test]
async fn what_is_no_json_has_its_code() {
    let from = [key("a"), JsonStep::AnyElement];
    for (from, text, code) in [
        (&from[..0], &b"{\"a\":1}\n{\"a\":"[..], "JSONParsingError"),
        (&from[..0], b"[{\"a\":1},{\"a\":2}", "JSONParsingError"),
        (&from[..0], b"[{\"a\":1} {\"a\":2}]", "JSONParsingError"),
        (&from[..0], b"[{\"a\":1},]", "JSONParsingError"),
        (&from[..0], b"{\"a\":\"\xff\"}", "InvalidTextEncoding"),
        (&from[..], b"{\"a\":[1,2", "JSONParsingError"),
        (&from[..], b"{\"a\":[1,2]", "JSONParsingError"),
        (&from[..], b"{\"b\":\"", "JSONParsingError"),
        (&from[..], b"{\"a\":[x]}", "JSONParsingError"),
    ] {
        let fragment = tokens(JsonShape::Document, from, &["$", "a"]);
        let error = try_run(&fragment, text).await.map(|b| rows(&b)).unwrap_err();
        assert_eq!(error.code(), Some(code), "{}: {error}", String::from_utf8_lossy(text));
    }
}
