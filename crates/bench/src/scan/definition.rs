//! `experiments/scan.toml` as data: contestants, queries and targets.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::contestant::{DataFormat, Kind};

/// An experiment: contestants run queries over the same rows in several formats, with targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub title: String,
    /// The scale of TPC-H.
    pub scale: f64,
    /// The number of runs of each cell.
    pub runs: u32,
    pub formats: Vec<DataFormat>,
    /// Contestants in the order of trust: the first that answers a query defines the right answer.
    pub reference: Vec<String>,
    #[serde(rename = "contestant")]
    pub contestants: Vec<Contestant>,
    #[serde(rename = "query")]
    pub queries: Vec<Query>,
    #[serde(rename = "target", default)]
    pub targets: Vec<Target>,
}

/// A contestant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contestant {
    pub name: String,
    pub kind: Kind,
    /// The number of cores it may use.
    #[serde(default = "one")]
    pub cores: usize,
    /// The number of runs against a server or in the engine, which may cache parts of the object.
    /// With three or more runs the median counts, with fewer the last.
    #[serde(default = "one")]
    pub asks: usize,
    /// The formats in which it is measured; all if unset.
    pub formats: Option<Vec<DataFormat>>,
    /// The queries that it runs; all if unset.
    pub queries: Option<Vec<String>>,
    /// A command that prints the version on its first line.
    pub version: Option<String>,
}

fn one() -> usize {
    1
}

/// A query.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub name: String,
    pub about: String,
    /// Statements by contestant, kind or dialect: see [`Query::statement`].
    pub statement: BTreeMap<String, String>,
    /// Contestants that cannot answer.
    #[serde(default)]
    pub skip: Vec<String>,
    /// Contestants whose count may be larger than the right one.
    #[serde(default)]
    pub at_least: Vec<String>,
    /// Contestants whose result is not compared, since they answer a different question.
    #[serde(default)]
    pub unchecked: Vec<String>,
    /// Contestants that run on a part of the rows, with their share of the scale.
    #[serde(default)]
    pub scale: BTreeMap<String, f64>,
}

impl Query {
    /// Returns the statement of a contestant for this format; `None` if it does not take part.
    pub fn statement(&self, contestant: &Contestant, format: DataFormat) -> Option<&str> {
        let left_out = self.skip.contains(&contestant.name)
            || contestant.formats.as_ref().is_some_and(|formats| !formats.contains(&format))
            || contestant.queries.as_ref().is_some_and(|queries| !queries.contains(&self.name));
        if left_out {
            return None;
        }
        [Some(contestant.name.as_str()), Some(contestant.kind.name()), contestant.kind.dialect()]
            .into_iter()
            .flatten()
            .flat_map(|key| [format!("{key}-{format}"), key.to_owned()])
            .find_map(|key| self.statement.get(&key))
            .map(String::as_str)
    }
}

/// A target, which is one line of the table for each of its queries and formats.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub about: String,
    /// The contestant it is about.
    pub ours: String,
    /// The contestants to compare with; the best counts.
    #[serde(default)]
    pub theirs: Vec<String>,
    /// The query that `theirs` are measured with, if it is a different one.
    pub their_query: Option<String>,
    /// The formats that the target is about; all if unset.
    pub formats: Option<Vec<DataFormat>>,
    /// The queries that the target is about; if unset, all that both sides ran.
    pub queries: Option<Vec<String>>,
    /// The minimum speed-up over `theirs`.
    pub ratio: Option<f64>,
    /// Whether wall-clock seconds are compared instead of CPU seconds.
    #[serde(default)]
    pub wall: bool,
    /// The maximum peak memory of any scan, in MB.
    pub peak_mb: Option<f64>,
}

impl Definition {
    /// Parses a definition and checks that all names in it are defined.
    pub fn parse(text: &str) -> Result<Self> {
        let definition: Self = toml::from_str(text).context("the definition of the experiment")?;
        let contestants: Vec<&str> = definition.contestants.iter().map(|c| c.name.as_str()).collect();
        let queries: Vec<&str> = definition.queries.iter().map(|q| q.name.as_str()).collect();
        let known = |what: &str, names: &[&str], used: &[String]| {
            for name in used {
                ensure!(names.contains(&name.as_str()), "{what} '{name}' is used but not defined");
            }
            Ok(())
        };
        known("the contestant", &contestants, &definition.reference)?;
        for contestant in &definition.contestants {
            known("the query", &queries, contestant.queries.as_deref().unwrap_or_default())?;
            ensure!(contestant.cores > 0, "the contestant '{}' has no core", contestant.name);
            ensure!(contestant.asks > 0, "the contestant '{}' is never asked", contestant.name);
            ensure!(
                contestant.asks == 1 || contestant.kind.is_server() || contestant.kind == Kind::Engine,
                "the contestant '{}' is not a server or our engine, and is asked once",
                contestant.name
            );
        }
        for query in &definition.queries {
            known("the contestant", &contestants, &query.skip)?;
            known("the contestant", &contestants, &query.at_least)?;
            known("the contestant", &contestants, &query.unchecked)?;
            known("the contestant", &contestants, &query.scale.keys().cloned().collect::<Vec<_>>())?;
        }
        for target in &definition.targets {
            known("the contestant", &contestants, std::slice::from_ref(&target.ours))?;
            known("the contestant", &contestants, &target.theirs)?;
            known("the query", &queries, target.queries.as_deref().unwrap_or_default())?;
            known("the query", &queries, target.their_query.as_slice())?;
            let measures = [target.ratio, target.peak_mb].iter().flatten().count();
            ensure!(measures == 1, "the target '{}' needs either a ratio or peak_mb", target.about);
            let compares = target.ratio.is_none() || !target.theirs.is_empty();
            ensure!(compares, "the target '{}' names nothing in 'theirs' to compare with", target.about);
        }
        Ok(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_of_the_tree_are_sound() {
        let scan = Definition::parse(super::super::DEFINITION).unwrap();
        let cells = scan.queries.iter().flat_map(|query| {
            let contestants = scan.contestants.iter();
            contestants.filter(|contestant| query.statement(contestant, DataFormat::Csv).is_some())
        });
        assert!(cells.count() > 60);
        // Checks that every target is about something that is measured.
        for target in &scan.targets {
            let ours = scan.contestants.iter().find(|contestant| contestant.name == target.ours).unwrap();
            let formats = target.formats.as_ref().unwrap_or(&scan.formats);
            let measured = |query: &&Query| formats.iter().all(|format| query.statement(ours, *format).is_some());
            let queries = scan
                .queries
                .iter()
                .filter(measured)
                .filter(|query| target.queries.as_ref().is_none_or(|names| names.contains(&query.name)));
            let asked = target.queries.as_ref().map_or(1, Vec::len);
            assert!(queries.count() >= asked, "{}", target.about);
        }
    }

    #[test]
    fn the_nearest_statement_is_taken() {
        let query: Query = toml::from_str(
            "name = 'q'\nabout = ''\nskip = ['x']\n[statement]\nsql = 'a'\nsql-parquet = 'b'\nduckdb = 'c'\n'my node-csv' = 'd'",
        )
        .unwrap();
        let contestant = |name: &str, kind| Contestant {
            name: name.into(),
            kind,
            cores: 1,
            asks: 1,
            formats: None,
            queries: None,
            version: None,
        };
        let statement = |name, kind, format| query.statement(&contestant(name, kind), format).map(str::to_owned);
        assert_eq!(statement("engine", Kind::Engine, DataFormat::Csv).as_deref(), Some("a"));
        assert_eq!(statement("engine", Kind::Engine, DataFormat::Parquet).as_deref(), Some("b"));
        assert_eq!(statement("duck", Kind::Duckdb, DataFormat::Parquet).as_deref(), Some("c"));
        assert_eq!(statement("my node", Kind::Node, DataFormat::Csv).as_deref(), Some("d"));
        assert_eq!(statement("my node", Kind::Node, DataFormat::Parquet), None);
        assert_eq!(statement("x", Kind::Engine, DataFormat::Csv), None);
    }

    #[test]
    fn names_that_lead_nowhere_are_refused() {
        let text = |line: &str| super::super::DEFINITION.replacen("title =", &format!("{line}\ntitle ="), 1);
        assert!(Definition::parse(&text("")).is_ok());
        assert!(Definition::parse(&text("color = 1")).is_err());
        let wrong = super::super::DEFINITION.replacen("theirs = [\"minio\"]", "theirs = [\"minion\"]", 1);
        let error = Definition::parse(&wrong).unwrap_err();
        assert!(error.to_string().contains("minion"), "{error:#}");
    }
}
