//! Programs that run to their end.

use std::process::{Command, Output, Stdio};

/// Clears the environment of a command, except for the variables that every program needs, so that
/// the user's settings have no effect. Its stdin is empty.
pub fn isolate(command: &mut Command) -> &mut Command {
    command.env_clear().stdin(Stdio::null());
    for variable in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(variable) {
            command.env(variable, value);
        }
    }
    command
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome(pub Output);

impl Outcome {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        Self(command.output().expect("the program"))
    }

    /// Returns its stdout.
    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("text")
    }

    /// Returns its stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("text")
    }

    /// Returns its exit code.
    pub fn code(&self) -> i32 {
        self.0.status.code().expect("an exit code")
    }

    /// Checks that it succeeded, and returns its stdout.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert_eq!(self.code(), 0, "stdout: {}\nstderr: {}", self.stdout(), self.stderr());
        self.stdout()
    }

    /// Checks its exit code, and returns its stderr.
    #[track_caller]
    pub fn fails(&self, code: i32) -> String {
        assert_eq!(self.code(), code, "stdout: {}\nstderr: {}", self.stdout(), self.stderr());
        self.stderr()
    }
}
