//! Results of a grid: the figures of each cell, written to and read from a CSV file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::definition::Grid;
use super::storage::PRICE_BOOKS;
use crate::contestant::DataFormat;
use crate::contestant::answer::Answer;
use crate::contestant::task::Measured;
use crate::journal::{Entry, Outcome};
use crate::spread::Spread;

/// A cell of a grid.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Cell {
    pub condition: String,
    pub format: DataFormat,
    pub point: String,
    pub series: String,
}

/// The figures of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub runs: usize,
    pub rows: u64,
    pub seconds: Spread,
    /// Dollars by each of [`PRICE_BOOKS`]; only PushdownDB reports costs.
    pub dollars: Vec<Option<Spread>>,
    /// Bytes sent over the network.
    pub bytes: Option<u64>,
    pub requests: Option<u64>,
    pub engine_cpu_s: f64,
    /// CPU time that storage spent on fragments, in seconds.
    pub storage_cpu_s: f64,
}

impl Figure {
    fn of(all: &[&Measured]) -> Option<Self> {
        let traffic = || all.iter().filter_map(|measured| measured.traffic.as_ref());
        let dollars = |book: &str| Spread::of(traffic().filter_map(|traffic| traffic.dollars.get(book).copied()));
        let median = |values: &mut dyn Iterator<Item = f64>| Spread::of(values).map_or(0.0, |spread| spread.median);
        Some(Self {
            runs: all.len(),
            rows: all.first()?.answer.rows(),
            seconds: Spread::of(all.iter().map(|measured| measured.wall_s))?,
            dollars: PRICE_BOOKS.iter().map(|book| dollars(book)).collect(),
            bytes: Spread::of(traffic().map(|traffic| traffic.bytes as f64)).map(|spread| spread.median as u64),
            requests: Spread::of(traffic().map(|traffic| traffic.requests as f64)).map(|spread| spread.median as u64),
            engine_cpu_s: median(&mut all.iter().map(|measured| measured.cpu_s)),
            storage_cpu_s: median(&mut traffic().map(|traffic| traffic.storage_cpu_s)),
        })
    }

    /// The energy of both cores during the query, in joules (YourSQL, Section 4.2.6, measures that
    /// of whole machines).
    fn joules(&self) -> f64 {
        let busy_s = self.engine_cpu_s + self.storage_cpu_s;
        BUSY_CORE_WATTS * busy_s + IDLE_CORE_WATTS * (CORES * self.seconds.median - busy_s).max(0.0)
    }

    /// Returns a figure by its name in definitions.
    pub fn metric(&self, name: &str) -> Option<Spread> {
        let exact = |value: Option<u64>| value.map(|value| Spread::exact(value as f64));
        match name {
            "seconds" => Some(self.seconds),
            "bytes" => exact(self.bytes),
            "requests" => exact(self.requests),
            "cpu" => Some(Spread::exact(self.engine_cpu_s + self.storage_cpu_s)),
            "joules" => Some(Spread::exact(self.joules())),
            book => *self.dollars.get(PRICE_BOOKS.iter().position(|known| *known == book)?)?,
        }
    }
}

/// Watts of a busy and of an idle core: the averages for a virtual CPU on AWS's machines in the
/// methodology of Cloud Carbon Footprint.
const BUSY_CORE_WATTS: f64 = 3.5;
const IDLE_CORE_WATTS: f64 = 0.74;

/// Cores of a measurement: one at the engine, one at storage.
const CORES: f64 = 2.0;

/// All figures of a grid, and the lines before them in the file: names and texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub about: Vec<(String, String)>,
    pub figures: BTreeMap<Cell, Figure>,
}

impl Results {
    /// Computes the figures of all measurements. Also returns wrong rows and failures.
    pub fn of(grid: &Grid, entries: &[Entry<Cell>]) -> (Self, Vec<String>, BTreeMap<Cell, String>) {
        let mut measured: BTreeMap<&Cell, Vec<&Measured>> = BTreeMap::new();
        let mut failures = BTreeMap::new();
        for entry in entries {
            match &entry.result {
                Outcome::Measured(result) => measured.entry(&entry.cell).or_default().push(result),
                Outcome::Failed(why) => drop(failures.insert(entry.cell.clone(), why.clone())),
            }
        }
        failures.retain(|cell, _| !measured.contains_key(cell));
        let wrong = wrong_rows(grid, &measured);
        let figures = measured.iter().filter_map(|(cell, all)| Some(((*cell).clone(), Figure::of(all)?))).collect();
        (Self { about: Vec::new(), figures }, wrong, failures)
    }

    /// Adds a line before the figures.
    pub fn say(&mut self, name: &str, text: impl Into<String>) {
        self.about.push((name.to_owned(), text.into().split_whitespace().collect::<Vec<_>>().join(" ")));
    }

    /// The texts of the lines with this name.
    pub fn said<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.about.iter().filter(move |(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// The figure of a series at a point.
    pub fn figure(&self, condition: &str, format: DataFormat, point: &str, series: &str) -> Option<&Figure> {
        let cell = Cell { condition: condition.to_owned(), format, point: point.to_owned(), series: series.to_owned() };
        self.figures.get(&cell)
    }

    /// Formats the file, with the cells in the order of the definition.
    pub fn to_csv(&self, grid: &Grid) -> String {
        let mut text: String = self.about.iter().map(|(name, line)| format!("# {name}: {line}\n")).collect();
        text.push_str("condition,format,point,x,series,runs,rows");
        for name in std::iter::once("seconds").chain(PRICE_BOOKS) {
            let _ = write!(text, ",{name},{name} min,{name} max");
        }
        text.push_str(",bytes,requests,engine_cpu_s,storage_cpu_s\n");
        let in_order = grid.conditions.iter().flat_map(|condition| {
            grid.formats.iter().flat_map(move |format| {
                grid.points
                    .iter()
                    .flat_map(move |point| grid.series.iter().map(move |series| (condition, *format, point, series)))
            })
        });
        for (condition, format, point, series) in in_order {
            let Some(figure) = self.figure(&condition.name, format, &point.name, &series.name) else { continue };
            let x = point.x.map(|x| x.to_string()).unwrap_or_default();
            let (condition, point, series) = (&condition.name, &point.name, &series.name);
            let _ = write!(text, "{condition},{format},{point},{x},{series},{},{}", figure.runs, figure.rows);
            for spread in std::iter::once(Some(figure.seconds)).chain(figure.dollars.iter().copied()) {
                match spread {
                    Some(spread) => {
                        let _ = write!(text, ",{},{},{}", short(spread.median), short(spread.min), short(spread.max));
                    }
                    None => text.push_str(",,,"),
                }
            }
            let whole = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (bytes, requests) = (whole(figure.bytes), whole(figure.requests));
            let (engine, storage) = (short(figure.engine_cpu_s), short(figure.storage_cpu_s));
            let _ = writeln!(text, ",{bytes},{requests},{engine},{storage}");
        }
        text
    }

    /// Parses the file.
    pub fn from_csv(text: &str) -> Result<Self> {
        let mut results = Self::default();
        let mut lines = text.lines();
        for line in lines.by_ref() {
            match line.strip_prefix("# ") {
                Some(about) => {
                    let (name, line) = about.split_once(": ").unwrap_or((about, ""));
                    results.about.push((name.to_owned(), line.to_owned()));
                }
                // This line has the names of the columns.
                None => break,
            }
        }
        for line in lines {
            let (cell, figure) = row(line).with_context(|| format!("the line {line}"))?;
            results.figures.insert(cell, figure);
        }
        Ok(results)
    }
}

fn row(line: &str) -> Result<(Cell, Figure)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [condition, format, point, _x, series, runs, rows, rest @ ..] = fields.as_slice() else { bail!("too short") };
    let (spreads, rest) = rest.split_at_checked(3 + 3 * PRICE_BOOKS.len()).context("too short")?;
    let [bytes, requests, engine, storage] = rest else { bail!("too many columns, or too few") };
    let mut spreads = spreads.chunks(3).map(|three| -> Result<Option<Spread>> {
        match three {
            ["", ..] => Ok(None),
            [median, min, max] => Ok(Some(Spread { median: median.parse()?, min: min.parse()?, max: max.parse()? })),
            _ => bail!("too short"),
        }
    });
    let seconds = spreads.next().context("no seconds")??.context("no seconds")?;
    let whole = |field: &str| if field.is_empty() { Ok(None) } else { field.parse().map(Some) };
    let format =
        serde::Deserialize::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(format))?;
    let text = |field: &str| field.to_owned();
    let cell = Cell { condition: text(condition), format, point: text(point), series: text(series) };
    let figure = Figure {
        runs: runs.parse()?,
        rows: rows.parse()?,
        seconds,
        dollars: spreads.collect::<Result<_>>()?,
        bytes: whole(bytes)?,
        requests: whole(requests)?,
        engine_cpu_s: engine.parse()?,
        storage_cpu_s: storage.parse()?,
    };
    Ok((cell, figure))
}

/// Formats a number with six decimals, or with an exponent if it is very small.
fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 { format!("{value:.5e}") } else { format!("{value:.6}") }
}

/// Describes rows that differ from the baseline's: they must not depend on pushdown, placement or
/// link.
fn wrong_rows(grid: &Grid, measured: &BTreeMap<&Cell, Vec<&Measured>>) -> Vec<String> {
    let mut right: BTreeMap<&str, &Answer> = BTreeMap::new();
    for (cell, all) in measured.iter().filter(|(cell, _)| cell.series == grid.baseline) {
        if let Some(first) = all.first() {
            right.entry(&cell.point).or_insert(&first.answer);
        }
    }
    let mut wrong = Vec::new();
    for (cell, all) in measured {
        let Some(right) = right.get(cell.point.as_str()) else { continue };
        if let Some(why) = all.iter().find_map(|measured| measured.answer.differs_from(right)) {
            wrong.push(format!("{}; {}; {}; {}: {why}", cell.point, cell.series, cell.format, cell.condition));
        }
    }
    wrong
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::DEFINITIONS;
    use super::*;

    /// A figure with these medians of `seconds` and `dollars`, and a spread of a quarter.
    pub fn figure(seconds: f64, dollars: Option<f64>) -> Figure {
        let around = |value: f64| Spread { median: value, min: value * 0.75, max: value * 1.25 };
        Figure {
            runs: 3,
            rows: 7,
            seconds: around(seconds),
            dollars: vec![dollars.map(around); PRICE_BOOKS.len()],
            bytes: dollars.map(|_| 1000),
            requests: None,
            engine_cpu_s: 0.25,
            storage_cpu_s: 0.0,
        }
    }

    #[test]
    fn results_are_read_again() {
        let grid = Grid::parse(DEFINITIONS[0].1).unwrap();
        let mut results = Results::default();
        results.say("date", "2026-11-22");
        let cell = |series: &super::super::definition::Series| Cell {
            condition: grid.conditions[0].name.clone(),
            format: grid.formats[0],
            point: grid.points[0].name.clone(),
            series: series.name.clone(),
        };
        results.figures.insert(cell(&grid.series[0]), figure(19.5, Some(0.25)));
        results.figures.insert(cell(&grid.series[1]), figure(0.5, None));
        let again = Results::from_csv(&results.to_csv(&grid)).unwrap();
        assert_eq!(again, results);
        assert_eq!(again.figures.values().filter_map(|figure| figure.metric("paper-egress")).count(), 1);
        assert!(Results::from_csv("condition\na,b\n").is_err());
    }
}
