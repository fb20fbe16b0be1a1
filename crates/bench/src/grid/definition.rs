//! The definition of a grid, a file of `experiments/`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pushdowndb_datagen::DataSet;
use serde::Deserialize;

use super::trouble::Trouble;
use crate::contestant::{DataFormat, Kind};
use crate::queries;

/// An experiment in which every point is measured with every series, in every format and under
/// every condition.
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
    /// The number of runs of cells that would count as a regret after [`Grid::runs`] runs; 0
    /// disables additional runs.
    #[serde(default)]
    pub runs_in_doubt: u32,
    /// Cells slower than the fastest of their point by more than this factor are measured only
    /// once.
    #[serde(default = "two")]
    pub again: f64,
    /// Whether series that lead to the same plan share one measurement.
    #[serde(default)]
    pub once_a_plan: bool,
    pub formats: Vec<DataFormat>,
    #[serde(rename = "condition", default = "Condition::standard")]
    pub conditions: Vec<Condition>,
    /// The series whose rows are taken as correct.
    pub baseline: String,
    /// Indexes that exist during the experiment, as `table (column)`.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// The meaning of the points' `x`, for plots.
    #[serde(default)]
    pub axis: String,
    /// The statement of points that have none of their own. `{name}` is replaced by one of the
    /// point's values.
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
    /// The data set that contains the tables.
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
    /// The cap in each direction in MB/s; 0 is no cap.
    pub mb_per_s: u32,
    pub trouble: Option<Trouble>,
    pub distance: Option<Distance>,
}

/// A distant server: the delay of its answers, and the cap of each connection.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    pub first_ms: u32,
    /// The cap in MB/s.
    pub connection_mb_per_s: u32,
}

impl Condition {
    /// Returns the default links: one core's share of the paper's network, a fast link, and no cap.
    fn standard() -> Vec<Self> {
        let link = |name: &str, mb_per_s| Self { name: name.to_owned(), mb_per_s, trouble: None, distance: None };
        vec![link("40 MB/s", 40), link("125 MB/s", 125), link("unshaped", 0)]
    }
}

/// A program with its settings, drawn as a line of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    #[serde(default = "engine")]
    pub kind: Kind,
    /// Settings without the prefix `pushdown.`. `{name}` is replaced by one of the point's values.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The points where it is measured; all if unset.
    pub points: Option<Vec<String>>,
    /// The formats in which it is measured; all if unset.
    pub formats: Option<Vec<DataFormat>>,
    /// Whether the series is measured in every round, even if it is slow.
    #[serde(default)]
    pub always: bool,
}

fn engine() -> Kind {
    Kind::Engine
}

/// A query, at a position on the figure's axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub name: String,
    pub x: Option<f64>,
    /// Its own statement; otherwise the grid's, or the one with this name in `sql/tpch`.
    pub statement: Option<String>,
    /// The values to insert into the statement and settings.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

/// A claim about the ratio of other series to `of`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name by which [`Grid::reading`] refers to the claim.
    #[serde(default)]
    pub name: String,
    pub about: String,
    /// `seconds`, `bytes`, `requests`, or a price book for dollars.
    #[serde(default = "seconds")]
    pub metric: String,
    pub of: String,
    /// The series to compare with; the best of them counts.
    pub over: Vec<String>,
    /// The points that the claim is about; if unset, all that both sides measured.
    pub points: Option<Vec<String>>,
    /// The points of the two sides if they differ: that of `of`, and that of the other series.
    pub at: Option<[String; 2]>,
    pub conditions: Option<Vec<String>>,
    pub formats: Option<Vec<DataFormat>>,
    #[serde(default)]
    pub how: How,
    /// The target value.
    pub at_least: Option<f64>,
    /// The value in the paper.
    pub paper: Option<f64>,
}

fn seconds() -> String {
    "seconds".to_owned()
}

/// How the ratios of several points are combined.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Their geometric mean.
    #[default]
    Mean,
    /// The ratio of the sums.
    Total,
    /// The smallest of them.
    Worst,
}

/// A comparison of a series that chooses its strategy with all other series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regret {
    pub about: String,
    pub metric: String,
    pub chosen: String,
    /// Series that are not fixed settings, and are left out.
    #[serde(default)]
    pub besides: Vec<String>,
    /// The allowed factor relative to the best fixed setting.
    pub of_best: f64,
    /// The allowed factor relative to the grid's baseline.
    pub of_baseline: f64,
}

impl Grid {
    /// Parses a definition and checks that all names in it are defined.
    pub fn parse(text: &str) -> Result<Self> {
        let grid: Self = toml::from_str(text).context("the definition of the experiment")?;
        let series: Vec<&str> = grid.series.iter().map(|series| series.name.as_str()).collect();
        let points: Vec<&str> = grid.points.iter().map(|point| point.name.as_str()).collect();
        let conditions: Vec<&str> = grid.conditions.iter().map(|condition| condition.name.as_str()).collect();
        for name in series.iter().chain(&points).chain(&conditions) {
            // Names are written to CSV without quotes.
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
    /// Whether it is measured at this point in this format.
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
