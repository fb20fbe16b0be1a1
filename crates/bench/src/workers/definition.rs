//! The experiment as data.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pushdowndb_datagen::{Format, Options};
use serde::Deserialize;

use crate::queries::tpch;

/// The experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub scale: f64,
    pub runs: u32,
    pub parts: u32,
    /// Numbers of workers; 1 is a single process without workers.
    pub workers: Vec<usize>,
    /// The share of a core that each process may use.
    pub share: f64,
    /// Settings without the prefix `pushdown.`.
    pub settings: BTreeMap<String, String>,
    /// Names of queries of TPC-H.
    pub queries: Vec<String>,
}

impl Definition {
    /// Parses the definition.
    pub fn parse(text: &str) -> Result<Self> {
        let definition: Self = toml::from_str(text).context("experiments/workers.toml")?;
        for query in &definition.queries {
            tpch(query)?;
        }
        Ok(definition)
    }

    /// The options that the tables are generated with.
    pub fn options(&self) -> Options {
        Options { scale: self.scale, format: Format::Parquet, parts: self.parts, overwrite: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_read() {
        let definition = Definition::parse(include_str!("../../../../experiments/workers.toml")).unwrap();
        assert_eq!(definition.workers.first(), Some(&1), "others are compared with one process");
        assert!(definition.share > 0.0 && definition.settings["distribute"] == "always");
    }
}
