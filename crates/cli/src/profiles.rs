//! The page that `--profile` and `\profile` write about the queries so far. It is complete after
//! each query.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use pushdowndb_engine::Profile;

use crate::print::{self, Output};

/// Maximum queries on the page; older ones are dropped.
const MAX_QUERIES: usize = 50;

/// A page that is rewritten after each query.
pub struct Profiles {
    path: PathBuf,
    queries: Vec<Profile>,
}

impl Profiles {
    /// Creates the file at once, so that a wrong path is reported before a query runs.
    pub fn new(path: PathBuf) -> Result<Self> {
        let profiles = Self { path, queries: vec![] };
        profiles.write()?;
        Ok(profiles)
    }

    /// Adds the profile of a query; `None` is ignored.
    pub fn add(&mut self, profile: Option<Profile>) -> Result<()> {
        let Some(profile) = profile else { return Ok(()) };
        if self.queries.len() == MAX_QUERIES {
            self.queries.remove(0);
        }
        self.queries.push(profile);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let mut output = Output::file(&self.path)?;
        output
            .write_all(print::page(&self.queries).as_bytes())
            .and_then(|()| output.flush())
            .with_context(|| format!("writing the profile to {}", self.path.display()))?;
        output.finish()
    }
}
