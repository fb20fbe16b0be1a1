//! Messages that appear on the terminal although the test harness captures the output of passing
//! tests. `.ci/run` fails on every line with `SKIPPED`.

use std::io::Write;

/// Prints a line to stderr.
pub fn show(line: &str) {
    // A single write keeps lines of parallel tests whole. Without stderr there is no reader.
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}

/// Prints the reason why a test, or a part of it, is skipped.
pub fn skipped(reason: &str) {
    show(&format!("SKIPPED: {reason}"));
}
