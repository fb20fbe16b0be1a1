//! The program from outside: output and exit codes.

mod access;
mod answers;
mod check;
mod demo;
mod deploy;
mod files;
mod generate;
mod json_logs;
mod memory;
mod output;
mod profile;
mod scripts;
mod serve;
mod shell;
mod sql_server;
mod terminal;
mod tls;
mod worker;

use std::ffi::OsStr;
use std::process::Command;

use pushdowndb_testkit::program::{Outcome, isolate};

/// The program in a clean environment.
fn pushdowndb<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pushdowndb"));
    isolate(&mut command).args(args);
    command
}

/// Runs it to its end.
fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Outcome {
    Outcome::of(&mut pushdowndb(args))
}
