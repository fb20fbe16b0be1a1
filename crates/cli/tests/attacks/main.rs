//! The attacks of `conformance/attacks` on this program, each on a node of its own while another key goes on working.
//!
//! A target of its own, because test binaries run one after the other: what the victim is promised within two seconds would
//! otherwise be measured beside tests that keep every core busy.

use std::io::Write;
use std::process::Command;

/// Past the test harness, which keeps what passing tests print.
fn show(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn a_node_withstands_every_attack() {
    let imported = Command::new("python3").args(["-c", "import boto3"]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        show("SKIPPED: boto3 missing");
        return;
    }
    let mut run = Command::new("python3");
    run.args(["../../conformance/attacks/run.py", "--binary", env!("CARGO_BIN_EXE_pushdowndb")]);
    let output = run.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}
