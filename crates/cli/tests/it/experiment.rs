//! Experiments, small: contestants agree, a run goes on where it stopped, and a wrong answer is no result.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::{Done, pushdowndb, run};

const COUNT_BY_OURS: [&str; 4] = ["--only", "csv,parquet", "--only", "node,library,engine,datafusion"];

fn scan(out: &Path, more: &[&str]) -> Done {
    let out = out.to_str().unwrap();
    let args = ["experiment", "scan", "--out", out, "--scale", "0.001", "--runs", "2", "--only", "count,q6"];
    run(args.into_iter().chain(more.iter().copied()))
}

#[test]
fn contestants_agree_and_a_run_goes_on_where_it_stopped() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        let _ = writeln!(std::io::stderr(), "SKIPPED: a server and its client need a core each");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("scan.ndjson");
    let first = scan(folder.path(), &COUNT_BY_OURS);
    let table = first.ok();
    assert!(table.contains("memory of the node") && table.contains("datafusion"), "{table}");
    // Two formats, two queries, four contestants, two rounds.
    assert_eq!(first.stderr().matches(" s CPU, ").count(), 2 * 2 * 4 * 2, "{}", first.stderr());
    let record = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "csv")).unwrap();
    // A header, and a line a cell.
    assert_eq!(fs::read_to_string(record).unwrap().lines().count(), 1 + 2 * 2 * 4);

    // What is cut off is measured again, and nothing else.
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
    let other = run(["experiment", "scan", "--out", out, "--scale", "0.002", "--only", "count"]);
    assert!(other.fails(1).contains("another --out"), "{}", other.stderr());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let message = scan(folder.path(), &["--only", "nobody"]).fails(2);
    assert!(message.contains("--only leaves nothing"), "{message}");
    let missing = folder.path().join("none.toml");
    let message = scan(folder.path(), &["--definition", missing.to_str().unwrap()]).fails(1);
    assert!(message.contains("none.toml"), "{message}");
    let bad = Done(pushdowndb(["experiment", "contestant"]).output().unwrap()).fails(1);
    assert!(bad.contains("reading the task"), "{bad}");
}

/// A part of figure 5: two points, five series, no link.
fn figure(out: &Path) -> Done {
    let out = out.to_str().unwrap();
    let what = ["--only", "fig05", "--only", "2,4", "--scale", "0.001", "--runs", "1", "--loopback"];
    run(["experiment", "figures", "--out", out].into_iter().chain(what))
}

#[test]
fn a_figure_is_measured_and_reported() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        let _ = writeln!(std::io::stderr(), "SKIPPED: a node and an engine need a core each");
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

    // All of it is there already.
    let second = figure(folder.path());
    second.ok();
    assert!(!second.stderr().contains("round"), "{}", second.stderr());

    // Numbers that were not measured are not told.
    let [results, into] = [folder.path().to_owned(), folder.path().join("evaluation.md")];
    let report = ["experiment", "report", "--results", results.to_str().unwrap(), "--into", into.to_str().unwrap()];
    run(report).ok();
    let page = fs::read_to_string(&into).unwrap();
    assert!(page.contains("csv, unshaped: seconds") && page.contains("| S3 side"), "{page}");
    assert!(page.contains("`pushdowndb experiment all --only fig01`") && !page.contains("{{"), "{page}");

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
