//! The journal: one line of JSON per measurement, from which an interrupted run continues.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::contestant::DataFormat;
use crate::contestant::task::Measured;

/// A cell of an experiment.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Cell {
    pub format: DataFormat,
    pub query: String,
    pub contestant: String,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry<C = Cell> {
    #[serde(flatten)]
    pub cell: C,
    pub round: u32,
    /// The number of bytes: scanned, for speeds, or sent over the network.
    pub bytes: u64,
    #[serde(flatten)]
    pub result: Outcome,
    /// The series that was actually measured, if another one led to the same plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_as: Option<String>,
}

/// The outcome.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Measured),
    Failed(String),
}

/// The file of measurements.
#[derive(Debug)]
pub struct Journal<C = Cell> {
    path: PathBuf,
    /// The first line, if it was not written yet.
    header: Option<String>,
    entries: Vec<Entry<C>>,
}

/// The properties that all measurements of a journal share.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Header {
    experiment: String,
    scale: f64,
    binary: String,
}

impl<C: DeserializeOwned + PartialEq + Serialize> Journal<C> {
    /// Opens or creates a journal; `binary` identifies the build that is measured.
    pub fn open(path: &Path, experiment: &str, scale: f64, binary: &str) -> Result<Self> {
        let name = path.display().to_string();
        let header = Header { experiment: experiment.to_owned(), scale, binary: binary.to_owned() };
        let mut entries = Vec::new();
        if path.exists() {
            let mut lines = BufReader::new(File::open(path).with_context(|| name.clone())?).lines();
            let first = lines.next().with_context(|| format!("{name} is empty"))??;
            let found: Header = serde_json::from_str(&first).with_context(|| name.clone())?;
            if found != header {
                bail!(
                    "{name} holds measurements of something else ({} at scale {}, {}): give another --out, or remove it",
                    found.experiment,
                    found.scale,
                    found.binary
                );
            }
            for line in lines {
                // The last line may be incomplete, if the run was killed while writing it.
                let line = line?;
                match serde_json::from_str(&line) {
                    Ok(entry) => entries.push(entry),
                    Err(_) if line.is_empty() => {}
                    Err(error) => eprintln!("a line of {name} is left out: {error}"),
                }
            }
        }
        let header = if path.exists() { None } else { Some(serde_json::to_string(&header)?) };
        Ok(Self { path: path.to_owned(), header, entries })
    }

    /// Whether a cell was measured in a round.
    pub fn has(&self, cell: &C, round: u32) -> bool {
        let measured = |entry: &&Entry<C>| matches!(entry.result, Outcome::Measured(_));
        self.entries.iter().filter(measured).any(|entry| entry.round == round && entry.cell == *cell)
    }

    /// Adds a measurement and writes it to disk.
    pub fn add(&mut self, entry: Entry<C>) -> Result<()> {
        let name = || self.path.display().to_string();
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).with_context(name)?;
        // The line break before the entry ends a line that a killed run may have left incomplete.
        let before = self.header.take().unwrap_or_default();
        writeln!(file, "{before}\n{}", serde_json::to_string(&entry)?)?;
        self.entries.push(entry);
        Ok(())
    }

    /// All measurements, oldest first.
    pub fn entries(&self) -> &[Entry<C>] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::answer::Answer;

    #[test]
    fn a_journal_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scan.ndjson");
        let cell = Cell { format: DataFormat::Csv, query: "q6".into(), contestant: "node".into() };
        let measured = Measured {
            cpu_s: 0.5,
            wall_s: 0.75,
            peak_bytes: Some(1),
            answer: Answer::of_csv(b"1,2\n").unwrap(),
            traffic: None,
        };
        let entry = |round, result| Entry { cell: cell.clone(), round, bytes: 7, result, measured_as: None };
        let mut journal = Journal::<Cell>::open(&path, "scan", 1.0, "a").unwrap();
        journal.add(entry(0, Outcome::Measured(measured))).unwrap();
        journal.add(entry(1, Outcome::Failed("no".into()))).unwrap();
        assert!(journal.has(&cell, 0));
        drop(journal);
        // An incomplete line is skipped, and does not affect the next one.
        let mut cut = OpenOptions::new().append(true).open(&path).unwrap();
        write!(cut, "{{\"format\":\"cs").unwrap();
        let mut journal = Journal::<Cell>::open(&path, "scan", 1.0, "a").unwrap();
        journal.add(entry(2, Outcome::Failed("no".into()))).unwrap();
        drop(journal);
        let journal = Journal::<Cell>::open(&path, "scan", 1.0, "a").unwrap();
        assert_eq!(journal.entries().len(), 3);
        // Failures are measured again.
        assert_eq!([0, 1, 2].map(|round| journal.has(&cell, round)), [true, false, false]);
        assert!(Journal::<Cell>::open(&path, "scan", 0.1, "a").is_err());
        assert!(Journal::<Cell>::open(&path, "scan", 1.0, "b").is_err());
    }
}
