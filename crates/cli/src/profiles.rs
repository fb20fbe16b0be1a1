//! The page that `--profile` and `\profile` write: on every query so far, complete after each of them.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use pushdowndb_engine::Profile;

use crate::print::{self, Output};

/// So many queries are on the page, the last ones: a long session stays a page that one can open.
const MOST: usize = 50;

/// A page in the making.
pub struct Profiles {
    path: PathBuf,
    queries: Vec<Profile>,
}

impl Profiles {
    /// To this file, which there is from now on, so that a wrong path is told before a query runs.
    pub fn new(path: PathBuf) -> Result<Self> {
        let profiles = Self { path, queries: vec![] };
        profiles.write()?;
        Ok(profiles)
    }

    /// Takes in the profile of a query that has a plan.
    pub fn add(&mut self, profile: Option<Profile>) -> Result<()> {
        let Some(profile) = profile else { return Ok(()) };
        if self.queries.len() == MOST {
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
