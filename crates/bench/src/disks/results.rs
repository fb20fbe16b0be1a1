//! What was measured: the record as CSV, and tables of it.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::definition::Definition;
use crate::contestant::answer::Answer;
use crate::contestant::task::Measured;
use crate::record::aligned;
use crate::spread::Spread;

/// The columns of a record.
const COLUMNS: &str =
    "disks,nodes,query,series,runs,wall_s,wall_s_min,wall_s_max,engine_cpu_s,bytes,requests,storage_cpu_s";

/// The identity of a measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cell {
    /// The name of the disks.
    pub disks: String,
    pub nodes: usize,
    pub query: String,
    pub series: String,
}

/// The figures of a cell: medians over its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub runs: usize,
    pub wall_s: Spread,
    pub engine_cpu_s: f64,
    /// Bytes over the bus.
    pub bytes: f64,
    pub requests: f64,
    pub storage_cpu_s: f64,
}

/// All measurements.
#[derive(Debug, Default)]
pub struct Results {
    pub cells: Vec<(Cell, Vec<Measured>)>,
    /// Figures that were read from a record instead of measured.
    read: Vec<(Cell, Figures)>,
}

impl Results {
    /// Adds a measurement.
    pub fn add(&mut self, cell: Cell, measured: Measured) {
        match self.cells.iter_mut().find(|(known, _)| *known == cell) {
            Some((_, runs)) => runs.push(measured),
            None => self.cells.push((cell, vec![measured])),
        }
    }

    /// The figures of every cell, in the order in which they were measured.
    pub fn figures(&self) -> Vec<(Cell, Figures)> {
        let measured = self.cells.iter().filter_map(|(cell, runs)| Some((cell.clone(), figures(runs)?)));
        measured.chain(self.read.iter().cloned()).collect()
    }

    /// Describes results that differ from the first measurement of their query.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (cell, runs) in &self.cells {
            let first = self.cells.iter().find(|(other, _)| other.query == cell.query);
            let want: Option<&Answer> = first.and_then(|(_, runs)| runs.first()).map(|measured| &measured.answer);
            for measured in runs {
                if let Some(how) = want.and_then(|want| measured.answer.differs_from(want)) {
                    wrong.push(format!("{} by {} on {}: {how}", cell.query, cell.series, cell.disks));
                }
            }
        }
        wrong
    }

    /// Formats the record.
    pub fn csv(&self, about: &str) -> String {
        let mut text = format!("# {about}\n{COLUMNS}\n");
        for (cell, f) in self.figures() {
            let Cell { disks, nodes, query, series } = cell;
            let Spread { median, min, max } = f.wall_s;
            let _ = writeln!(
                text,
                "{disks},{nodes},{query},{series},{},{median:.3},{min:.3},{max:.3},{:.3},{:.0},{:.0},{:.3}",
                f.runs, f.engine_cpu_s, f.bytes, f.requests, f.storage_cpu_s
            );
        }
        text
    }

    /// Parses a record.
    pub fn read(text: &str) -> Result<Self> {
        let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
        ensure!(lines.next() == Some(COLUMNS), "is no record of disks");
        let mut read = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split(',').collect();
            let text = |place: usize| words.get(place).copied().context("a line with too few columns");
            let number = |place: usize| Ok::<f64, anyhow::Error>(text(place)?.parse()?);
            let cell = Cell {
                disks: text(0)?.to_owned(),
                nodes: text(1)?.parse()?,
                query: text(2)?.to_owned(),
                series: text(3)?.to_owned(),
            };
            let figures = Figures {
                runs: text(4)?.parse()?,
                wall_s: Spread { median: number(5)?, min: number(6)?, max: number(7)? },
                engine_cpu_s: number(8)?,
                bytes: number(9)?,
                requests: number(10)?,
                storage_cpu_s: number(11)?,
            };
            read.push((cell, figures));
        }
        Ok(Self { cells: vec![], read })
    }

    /// Formats tables of the throughput, of the engine's CPU time, and of both beside table 6 of
    /// the paper.
    pub fn tables(&self, definition: &Definition) -> String {
        let all = self.figures();
        let of = |disks: &str, query: &str, series: &str| {
            let is = |cell: &Cell| cell.disks == disks && cell.query == query && cell.series == series;
            all.iter().find(|(cell, _)| is(cell)).map(|(_, figures)| figures)
        };
        // The size of a query's data, which is what the traditional series reads.
        let mb = |disks: &str, query: &str| {
            let traditional = definition.series.first().and_then(|series| of(disks, query, &series.name));
            traditional.map(|figures| figures.bytes / 1e6)
        };
        let names: Vec<String> = definition.disks().into_iter().map(|disks| disks.name).collect();
        let mut text = String::new();
        for (title, value) in [
            (
                "MB/s",
                &(|figures: &Figures, mb: f64| format!("{:.1}", mb / figures.wall_s.median)) as &dyn Fn(&_, _) -> _,
            ),
            ("CPU seconds of the engine", &|figures: &Figures, _| format!("{:.2}", figures.engine_cpu_s)),
            ("MB over the bus", &|figures: &Figures, _| format!("{:.2}", figures.bytes / 1e6)),
        ] {
            let mut rows = vec![[vec!["query".to_owned(), "way".to_owned()], names.clone()].concat()];
            for query in &definition.queries {
                for series in &definition.series {
                    let cells = names.iter().map(|disks| {
                        let figures = of(disks, &query.name, &series.name).zip(mb(disks, &query.name));
                        figures.map(|(figures, mb)| value(figures, mb)).unwrap_or_default()
                    });
                    let about = [format!("{} ({})", query.name, query.shows), series.name.clone()];
                    rows.push(about.into_iter().chain(cells).collect());
                }
            }
            let _ = writeln!(text, "{title}, by the number of disks\n\n{}", aligned(&rows));
        }
        let head = ["query", "paper: server", "paper: active", "ratio", "here: traditional", "here: active", "ratio"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for paper in &definition.paper {
            let here = |series: &str| {
                of("8", &paper.query, series).zip(mb("8", &paper.query)).map(|(f, mb)| mb / f.wall_s.median)
            };
            let (Some(traditional), Some(active)) = (here("traditional"), here("active")) else { continue };
            let mut row = vec![paper.query.clone()];
            row.extend([paper.traditional, paper.active].map(|rate| format!("{rate:.1}")));
            row.push(format!("{:.2}", paper.active / paper.traditional));
            row.extend([traditional, active].map(|rate| format!("{rate:.1}")));
            row.push(format!("{:.2}", active / traditional));
            rows.push(row);
        }
        let _ = writeln!(text, "MB/s with eight disks, beside table 6\n\n{}", aligned(&rows));
        text
    }
}

fn figures(runs: &[Measured]) -> Option<Figures> {
    let median = |value: &dyn Fn(&Measured) -> f64| Spread::of(runs.iter().map(value)).map(|spread| spread.median);
    let traffic = |value: &dyn Fn(&crate::contestant::task::Traffic) -> f64| {
        median(&|measured| measured.traffic.as_ref().map_or(0.0, value))
    };
    Some(Figures {
        runs: runs.len(),
        wall_s: Spread::of(runs.iter().map(|measured| measured.wall_s))?,
        engine_cpu_s: median(&|measured| measured.cpu_s)?,
        bytes: traffic(&|traffic| traffic.bytes as f64)?,
        requests: traffic(&|traffic| traffic.requests as f64)?,
        storage_cpu_s: traffic(&|traffic| traffic.storage_cpu_s)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let cell = |disks: &str, series: &str| Cell {
            disks: disks.to_owned(),
            nodes: 4,
            query: "select".to_owned(),
            series: series.to_owned(),
        };
        let figures = |wall_s: f64, bytes: f64| Figures {
            runs: 3,
            wall_s: Spread { median: wall_s, min: wall_s - 0.5, max: wall_s + 0.5 },
            engine_cpu_s: 0.125,
            bytes,
            requests: 12.0,
            storage_cpu_s: 0.5,
        };
        let read = vec![(cell("8", "traditional"), figures(4.0, 80e6)), (cell("8", "active"), figures(2.0, 4e6))];
        let results = Results { cells: vec![], read: read.clone() };
        assert_eq!(Results::read(&results.csv("a machine")).unwrap().figures(), read);
        assert!(Results::read("a,b\n1,2\n").is_err());
        let definition = Definition::parse(include_str!("../../../../experiments/disks.toml")).unwrap();
        let tables = results.tables(&definition);
        assert!(tables.contains("20.0") && tables.contains("40.0") && tables.contains("| 2.00"), "{tables}");
    }
}
