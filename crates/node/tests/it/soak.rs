//! The soak of `scripts/soak.py`, for as long as a test may take.

use std::process::Stdio;

use pushdowndb_node::{Credentials, NodeConfig, start};
use pushdowndb_testkit::{process, python};

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
    if !python::has("boto3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = process::this_test_binary("soak::serve_until_killed");
    let command = command.env(STORE, dir.path().join("store")).stderr(Stdio::null());
    // Its stdout stays open: the harness writes to it when a test runs for long.
    let (mut node, endpoint) = process::spawn_until(command, "serving ");
    // Memory settles later than this: the ten minutes measure it.
    let output = python::script("scripts/soak.py")
        .args(["--seconds", "20", "--clients", "64", "--growth", "256", "--endpoint", &endpoint])
        .output()
        .unwrap();
    process::kill(&mut node);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("PASSED"), "{text}");
}
