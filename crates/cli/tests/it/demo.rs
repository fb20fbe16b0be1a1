//! The demonstration, small: it ends well and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pushdowndb_testkit::program::Outcome;

use crate::pushdowndb;

#[test]
fn it_shows_every_query_and_cleans_up() {
    let temporary = tempfile::tempdir().unwrap();
    let done = Outcome(pushdowndb(["demo", "--scale", "0.01"]).env("TMPDIR", temporary.path()).output().unwrap());
    let shown = done.ok();
    let queries =
        ["selective filter", "scalar aggregate", "group-by", "join", "top-k", "TPC-H Q1", "TPC-H Q6", "TPC-H Q14"];
    for expected in queries.into_iter().chain(["The rows agree at all levels"]) {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
    // Pushdown is forced, however fast the link is.
    assert!(!shown.contains(" 1.0×"), "{shown}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn interrupted_it_cleans_up_too() {
    let temporary = tempfile::tempdir().unwrap();
    let mut child = pushdowndb(["demo", "--scale", "1"])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("storage node"), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let done = Outcome(child.wait_with_output().unwrap());
    done.fails(130);
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn kept_it_serves_on_and_says_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let args = ["demo", "--scale", "0.01", "--keep", kept.to_str().unwrap()];
    let mut child = pushdowndb(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let exports: Vec<(String, String)> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("Tomorrow: "))
        .filter_map(|line| {
            Some(line.strip_prefix("export ")?.split_once('=')?).map(|(k, v)| (k.to_owned(), v.to_owned()))
        })
        .collect();
    let schema = "s3://demo/tpch/schema.sql";
    let sql = "SELECT count(*) > 0 AS there FROM lineitem";
    let query = Outcome(pushdowndb(["--format", "csv", "-f", schema, "-c", sql]).envs(exports).output().unwrap());
    assert_eq!(query.ok(), "there\ntrue\n");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    Outcome(child.wait_with_output().unwrap()).ok();
    assert!(kept.is_dir());
    let again = Outcome(pushdowndb(args).output().unwrap());
    assert!(again.fails(5).contains("serve --store"), "{}", again.stderr());
}
