//! The program from outside: what it prints, where, and with which exit code.

mod access;
mod check;
mod demo;
mod deploy;
mod experiment;
mod generate;
mod json_logs;
mod memory;
mod output;
mod profile;
mod scripts;
mod serve;
mod shell;
mod tls;

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// The program with an environment in which nothing of the user's own shines through.
fn pushdowndb<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pushdowndb"));
    command.args(args).env_clear().stdin(Stdio::null());
    for kept in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Runs it to its end.
fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Done {
    Done(pushdowndb(args).output().unwrap())
}

/// What a run left behind.
struct Done(Output);

impl Done {
    fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    /// The output of a run that must have worked.
    #[track_caller]
    fn ok(&self) -> String {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        self.stdout()
    }

    /// The message of a run that must have failed so.
    #[track_caller]
    fn fails(&self, code: i32) -> String {
        assert_eq!(self.code(), code, "stdout: {}\nstderr: {}", self.stdout(), self.stderr());
        self.stderr()
    }
}
