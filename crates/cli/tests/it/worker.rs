//! `worker`: two of them, a query on both from the command line, and a clean stop.

use std::process::{Child, Command};

use pushdowndb_testkit::process;
use pushdowndb_testkit::program::Outcome;

use crate::{pushdowndb, run};

#[test]
fn two_workers_run_a_query_of_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("token"), "a-token-of-some-length\n").unwrap();
    std::fs::create_dir(path("t")).unwrap();
    for part in 0..4 {
        let rows: Vec<String> = (0..1000).map(|row| format!("{},{}\n", row % 7, part * 1000 + row)).collect();
        std::fs::write(path(&format!("t/{part}.csv")), format!("k,v\n{}", rows.concat())).unwrap();
    }
    let start = || -> (Child, String) {
        let mut command = pushdowndb(["worker", "--listen", "127.0.0.1:0", "--token-file", &path("token")]);
        process::spawn_until(&mut command, "serving stages on ")
    };
    let ((mut first, first_url), (second, second_url)) = (start(), start());
    let sql = format!("SELECT k, count(*) AS n, sum(v) AS s FROM '{}' GROUP BY k ORDER BY k", path("t/*.csv"));
    let alone = run(["--format", "csv", "-c", &sql]).ok();
    let workers = format!("pushdown.workers={first_url},{second_url}");
    let several = |more: &[&str]| {
        let args = ["--workers-token-file", &path("token"), "--set", &workers, "--format", "csv", "-c", &sql];
        run(args.iter().chain(more))
    };
    let distributed = several(&["--set", "pushdown.distribute=always", "--stats", "table"]);
    assert_eq!(distributed.ok(), alone);
    assert!(distributed.stderr().contains("stages on workers"), "{}", distributed.stderr());
    // Files of this machine stay here unless asked for.
    let automatic = several(&["--stats", "table"]);
    assert_eq!(automatic.ok(), alone);
    assert!(automatic.stderr().contains("without workers"), "{}", automatic.stderr());
    // Without the token, and without a worker.
    let without = run(["--set", &workers, "--set", "pushdown.distribute=always", "-c", &sql]).fails(7);
    assert!(without.contains("no token"), "{without}");
    process::kill(&mut first);
    assert!(Command::new("kill").args(["-TERM", &second.id().to_string()]).status().unwrap().success());
    Outcome(second.wait_with_output().unwrap()).ok();
    let gone = several(&["--set", "pushdown.distribute=always"]).fails(9);
    assert!(gone.contains("no worker of pushdown.workers answers"), "{gone}");
}

#[test]
fn a_worker_needs_a_good_token() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "short").unwrap();
    let mut command = pushdowndb(["worker", "--listen", "127.0.0.1:0"]);
    let short = Outcome::of(command.arg("--token-file").arg(&token)).fails(2);
    assert!(short.contains("16 characters"), "{short}");
}
