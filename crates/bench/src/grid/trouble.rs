//! Trouble: competing load and failures of a node while it is queried.

use anyhow::Result;
use serde::Deserialize;
use std::process::{Command, Stdio};

use crate::contestant::process::Running;
use crate::link::Link;

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Trouble {
    /// Four other programs compete for the node's core.
    Loaded,
    /// The node runs only a fifth of the time.
    Throttled,
    /// The node refuses every scan with SlowDown, and answers plain reads.
    Refusing,
    /// Four other programs compete for the node's core in the first half of each second of the
    /// clock.
    Flapping,
}

/// The milliseconds within a second at which the queries of successive rounds begin: equally often
/// in each half, since a short query runs in only one of them.
const STARTS_MS: [u32; 4] = [0, 500, 250, 750];

/// The number of programs that compete for the node's core.
const RIVALS: usize = 4;

impl Trouble {
    /// Returns the node's arguments.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Refusing => &["--max-scans", "0", "--max-scans-waiting", "0"],
            _ => &[],
        }
    }

    /// Returns the millisecond within a second at which a query of this round begins; `None` if it
    /// does not matter.
    pub fn start_ms(self, round: u32) -> Option<u32> {
        let start = STARTS_MS.get(round as usize % STARTS_MS.len()).copied();
        start.filter(|_| self == Self::Flapping)
    }

    /// Starts the trouble, which ends when the result is dropped.
    pub fn begin(self, link: &Link, node: u32) -> Result<Harm> {
        const BUSY: &str = "while :; do :; done";
        let busy = |script: &str| {
            let mut command = link.at_node("sh");
            command.arg("-c").arg(script).stdin(Stdio::null());
            Running::spawn(&mut command)
        };
        let rivals = |script: &str| (0..RIVALS).map(|_| busy(script)).collect::<Result<Vec<_>>>();
        let running = match self {
            Self::Loaded => rivals(BUSY)?,
            Self::Flapping => {
                let rest = "sleep $(date +%N | awk '{ print 1 - $1 / 1e9 }')";
                rivals(&format!("while :; do {rest}; timeout 0.5 sh -c '{BUSY}'; done"))?
            }
            Self::Throttled => {
                // Runs on another core, since it would compete for the node's.
                let script = "while :; do kill -STOP $0; sleep 0.04; kill -CONT $0; sleep 0.01; done";
                let mut command = link.unpinned("sh");
                vec![Running::spawn(command.arg("-c").arg(script).arg(node.to_string()).stdin(Stdio::null()))?]
            }
            Self::Refusing => vec![],
        };
        Ok(Harm { running, stopped: (self == Self::Throttled).then_some(node) })
    }
}

/// Trouble in progress, which ends when this is dropped.
#[derive(Debug)]
pub struct Harm {
    running: Vec<Running>,
    /// The process that may have been left stopped.
    stopped: Option<u32>,
}

impl Drop for Harm {
    fn drop(&mut self) {
        self.running.clear();
        if let Some(node) = self.stopped {
            // An error means that the process has ended already.
            let _ = Command::new("kill").args(["-CONT", &node.to_string()]).status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_meet_each_half_of_a_second_as_often() {
        let starts = |trouble: Trouble| (0..8).map(move |round| trouble.start_ms(round));
        assert!(starts(Trouble::Loaded).all(|start| start.is_none()));
        assert_eq!(starts(Trouble::Flapping).filter(|start| start.is_some_and(|start| start < 500)).count(), 4);
    }

    /// With `--help`, arguments are parsed but nothing starts.
    #[test]
    fn a_node_takes_its_arguments() {
        let here = std::env::current_exe().unwrap();
        let program = here.ancestors().nth(2).unwrap().join("pushdowndb");
        assert!(program.is_file(), "{} is missing: test with --workspace or -p pushdowndb", program.display());
        let takes = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(["serve", "--store", "here"]).args(arguments).arg("--help");
            command.output().unwrap().status.success()
        };
        for trouble in [Trouble::Loaded, Trouble::Throttled, Trouble::Refusing, Trouble::Flapping] {
            assert!(takes(trouble.arguments()), "{trouble:?}");
        }
        assert!(!takes(&["--no-such-limit", "0"]));
    }
}
