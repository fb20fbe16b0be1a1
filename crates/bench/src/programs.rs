//! The program that is measured, this program, and the Python contestants beside them.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use crate::machine::first_line;
use crate::record::date;

/// The contestants that run in Python.
const PEERS: &str = include_str!("../../../experiments/peers.py");

/// Programs of an experiment.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `pushdowndb`, which runs nodes and generates data and indexes.
    pub measured: PathBuf,
    /// This program, which runs contestants with the libraries of the same build.
    pub own: PathBuf,
    /// The script of the Python contestants.
    pub peers: PathBuf,
    /// When `measured` and `own` were built. Measurements of different builds must not be mixed.
    pub build: String,
    /// Names and versions of the installed Python contestants.
    pub python: String,
}

impl Programs {
    /// Finds the programs: the given one, or the one in the folder of this program. The script of
    /// the Python contestants is written to the folder `out`.
    pub fn find(given: Option<&Path>, out: &Path) -> Result<Self> {
        let own = std::env::current_exe()?;
        let measured = given.map_or_else(|| own.with_file_name("pushdowndb"), Path::to_owned);
        let name = measured.display().to_string();
        ensure!(
            measured.is_file(),
            "{name} is missing: build it with `cargo build --release -p pushdowndb -p pushdowndb-bench`, or name it \
             with --program"
        );
        let measured = measured.canonicalize().with_context(|| name)?;
        let build = format!("{}, bench {}", built(&measured)?, built(&own)?);
        let peers = out.join("peers.py");
        std::fs::write(&peers, PEERS).with_context(|| peers.display().to_string())?;
        let versions = format!("python3 {} versions | tr '\\n' ' '", quoted(&peers));
        let python = first_line(&versions).unwrap_or_default();
        Ok(Self { measured, own, peers, build, python })
    }

    /// The version of a Python contestant, as `name VERSION`, if it is installed.
    pub fn python_version(&self, name: &str) -> Option<String> {
        let mut words = self.python.split_whitespace();
        words.find(|word| *word == name)?;
        Some(format!("{name} {}", words.next()?))
    }
}

fn built(program: &Path) -> Result<String> {
    let modified: SystemTime = program.metadata()?.modified()?;
    Ok(format!("built {}", date(modified, "%FT%T")))
}

/// Quotes a path for the shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
