//! Formats, files, statistics.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::{pushdowndb, run};

/// A row with everything that formats differ about, and one of NULLs.
const ROWS: &str = "SELECT CAST(1 AS BIGINT) AS n, CAST(1.50 AS DECIMAL(15, 2)) AS price, DATE '1995-03-15' AS day, \
    TIMESTAMP '2020-01-02 03:04:05' AS at, 'a,\"b\"' AS text, 0.5 = 0.5 AS yes \
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL ORDER BY n NULLS LAST";

#[test]
fn csv_has_header_iso_dates_scale_and_empty_nulls() {
    let expected = "n,price,day,at,text,yes\n1,1.50,1995-03-15,2020-01-02T03:04:05,\"a,\"\"b\"\"\",true\n,,,,,\n";
    assert_eq!(run(["--format", "csv", "-c", ROWS]).ok(), expected);
}

#[test]
fn json_is_an_array_and_ndjson_are_lines() {
    let array: Value = serde_json::from_str(&run(["--format", "json", "-c", ROWS]).ok()).unwrap();
    assert_eq!(array[0]["day"], "1995-03-15");
    assert_eq!(array[0]["price"], 1.5);
    assert_eq!(array[1]["text"], Value::Null);
    let lines = run(["--format", "ndjson", "-c", ROWS]).ok();
    assert!(lines.starts_with(r#"{"n":1,"price":1.50,"day":"1995-03-15","#), "{lines}");
    assert_eq!(lines.lines().count(), 2);
    assert_eq!(run(["--format", "json", "-c", "SELECT 1 AS a WHERE false"]).ok(), "[]\n");
}

#[test]
fn tables_are_drawn() {
    let table = run(["-c", "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 20, NULL ORDER BY a"]).ok();
    assert_eq!(table, "┌────┬──────┐\n│  a │ b    │\n├────┼──────┤\n│  1 │ x    │\n│ 20 │ NULL │\n└────┴──────┘\n");
}

#[test]
fn empty_results_have_their_columns() {
    assert_eq!(run(["--format", "csv", "-c", "SELECT 1 AS a, 2 AS b WHERE false"]).ok(), "a,b\n");
    assert_eq!(run(["-c", "SELECT 1 AS a WHERE false"]).ok(), "┌───┐\n│ a │\n├───┤\n└───┘\n");
}

#[test]
fn parquet_files_can_be_queried_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    let file = file.to_str().unwrap();
    let written = run(["--output", file, "-c", ROWS]);
    assert_eq!(written.ok(), "");
    let read = run(["--format", "csv", "-c", &format!("SELECT n, price, day FROM '{file}' ORDER BY n NULLS LAST")]);
    assert_eq!(read.ok(), "n,price,day\n1,1.50,1995-03-15\n,,\n");
}

#[test]
fn arrow_streams_begin_with_their_marker() {
    let done = run(["--format", "arrow", "-c", "SELECT 1 AS a"]);
    assert_eq!(done.code(), 0, "{}", done.stderr());
    assert_eq!(done.0.stdout.get(..4), Some([0xff; 4].as_slice()));
}

#[test]
fn a_columnar_file_holds_one_result() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.arrow");
    let done = run(["--output", file.to_str().unwrap(), "-c", "SELECT 1 AS a; SELECT 2 AS a"]);
    assert!(done.fails(2).contains("only one result"), "{}", done.stderr());
    assert!(!file.exists(), "a failed run leaves no file");
}

#[test]
fn several_results_follow_each_other() {
    assert_eq!(run(["--format", "csv", "-c", "SELECT 1 AS a; SELECT 2 AS b"]).ok(), "a\n1\nb\n2\n");
}

#[test]
fn statistics_have_the_documented_fields_and_their_own_stream() {
    let done = run(["--stats", "json", "--format", "csv", "-c", "SET pushdown.level = 'none'; SELECT 1 AS a"]);
    assert_eq!(done.ok(), "a\n1\n");
    let stats: Value = serde_json::from_str(done.stderr().trim()).unwrap();
    for field in [
        "wall_s",
        "cpu_s",
        "storage_cpu_s",
        "rows",
        "bytes_scanned",
        "bytes_returned",
        "bytes_network",
        "requests",
        "spill",
        "cost_usd",
        "strategies",
    ] {
        assert!(stats.get(field).is_some(), "{field}: {stats}");
    }
    for field in ["compute", "request", "scan", "transfer", "storage_compute", "total"] {
        assert!(stats["cost_usd"].get(field).is_some(), "{field}: {stats}");
    }
    assert_eq!(stats["rows"], 1);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.json");
    let done = run(["--stats-file", file.to_str().unwrap(), "--format", "csv", "-c", "SELECT 1 AS a; SELECT 2 AS b"]);
    assert_eq!((done.ok().as_str(), done.stderr().as_str()), ("a\n1\nb\n2\n", ""));
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 2);

    let done = run(["--stats", "table", "-c", "SELECT 1 AS a"]);
    assert!(done.stderr().contains("cost      $"), "{}", done.stderr());
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let sql = "SELECT * FROM generate_series(1, 5000000)";
    for format in ["table", "csv", "ndjson", "json", "arrow"] {
        let mut child =
            pushdowndb(["--format", format, "-c", sql]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        assert!(!reader.fill_buf().unwrap().is_empty());
        drop(reader);
        let done = child.wait_with_output().unwrap();
        assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap().as_str()), (Some(0), ""), "{format}");
    }
}
