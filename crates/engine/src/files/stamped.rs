//! JSON files that record the version of the table that their content is about.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::put_in_place;

/// Logs the error if `file` was not written.
pub(crate) fn note_failure(file: &Path, written: Result<(), Box<dyn std::error::Error>>) {
    if let Err(error) = written {
        tracing::debug!(file = %file.display(), %error, "statistics are not kept");
    }
}

/// A JSON file about the present version of a table.
#[derive(Debug)]
pub(crate) struct StampedFile {
    file: PathBuf,
    stamp: String,
}

impl StampedFile {
    pub(crate) fn new(file: PathBuf, stamp: String) -> Self {
        Self { file, stamp }
    }

    /// Reads the file; `None` if it is missing, unreadable, or about another version of the table.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let kept: Stamped<T> = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        (kept.stamp == self.stamp).then_some(kept.figures)
    }

    /// Writes the file; an error is only logged.
    pub(crate) fn write(&self, figures: &impl Serialize) {
        let kept = Stamped { stamp: self.stamp.clone(), figures };
        let written = put_in_place(&self.file, |new| Ok(serde_json::to_writer(BufWriter::new(new), &kept)?));
        note_failure(&self.file, written);
    }
}

/// The content of a file: figures, and the version of the table.
#[derive(Deserialize, Serialize)]
pub(crate) struct Stamped<T> {
    pub(crate) stamp: String,
    pub(crate) figures: T,
}
