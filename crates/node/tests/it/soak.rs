//! The soak of `scripts/soak.py`, for as long as a test may take.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pushdowndb_node::{Credentials, NodeConfig, start};

const STORE: &str = "PUSHDOWNDB_SOAK_STORE";

/// What the process under test runs: this test binary, asked for this one test.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn serve_until_killed() {
    let Ok(dir) = std::env::var(STORE) else { return };
    let mut config = NodeConfig::store(dir);
    let keys = ("soak-key".to_owned(), "soak-secret-of-the-test".to_owned());
    config.credentials = Some(Credentials { access_key_id: keys.0, secret_access_key: keys.1 });
    let node = start(config).await.unwrap();
    println!("serving {}", node.endpoint());
    node.stopped().await;
}

#[test]
fn many_clients_leave_nothing_behind() {
    let imported = Command::new("python3").args(["-c", "import boto3"]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        writeln!(std::io::stderr(), "SKIPPED: boto3 missing").unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "soak::serve_until_killed", "--ignored", "--nocapture"])
        .env(STORE, dir.path().join("store"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Kept open: the harness of the node's process writes to it when it runs for long.
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let served = |line: String| line.split_once("serving ").map(|(_, endpoint)| endpoint.to_owned());
    let endpoint = lines.by_ref().map_while(Result::ok).find_map(served).unwrap();
    let script = Path::new("../../scripts/soak.py");
    // Memory settles later than this: the ten minutes measure it.
    let output = Command::new("python3")
        .arg(script)
        .args(["--seconds", "20", "--clients", "64", "--growth", "256", "--endpoint", &endpoint])
        .output()
        .unwrap();
    drop(node.kill());
    drop(node.wait());
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("PASSED"), "{text}");
}
