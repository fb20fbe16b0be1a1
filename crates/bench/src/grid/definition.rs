//! The definition of a grid, a file of `experiments/`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pushdowndb_datagen::DataSet;
use serde::Deserialize;

use super::trouble::Trouble;
use crate::contestant::{DataFormat, Kind};
use crate::queries;

/// Every point is measured with every series, in every format and under every condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    pub title: String,
    /// The source of the claims, and the paper's setup.
    #[serde(default)]
    pub source: String,
    /// The text about the results. `{name}` is the value of that claim.
    #[serde(default)]
    pub reading: String,
    pub data: Data,
    #[serde(default = "one")]
    pub scale: f64,
    #[serde(default = "three")]
    pub runs: u32,
    /// The number of runs of cells that would count as a regret after [`Grid::runs`]; 0 for no
    /// further ones.
    #[serde(default)]
    pub runs_in_doubt: u32,
    /// The factor over the fewest seconds of its point beyond which a cell is measured once only.
    #[serde(default = "two")]
    pub again: f64,
    /// True if series that lead to the same plan are measured once for all of them.
    #[serde(default)]
    pub once_a_plan: bool,
    pub formats: Vec<DataFormat>,
    #[serde(rename = "condition", default = "Condition::standard")]
    pub conditions: Vec<Condition>,
    /// The series whose rows are the right ones.
    pub baseline: String,
    /// Indexes that exist while it runs, as `table (column)`.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// The meaning of the points' `x`, for plots.
    #[serde(default)]
    pub axis: String,
    /// Statement of the points that have none of their own. `{name}` is one of the point's values.
    pub statement: Option<String>,
    #[serde(rename = "series")]
    pub series: Vec<Series>,
    #[serde(rename = "point")]
    pub points: Vec<Point>,
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
    #[serde(rename = "regret", default)]
    pub regrets: Vec<Regret>,
}

fn one() -> f64 {
    1.0
}

fn two() -> f64 {
    2.0
}

fn three() -> u32 {
    3
}

/// The tables.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    Tpch,
    Groups,
    Floats,
}

impl Data {
    /// The set that holds them.
    pub fn set(self) -> DataSet {
        match self {
            Self::Tpch => DataSet::Tpch,
            Self::Groups => DataSet::Groups,
            Self::Floats => DataSet::Floats,
        }
    }
}

/// The link between engine and node, and the node's other load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    pub name: String,
    /// 10^6 bytes a second each way; 0 is no cap.
    pub mb_per_s: u32,
    pub trouble: Option<Trouble>,
    pub distance: Option<Distance>,
}

/// A server that is far: how late its answers begin, and what a connection carries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    pub first_ms: u32,
    /// 10^6 bytes a second.
    pub connection_mb_per_s: u32,
}

impl Condition {
    /// Returns the default links: one core's share of the paper's network, a fast one, and no cap.
    fn standard() -> Vec<Self> {
        let link = |name: &str, mb_per_s| Self { name: name.to_owned(), mb_per_s, trouble: None, distance: None };
        vec![link("40 MB/s", 40), link("125 MB/s", 125), link("unshaped", 0)]
    }
}

/// A program with its settings: a line of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    #[serde(default = "engine")]
    pub kind: Kind,
    /// Settings of pushdown, without that prefix. `{name}` is one of the point's values.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// All, if unset.
    pub points: Option<Vec<String>>,
    /// All, if unset.
    pub formats: Option<Vec<DataFormat>>,
    /// True if the series is measured in every round, even if it is slow.
    #[serde(default)]
    pub always: bool,
}

fn engine() -> Kind {
    Kind::Engine
}

/// A query: a place on the figure's axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub name: String,
    pub x: Option<f64>,
    /// Its own statement; else the grid's, else the one of `sql/tpch` with its name.
    pub statement: Option<String>,
    /// The values to insert into statement and settings.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

/// A ratio of two series: the others relative to `of`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name in [`Grid::reading`].
    #[serde(default)]
    pub name: String,
    pub about: String,
    /// `seconds`, `bytes`, `requests`, or the price book of dollars.
    #[serde(default = "seconds")]
    pub metric: String,
    pub of: String,
    /// The one that takes the least counts.
    pub over: Vec<String>,
    /// All that both sides measured, if unset.
    pub points: Option<Vec<String>>,
    /// The points of both sides, if they differ: of `of`, and of the others.
    pub at: Option<[String; 2]>,
    pub conditions: Option<Vec<String>>,
    pub formats: Option<Vec<DataFormat>>,
    #[serde(default)]
    pub how: How,
    /// The target.
    pub at_least: Option<f64>,
    /// The value in the paper.
    pub paper: Option<f64>,
}

fn seconds() -> String {
    "seconds".to_owned()
}

/// The function that joins the ratios of several points.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Their geometric mean.
    #[default]
    Mean,
    /// The ratio of the sums.
    Total,
    /// The least of them.
    Worst,
}

/// One series that chooses, against all others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regret {
    pub about: String,
    pub metric: String,
    pub chosen: String,
    /// Series that are no fixed setting.
    #[serde(default)]
    pub besides: Vec<String>,
    /// The allowed factor over the best fixed setting.
    pub of_best: f64,
    /// The allowed factor over the grid's baseline.
    pub of_baseline: f64,
}

impl Grid {
    /// Reads a definition and checks that its names lead somewhere.
    pub fn parse(text: &str) -> Result<Self> {
        let grid: Self = toml::from_str(text).context("the definition of the experiment")?;
        let series: Vec<&str> = grid.series.iter().map(|series| series.name.as_str()).collect();
        let points: Vec<&str> = grid.points.iter().map(|point| point.name.as_str()).collect();
        let conditions: Vec<&str> = grid.conditions.iter().map(|condition| condition.name.as_str()).collect();
        for name in series.iter().chain(&points).chain(&conditions) {
            // They stand in CSV as they are.
            ensure!(!name.contains([',', '"', '\n', '#']), "the name '{name}' has a character of CSV");
        }
        let known = |what: &str, names: &[&str], used: &[String]| {
            for name in used {
                ensure!(names.contains(&name.as_str()), "the {what} '{name}' is used but not defined");
            }
            Ok(())
        };
        known("series", &series, std::slice::from_ref(&grid.baseline))?;
        for one in &grid.series {
            known("point", &points, one.points.as_deref().unwrap_or_default())?;
        }
        for point in &grid.points {
            grid.text(point).with_context(|| point.name.clone())?;
        }
        for claim in &grid.claims {
            known("series", &series, std::slice::from_ref(&claim.of))?;
            known("series", &series, &claim.over)?;
            known("point", &points, claim.points.as_deref().unwrap_or_default())?;
            known("point", &points, claim.at.as_ref().map_or(&[][..], |at| at.as_slice()))?;
            known("condition", &conditions, claim.conditions.as_deref().unwrap_or_default())?;
            ensure!(!claim.over.is_empty(), "the claim '{}' names nothing in 'over' to compare with", claim.about);
        }
        for regret in &grid.regrets {
            known("series", &series, std::slice::from_ref(&regret.chosen))?;
            known("series", &series, &regret.besides)?;
        }
        Ok(grid)
    }

    /// The statement of a point.
    pub fn text(&self, point: &Point) -> Result<String> {
        let text = match point.statement.as_deref().or(self.statement.as_deref()) {
            Some(text) => text,
            None => queries::tpch(&point.name)?,
        };
        filled_in(text, point)
    }

    /// The settings of a series at a point.
    pub fn settings(&self, series: &Series, point: &Point) -> Result<BTreeMap<String, String>> {
        series.settings.iter().map(|(name, value)| Ok((name.clone(), filled_in(value, point)?))).collect()
    }
}

impl Series {
    /// True if it is measured at this point in this format.
    pub fn takes(&self, point: &Point, format: DataFormat) -> bool {
        self.points.as_ref().is_none_or(|points| points.contains(&point.name))
            && self.formats.as_ref().is_none_or(|formats| formats.contains(&format))
    }
}

fn filled_in(text: &str, point: &Point) -> Result<String> {
    let text =
        point.values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
    ensure!(!text.contains('{'), "a value is missing in: {text}");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::DEFINITIONS;
    use super::*;

    #[test]
    fn the_definitions_of_the_tree_are_sound() {
        for (name, text) in DEFINITIONS {
            let grid = Grid::parse(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            let baseline = grid.series.iter().find(|series| series.name == grid.baseline).unwrap();
            for (format, point) in grid.formats.iter().flat_map(|f| grid.points.iter().map(move |p| (f, p))) {
                assert!(baseline.takes(point, *format), "{name}: {} has no right rows", point.name);
                for series in &grid.series {
                    grid.settings(series, point).unwrap_or_else(|error| panic!("{name}: {error:#}"));
                }
            }
            // Every name in the text must be that of a claim.
            let mut read = grid.reading.split('{').skip(1).filter_map(|rest| rest.split(['}', '@']).next());
            let lost = read.find(|used| !grid.claims.iter().any(|claim| claim.name == *used));
            assert_eq!(lost, None, "{name}");
        }
    }

    #[test]
    fn names_that_lead_nowhere_are_refused() {
        let (_, text) = DEFINITIONS[0];
        let wrong = text.replacen("baseline = \"", "baseline = \"un", 1);
        assert!(Grid::parse(&wrong).unwrap_err().to_string().contains("not defined"));
        let wrong = text.replacen("{at}", "{it}", 1);
        assert!(format!("{:#}", Grid::parse(&wrong).unwrap_err()).contains("a value is missing"));
    }
}
