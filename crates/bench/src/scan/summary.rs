//! Figures of measurements: medians with their spread, comparisons of answers, targets.

use std::collections::BTreeMap;

use super::definition::{Definition, Query, Target};
use crate::contestant::DataFormat;
use crate::contestant::answer::Answer;
use crate::contestant::task::Measured;
use crate::journal::{Cell, Entry, Outcome};
use crate::spread::Spread;

/// The figures of one cell.
#[derive(Clone, Debug)]
pub struct Figure {
    pub runs: usize,
    pub bytes: u64,
    pub cpu_s: Spread,
    pub wall_s: Spread,
    pub peak_bytes: Option<u64>,
    pub rows: u64,
}

impl Figure {
    fn of(measured: &[(u64, &Measured)]) -> Option<Self> {
        Some(Self {
            runs: measured.len(),
            bytes: measured.first()?.0,
            cpu_s: Spread::of(measured.iter().map(|(_, m)| m.cpu_s))?,
            wall_s: Spread::of(measured.iter().map(|(_, m)| m.wall_s))?,
            peak_bytes: measured.iter().filter_map(|(_, m)| m.peak_bytes).max(),
            rows: measured.first()?.1.answer.rows(),
        })
    }

    fn gigabytes(&self) -> f64 {
        self.bytes as f64 / 1e9
    }

    /// CPU seconds per GB.
    pub fn cpu_s_per_gb(&self) -> Spread {
        self.cpu_s.over(self.gigabytes())
    }

    /// Wall-clock seconds per GB.
    pub fn wall_s_per_gb(&self) -> Spread {
        self.wall_s.over(self.gigabytes())
    }

    /// MB (10^6 bytes) per wall-clock second.
    pub fn mb_per_s(&self) -> f64 {
        1000.0 / self.wall_s_per_gb().median.max(1e-9)
    }
}

/// The figures of cells, and the reasons why other cells have none.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub figures: BTreeMap<Cell, Figure>,
    pub failures: BTreeMap<Cell, String>,
    /// Descriptions of wrong answers; a single one invalidates the whole run.
    pub wrong: Vec<String>,
}

impl Summary {
    /// Summarizes all measurements.
    pub fn of(definition: &Definition, entries: &[Entry]) -> Self {
        let mut measured: BTreeMap<Cell, Vec<(u64, &Measured)>> = BTreeMap::new();
        let mut summary = Self::default();
        for entry in entries {
            match &entry.result {
                Outcome::Measured(result) => {
                    measured.entry(entry.cell.clone()).or_default().push((entry.bytes, result))
                }
                Outcome::Failed(why) => {
                    summary.failures.insert(entry.cell.clone(), why.clone());
                }
            }
        }
        summary.failures.retain(|cell, _| !measured.contains_key(cell));
        for query in &definition.queries {
            summary.wrong.extend(wrong_answers(definition, query, &measured));
        }
        summary.figures = measured.into_iter().filter_map(|(cell, all)| Some((cell, Figure::of(&all)?))).collect();
        summary
    }

    /// The figure of a contestant on a query.
    pub fn figure(&self, format: DataFormat, query: &str, contestant: &str) -> Option<&Figure> {
        self.figures.get(&Cell { format, query: query.to_owned(), contestant: contestant.to_owned() })
    }
}

/// Describes wrong answers. The rows are the same in all formats, so one answer is right for all of
/// them.
fn wrong_answers(
    definition: &Definition,
    query: &Query,
    measured: &BTreeMap<Cell, Vec<(u64, &Measured)>>,
) -> Vec<String> {
    let cells =
        || measured.iter().filter(|(cell, _)| cell.query == query.name && !query.scale.contains_key(&cell.contestant));
    let answer = |name: &str| {
        let (_, results) = cells().find(|(cell, _)| cell.contestant == name)?;
        results.first().map(|(_, result)| &result.answer)
    };
    let Some((reference, right)) = definition.reference.iter().find_map(|name| Some((name, answer(name)?))) else {
        return Vec::new();
    };
    let mut wrong = Vec::new();
    for (cell, results) in cells().filter(|(cell, _)| !query.unchecked.contains(&cell.contestant)) {
        let difference = |answer: &Answer| match query.at_least.contains(&cell.contestant) {
            true => answer.is_less_than(right),
            false => answer.differs_from(right),
        };
        if let Some(why) = results.iter().find_map(|(_, result)| difference(&result.answer)) {
            wrong.push(format!("{}, {}, {}: {why} ({reference})", cell.format, cell.query, cell.contestant));
        }
    }
    wrong
}

/// The result of comparing a target with figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub about: String,
    pub format: DataFormat,
    pub query: String,
    /// The best of the contestants that the target compares with.
    pub against: String,
    /// The ratio, or MB of memory; its spread is from the worst to the best single measurement.
    pub value: Spread,
    pub wanted: f64,
    pub met: bool,
}

/// Checks the targets for each of their queries and formats.
pub fn verdicts(definition: &Definition, summary: &Summary) -> Vec<Verdict> {
    let mut all = Vec::new();
    for target in &definition.targets {
        for format in target.formats.as_ref().unwrap_or(&definition.formats) {
            for query in &definition.queries {
                if target.queries.as_ref().is_none_or(|names| names.contains(&query.name)) {
                    all.extend(verdict(target, *format, query, summary));
                }
            }
        }
    }
    all
}

fn verdict(target: &Target, format: DataFormat, query: &Query, summary: &Summary) -> Option<Verdict> {
    let ours = summary.figure(format, &query.name, &target.ours)?;
    let (about, query_name) = (target.about.clone(), query.name.clone());
    if let Some(wanted) = target.peak_mb {
        let peak = ours.peak_bytes? as f64 / 1e6;
        let value = Spread { median: peak, min: peak, max: peak };
        let against = String::new();
        return Some(Verdict { about, format, query: query_name, against, value, wanted, met: peak < wanted });
    }
    let wanted = target.ratio?;
    let cost = |figure: &Figure| if target.wall { figure.wall_s_per_gb() } else { figure.cpu_s_per_gb() };
    let their_query = target.their_query.as_ref().unwrap_or(&query.name);
    let (against, theirs) = target
        .theirs
        .iter()
        .filter_map(|name| Some((name.clone(), cost(summary.figure(format, their_query, name)?))))
        .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))?;
    let ours = cost(ours);
    let ratio = |theirs: f64, ours: f64| theirs / ours.max(1e-9);
    let value = Spread {
        median: ratio(theirs.median, ours.median),
        min: ratio(theirs.min, ours.max),
        max: ratio(theirs.max, ours.min),
    };
    Some(Verdict { about, format, query: query_name, against, value, wanted, met: value.median >= wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(query: &str, contestant: &str, cpu_s: f64, answer: &[u8]) -> Entry {
        let cell = Cell { format: DataFormat::Csv, query: query.into(), contestant: contestant.into() };
        let answer = Answer::of_csv(answer).unwrap();
        let measured = Measured { cpu_s, wall_s: cpu_s * 2.0, peak_bytes: Some(150_000_000), answer, traffic: None };
        Entry { cell, round: 0, bytes: 500_000_000, result: Outcome::Measured(measured), measured_as: None }
    }

    fn definition() -> Definition {
        Definition::parse(super::super::DEFINITION).unwrap()
    }

    #[test]
    fn targets_take_the_best_of_theirs() {
        let entries = [
            entry("q6", "engine", 1.0, b"7.0\n"),
            entry("q6", "engine", 2.0, b"7.0\n"),
            entry("q6", "engine", 1.5, b"7.0\n"),
            entry("q6", "duckdb", 6.0, b"7\n"),
            entry("q6", "polars", 3.6, b"7.0000001\n"),
        ];
        let summary = Summary::of(&definition(), &entries);
        assert_eq!(summary.wrong, [""; 0]);
        let verdicts = verdicts(&definition(), &summary);
        let peers = verdicts.iter().find(|v| v.about.contains("2 times the best")).unwrap();
        assert_eq!((peers.against.as_str(), peers.met), ("polars", true));
        assert!((peers.value.median - 2.4).abs() < 1e-9 && (peers.value.min - 1.8).abs() < 1e-9, "{peers:?}");
        let memory = verdicts.iter().find(|v| v.about == "memory of the engine").unwrap();
        assert!(memory.met && memory.value.median == 150.0);
    }

    #[test]
    fn wrong_answers_are_told() {
        let entries = [
            entry("q6", "duckdb", 1.0, b"7\n"),
            entry("q6", "engine", 1.0, b"8\n"),
            // Where false positives are allowed, a larger count is right, but a smaller one never
            // is.
            entry("bloom", "duckdb", 1.0, b"10\n"),
            entry("bloom", "node", 1.0, b"12\n"),
            entry("bloom", "library", 1.0, b"9\n"),
            entry("top100", "minio", 1.0, b"1,2,3\n"),
        ];
        let wrong = Summary::of(&definition(), &entries).wrong;
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("q6, engine") && wrong[1].contains("bloom, library"), "{wrong:?}");
    }
}
