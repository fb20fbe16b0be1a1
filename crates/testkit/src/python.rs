//! Python scripts of the repository.

use std::ffi::OsStr;
use std::process::Command;

use crate::skip::{show, skipped};

/// Whether Python has the package `name`. If not, prints that the test is skipped.
pub fn has(name: &str) -> bool {
    let imported = Command::new("python3").args(["-c", &format!("import {name}")]).output();
    let found = imported.is_ok_and(|output| output.status.success());
    if !found {
        skipped(&format!("{name} missing"));
    }
    found
}

/// Returns the command that runs the script at `path` below the root of the repository.
pub fn script(path: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(crate::repository().join(path)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a command that must succeed; returns and prints its stdout.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("python3");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    text
}

/// Runs the script at `path`, which must succeed, and prints the cases that it skips.
#[track_caller]
pub fn run_script<S: AsRef<OsStr>>(path: &str, arguments: impl IntoIterator<Item = S>) -> String {
    let text = run(script(path).args(arguments));
    text.lines().filter(|line| line.starts_with("SKIPPED")).for_each(show);
    text
}
