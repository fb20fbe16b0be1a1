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
    pub nodes: Vec<usize>,
    pub disk_mb_per_s: u32,
    pub bus_mb_per_s: u32,
    pub skew: Skew,
    pub series: Vec<Series>,
    #[serde(rename = "query")]
    pub queries: Vec<Query>,
    pub paper: Vec<Paper>,
}

/// Disks of different rates, in MB/s.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skew {
    pub mb_per_s: Vec<u32>,
}

/// Disks that are measured together.
#[derive(Clone, Debug)]
pub struct Disks {
    pub name: String,
    /// The rate of each disk in MB/s. The disk of node i is at index i.
    pub rates: Vec<u32>,
    /// Whether each object is stored on two neighboring disks.
    pub replicated: bool,
}

impl Disks {
    /// The number of disks that hold each object.
    pub fn replicas(&self) -> usize {
        if self.replicated { 2 } else { 1 }
    }
}

/// A way to run queries, with its settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    pub settings: BTreeMap<String, String>,
}

/// A query, and what it demonstrates in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub name: String,
    pub shows: String,
    #[serde(default)]
    pub statement: String,
    /// The name of a TPC-H query, in place of a statement.
    pub file: Option<String>,
}

/// Throughputs of the paper with eight disks, in MB/s.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub query: String,
    pub traditional: f64,
    pub active: f64,
}

impl Definition {
    /// Reads the definition.
    pub fn parse(text: &str) -> Result<Self> {
        let mut definition: Self = toml::from_str(text).context("experiments/disks.toml")?;
        for query in &mut definition.queries {
            if let Some(file) = &query.file {
                query.statement = tpch(file)?.to_owned();
            }
        }
        Ok(definition)
    }

    /// The options that the tables are generated with.
    pub fn options(&self) -> Options {
        Options { scale: self.scale, format: Format::Csv, parts: self.parts, overwrite: true }
    }

    /// The sets of disks to measure, one after the other.
    pub fn disks(&self) -> Vec<Disks> {
        let even = self.nodes.iter().map(|count| Disks {
            name: count.to_string(),
            rates: vec![self.disk_mb_per_s; *count],
            replicated: false,
        });
        let skewed = Disks { name: "skewed".to_owned(), rates: self.skew.mb_per_s.clone(), replicated: true };
        even.chain([skewed]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_read() {
        let definition = Definition::parse(include_str!("../../../../experiments/disks.toml")).unwrap();
        assert!(definition.queries.iter().all(|query| query.statement.to_lowercase().contains("lineitem")));
        assert!(definition.paper.iter().all(|paper| definition.queries.iter().any(|query| query.name == paper.query)));
        let disks = definition.disks();
        assert_eq!(disks.len(), definition.nodes.len() + 1);
        let sum = |disks: &Disks| disks.rates.iter().sum::<u32>();
        let even = disks.iter().find(|disks| disks.rates.len() == definition.skew.mb_per_s.len()).unwrap();
        assert_eq!(sum(disks.last().unwrap()), sum(even), "as fast together");
    }
}
