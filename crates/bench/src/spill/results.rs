//! The measurements of an experiment: medians, and whether contestants agree.

use super::contestants::Contestant;
use super::measure::{Measured, Spilled};
use super::queries::Query;
use crate::spread::Spread;

/// All measurements, in the order of queries and contestants.
#[derive(Debug, Default)]
pub struct Results {
    pub cells: Vec<Cell>,
}

/// The measurements of a query by a contestant.
#[derive(Debug)]
pub struct Cell {
    pub query: Query,
    /// The memory limit in bytes.
    pub memory: u64,
    pub contestant: Contestant,
    pub runs: Vec<Measured>,
    /// The error of its last failed run.
    pub failed: Option<String>,
}

impl Cell {
    /// The spread of a figure; `None` if nothing was measured, or the contestant does not report
    /// it.
    pub fn figure(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.runs.iter().map(of).collect();
        Spread::of(values?.into_iter())
    }

    /// The spread of a figure of what was spilled.
    pub fn spilled(&self, of: impl Fn(&Spilled) -> f64) -> Option<Spread> {
        self.figure(|measured| measured.spilled.as_ref().map(&of))
    }
}

impl Results {
    /// Describes which contestants gave another answer than the first contestant of their query.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for cell in &self.cells {
            let mut same = self.cells.iter().filter(|other| other.query.name == cell.query.name);
            let Some(first) = same.find_map(|other| other.runs.first().map(|run| (other.contestant, run.answer)))
            else {
                continue;
            };
            if let Some(run) = cell.runs.iter().find(|run| !run.answer.agrees(&first.1)) {
                let (query, name, other) = (cell.query.name, cell.contestant.name(), first.0.name());
                wrong.push(format!("{query}: {name} has {:?}, {other} {:?}", run.answer, first.1));
            }
        }
        wrong
    }
}
