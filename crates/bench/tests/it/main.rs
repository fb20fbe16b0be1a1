//! Small experiments: contestants agree, an interrupted run continues, and a wrong answer is an
//! error.
//!
//! They measure the program `pushdowndb` beside `pushdowndb-bench`, which `cargo test --workspace`
//! builds.

mod disks;
mod spill;
mod workers;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pushdowndb_testkit::program::{Outcome, isolate};
use pushdowndb_testkit::skip::skipped;

const BENCH: &str = env!("CARGO_BIN_EXE_pushdowndb-bench");

/// Runs `pushdowndb-bench` in a clean environment.
fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Outcome {
    Outcome::of(isolate(&mut Command::new(BENCH)).args(args))
}

/// The program that is measured.
fn program() -> PathBuf {
    let program = Path::new(BENCH).with_file_name("pushdowndb");
    assert!(program.is_file(), "{} is missing: test with --workspace or -p pushdowndb", program.display());
    program
}

const COUNT_BY_OURS: [&str; 4] = ["--only", "csv,parquet", "--only", "node,library,engine,datafusion"];

fn scan(out: &Path, more: &[&str]) -> Outcome {
    let out = out.to_str().unwrap();
    let args = ["scan", "--out", out, "--scale", "0.001", "--runs", "2", "--only", "count,q6"];
    run(args.into_iter().chain(more.iter().copied()))
}

#[test]
fn contestants_agree_and_a_run_goes_on_where_it_stopped() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skipped("a server and its client need a core each");
        return;
    }
    program();
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("scan.ndjson");
    let first = scan(folder.path(), &COUNT_BY_OURS);
    let table = first.ok();
    assert!(table.contains("memory of the node") && table.contains("datafusion"), "{table}");
    // Two formats, two queries, four contestants, two rounds.
    assert_eq!(first.stderr().matches(" s CPU, ").count(), 2 * 2 * 4 * 2, "{}", first.stderr());
    let record = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "csv")).unwrap();
    // Lines about all figures, a header, and a line per cell.
    let record = fs::read_to_string(record).unwrap();
    let (about, figures): (Vec<&str>, Vec<&str>) = record.lines().partition(|line| line.starts_with("# "));
    assert!(about.iter().any(|line| line.starts_with("# target: memory of the node; csv; q6; -; wanted ")), "{record}");
    assert_eq!(figures.len(), 1 + 2 * 2 * 4, "{record}");

    // A truncated measurement is repeated, and no other.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, &text[..text.len() - 20]).unwrap();
    let second = scan(folder.path(), &COUNT_BY_OURS);
    second.ok();
    assert_eq!(second.stderr().matches(" s CPU, ").count(), 1, "{}", second.stderr());

    // An answer that differs from DataFusion's.
    let text = fs::read_to_string(&journal).unwrap();
    let wrong: Vec<String> = text
        .lines()
        .map(|line| match line.contains("\"engine\"") && line.contains("\"count\"") && line.contains("\"csv\"") {
            true => line.replace("{\"rows\":[[\"", "{\"rows\":[[\"9"),
            false => line.to_owned(),
        })
        .collect();
    assert_ne!(wrong.join("\n").trim(), text.trim());
    fs::write(&journal, wrong.join("\n")).unwrap();
    let third = scan(folder.path(), &COUNT_BY_OURS);
    assert!(third.fails(1).contains("csv, count, engine"), "{}", third.stderr());

    // Measurements of another scale do not mix with these.
    let out = folder.path().to_str().unwrap();
    let other = run(["scan", "--out", out, "--scale", "0.002", "--only", "count"]);
    assert!(other.fails(1).contains("another --out"), "{}", other.stderr());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let message = scan(folder.path(), &["--only", "nobody"]).fails(1);
    assert!(message.contains("--only leaves nothing"), "{message}");
    let missing = folder.path().join("none.toml");
    let message = scan(folder.path(), &["--definition", missing.to_str().unwrap()]).fails(1);
    assert!(message.contains("none.toml"), "{message}");
    let bad = run(["contestant"]).fails(1);
    assert!(bad.contains("reading the task"), "{bad}");
    let message = scan(folder.path(), &["--program", "/nowhere/pushdowndb"]).fails(1);
    assert!(message.contains("/nowhere/pushdowndb is missing"), "{message}");
}

/// The document in the tree is generated from its records.
#[test]
fn the_evaluation_is_made_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("evaluation.md");
    run(["report", "--results", "../../experiments/results", "--into", into.to_str().unwrap()]).ok();
    let (made, kept) = (fs::read_to_string(&into).unwrap(), fs::read_to_string("../../docs/evaluation.md").unwrap());
    let line = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert!(made == kept, "docs/evaluation.md is not what `pushdowndb-bench report` writes: {line:?}");
}

/// TPC-H by DataFusion alone, which scripts measure for comparison.
#[test]
fn a_query_runs_in_plain_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let made = Command::new(program()).args(["generate", "tpch", "--scale", "0.001", "--to", place]).output().unwrap();
    assert!(made.status.success());
    assert_eq!(run(["datafusion", place, "csv", "../../sql/tpch/q01.sql"]).ok(), "4 rows\n");
    assert!(run(["datafusion", place, "csv", "nowhere.sql"]).fails(1).contains("nowhere.sql"));
}

/// A picture of a record, where Python can draw.
#[test]
fn records_are_drawn_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    assert!(run(["plot", "nowhere.csv"]).fails(1).contains("nowhere.csv"));
    let matplotlib = Command::new("python3").args(["-c", "import matplotlib"]).output();
    let drawn = run(["plot", "--into", place, "../../experiments/results/fig01.csv"]);
    if matplotlib.is_ok_and(|output| output.status.success()) {
        drawn.ok();
        assert!(fs::read_to_string(folder.path().join("fig01.svg")).unwrap().contains("<svg"));
    } else {
        assert!(drawn.fails(1).contains("matplotlib"));
    }
}

/// A part of figure 5: two points, five series, no link.
fn figure(out: &Path) -> Outcome {
    let out = out.to_str().unwrap();
    let what = ["--only", "fig05", "--only", "2,4", "--scale", "0.001", "--runs", "1", "--loopback"];
    run(["figures", "--out", out].into_iter().chain(what))
}

#[test]
fn a_figure_is_measured_and_reported() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skipped("a node and an engine need a core each");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = figure(folder.path());
    first.ok();
    assert_eq!(first.stderr().matches("round 1 of 1").count(), 2 * 5, "{}", first.stderr());
    assert!(first.stderr().contains("left out: all but unshaped"), "{}", first.stderr());
    let record = fs::read_to_string(folder.path().join("fig05.csv")).unwrap();
    let rows: Vec<&str> = record.lines().filter(|line| line.starts_with("unshaped,csv,")).collect();
    assert_eq!(rows.len(), 2 * 5, "{record}");
    // Two groups, then four.
    assert!(rows[0].contains(",server side,1,2,") && rows[9].contains(",auto,1,4,"), "{record}");

    // All cells are in the journal.
    let second = figure(folder.path());
    second.ok();
    assert!(!second.stderr().contains("round"), "{}", second.stderr());

    // Missing numbers are left out of the text.
    let [results, into] = [folder.path().to_owned(), folder.path().join("evaluation.md")];
    let report = ["report", "--results", results.to_str().unwrap(), "--into", into.to_str().unwrap()];
    run(report).ok();
    let page = fs::read_to_string(&into).unwrap();
    assert!(page.contains("csv, unshaped: seconds") && page.contains("| S3 side"), "{page}");
    assert!(page.contains("`pushdowndb-bench all --only fig01`") && !page.contains("{{"), "{page}");

    // Rows that differ from the baseline's.
    let journal = folder.path().join("fig05.ndjson");
    let wrong: Vec<String> = fs::read_to_string(&journal)
        .unwrap()
        .lines()
        .map(|line| match line.contains("\"S3 side\"") {
            true => line.replace("{\"rows\":[[\"0", "{\"rows\":[[\"9"),
            false => line.to_owned(),
        })
        .collect();
    fs::write(&journal, wrong.join("\n")).unwrap();
    let third = figure(folder.path());
    assert!(third.fails(1).contains("wrong rows: 2; S3 side; csv; unshaped"), "{}", third.stderr());
}
