//! Scripts: order, places of errors, exit codes, cancelling.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::{pushdowndb, run};

#[test]
fn help_and_version() {
    let help = run(["--help"]).ok();
    for expected in ["demo", "serve", "generate", "--endpoint", "--stats", "Examples:", "Exit codes:"] {
        assert!(help.contains(expected), "{expected} in\n{help}");
    }
    assert!(run(["--version"]).ok().starts_with("pushdowndb "));
    assert!(run(["serve", "--help"]).ok().contains("PUSHDOWNDB_ACCESS_KEY_ID"));
    assert!(run(["generate", "tpch", "--help"]).ok().contains("--parts"));
}

#[test]
fn commands_and_files_run_in_the_order_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.sql");
    std::fs::write(&file, "-- a comment\nSELECT 'b' AS x;\n").unwrap();
    let file = file.to_str().unwrap();
    let args = ["sql", "--format", "csv", "-c", "SELECT 'a' AS x", "-f", file, "-c", "SELECT 'c' AS x", "-f", file];
    assert_eq!(run(args).ok(), "x\na\nx\nb\nx\nc\nx\nb\n");
}

#[test]
fn a_script_can_come_from_stdin() {
    let mut child =
        pushdowndb(["--format", "csv", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 AS a;").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"a\n1\n");
}

#[test]
fn errors_point_at_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.sql");
    std::fs::write(&file, "SELECT 1 AS a;\n\nSELECT *\nFORM t;\n").unwrap();
    let done = run(["--format", "csv", "-f", file.to_str().unwrap()]);
    let message = done.fails(2);
    assert!(message.contains("bad.sql"), "{message}");
    assert!(message.contains("  4 | FORM t"), "{message}");
    let caret = message.lines().last().unwrap();
    assert!(caret.trim_start().starts_with('|') && caret.ends_with('^'), "{message}");
}

#[test]
fn exit_codes_tell_what_to_do() {
    let missing = run(["-c", "SELECT * FROM '/no/such/folder/file.csv'"]).fails(3);
    assert!(missing.contains("/no/such/folder/file.csv"), "{missing}");
    let column = run(["-c", "SELECT nope FROM (SELECT 1 AS a)"]).fails(2);
    assert!(column.contains("nope"), "{column}");
    let unknown = run(["-c", "SELECT * FROM no_such_table"]);
    assert!([2, 3].contains(&unknown.code()), "{unknown:?}");
    run(["-f", "/no/such/script.sql"]).fails(3);
    run(["--no-such-flag"]).fails(2);
    run(["--set", "pushdown.level=everything", "-c", "SELECT 1"]).fails(2);
    run(["--output", "/no/such/folder/out.csv", "-c", "SELECT 1"]).fails(3);
    // Nothing listens there: the discard port of the loopback address.
    let unreachable = ["--endpoint", "http://127.0.0.1:9", "--access-key-id", "a", "--secret-access-key", "b"];
    let sql = "SET pushdown.retries = 0; SELECT * FROM 's3://bucket/key.csv'";
    run(unreachable.into_iter().chain(["-c", sql])).fails(9);
}

#[test]
fn the_first_error_ends_a_script() {
    let done = run(["--format", "csv", "-c", "SELECT 1 AS a; SELECT nope; SELECT 2 AS b"]);
    done.fails(2);
    assert_eq!(done.stdout(), "a\n1\n");
}

#[test]
fn interrupting_a_query_ends_a_script_with_130() {
    for signal in ["-INT", "-TERM"] {
        let sql = "SELECT 1 AS ready; SELECT count(*) FROM generate_series(1, 1000000000000)";
        let mut child =
            pushdowndb(["--format", "csv", "-c", sql]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let done = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("cancelled"), "{stderr}");
    }
}
