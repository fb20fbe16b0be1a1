//! `sql-server`: psql, a password, the log, and a clean stop.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use pushdowndb_testkit::process;
use pushdowndb_testkit::program::{Outcome, isolate};
use serde_json::Value;

use crate::pushdowndb;

/// Starts a server, and returns its address.
fn start(args: &[&str]) -> (Child, String) {
    let mut command =
        pushdowndb(["sql-server", "--postgres", "127.0.0.1:0", "--log-format", "json"].iter().chain(args));
    process::spawn_until(command.stderr(Stdio::piped()), "serving SQL on postgres://")
}

fn psql(address: &str, user: &str, password: &str, sql: &str) -> Outcome {
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new("psql");
    isolate(&mut command).env("PGPASSWORD", password).args(["-X", "-A", "-t", "-d"]);
    command.arg(format!("host={host} port={port} user={user} dbname=db")).args(["-c", sql]);
    Outcome::of(&mut command)
}

#[test]
fn it_serves_psql_and_logs_each_query_with_its_bill() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("x.csv"), "a,b\n1,x\n2,y\n").unwrap();
    let mut make = pushdowndb(["sql-server", "--make-password"]);
    let mut make = make.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    make.stdin.take().unwrap().write_all(b"hunter2\n").unwrap();
    let verifier = Outcome(make.wait_with_output().unwrap()).ok();
    let users = format!("[users.ann]\npassword = \"{}\"\n", verifier.trim());
    std::fs::write(path("users.toml"), users).unwrap();

    let args = ["--users", &path("users.toml"), "--allow", &path(""), "--admin-listen", "127.0.0.1:0"];
    let (child, address) = start(&args);
    let sql = format!("SELECT sum(a) FROM '{}'", path("x.csv"));
    assert_eq!(psql(&address, "ann", "hunter2", &sql).ok(), "3\n");
    psql(&address, "ann", "wrong", &sql).fails(2);
    psql(&address, "ann", "hunter2", "SELECT * FROM missing").fails(1);
    let secret = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}' OPTIONS ('no_such' 'secret-of-ann')",
        path("x.csv")
    );
    psql(&address, "ann", "hunter2", &secret).fails(1);
    // SIGHUP reads users again, SIGTERM ends it.
    let signal = |signal: &str| Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(signal("-HUP").success());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(signal("-TERM").success());
    let done = Outcome(child.wait_with_output().unwrap());
    done.ok();
    let log = done.stderr();
    assert!(!log.contains("hunter2") && !log.contains("secret-of-ann"), "{log}");
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of_query = |outcome: &str| records.iter().find(|record| record["outcome"] == outcome).cloned();
    let query = of_query("ok").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&query["user"], &query["query"], &query["rows"]), (&"ann".into(), &sql.as_str().into(), &1.into()));
    assert!(query["usd"].is_number() && query["bytes_network"].is_number() && query["ms"].is_number(), "{query}");
    assert!(of_query("42P01").is_some(), "{log}");
    let says = |text: &str| records.iter().any(|record| record["message"].as_str().is_some_and(|m| m.contains(text)));
    assert!(says("wrong password") && says("users: read again") && says("metrics: on"), "{log}");
}

#[test]
fn who_lets_everyone_in_says_so() {
    let (mut child, address) = start(&[]);
    assert_eq!(psql(&address, "anyone", "", "SELECT current_user").ok(), "anyone\n");
    let denied = psql(&address, "anyone", "", "SELECT * FROM '/etc/passwd.csv'").fails(1);
    assert!(denied.contains("refused by the access policy"), "{denied}");
    process::kill(&mut child);
    let log = Outcome(child.wait_with_output().unwrap()).stderr();
    assert!(log.contains("everyone on this machine is let in"), "{log}");
    let refused = Outcome::of(&mut pushdowndb(["sql-server", "--postgres", "0.0.0.0:0"])).fails(2);
    assert!(refused.contains("--users"), "{refused}");
}

#[test]
fn results_are_sent_as_they_are_computed() {
    let (mut child, address) = start(&[]);
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new("psql");
    let query = "SELECT value, repeat('x', 500) FROM generate_series(1, 1000000)";
    isolate(&mut command).args([
        "-X",
        "-q",
        "-d",
        &format!("host={host} port={port} user=u dbname=db"),
        "-o",
        "/dev/null",
    ]);
    command.args(["-c", &format!("COPY ({query}) TO STDOUT"), "-c", "\\set FETCH_COUNT 10000", "-c", query]);
    Outcome::of(&mut command).ok();
    // Each result has 500 MB.
    let peak = process::peak_bytes(child.id()).unwrap();
    process::kill(&mut child);
    assert!(peak < 400_000_000, "{peak}");
}
