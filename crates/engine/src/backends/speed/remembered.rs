//! What endpoints did in earlier sessions, in one file: JSON from endpoint to rates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::rates::Rates;
use crate::files::put_in_place;

/// The file, or nothing.
#[derive(Debug, Default)]
pub(crate) struct RememberedRates {
    file: Option<PathBuf>,
    known: BTreeMap<String, Rates>,
}

impl RememberedRates {
    /// What the file says. One that is not there, or cannot be read, says nothing.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let known = file.as_deref().map(read).unwrap_or_default();
        Self { file, known }
    }

    /// Of an endpoint, if it was met.
    pub(crate) fn of(&self, endpoint: &str) -> Option<Rates> {
        self.known.get(endpoint).copied()
    }

    /// Adds what was learned now. What other sessions wrote since stays; of two that met the same endpoint the last one
    /// to end is remembered.
    pub(crate) fn keep(&self, learned: BTreeMap<String, Rates>) {
        let Some(file) = self.file.as_deref().filter(|_| !learned.is_empty()) else { return };
        let mut all = read(file);
        all.extend(learned);
        let written = put_in_place(file, |new| Ok(serde_json::to_writer_pretty(new, &all)?));
        if let Err(error) = written {
            tracing::debug!(file = %file.display(), %error, "rates are not kept");
        }
    }
}

fn read(file: &Path) -> BTreeMap<String, Rates> {
    let known: BTreeMap<String, Rates> =
        fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    known.into_iter().filter(|(_, rates)| rates.are_sane()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_outlive_a_session_and_nonsense_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("rates.json");
        let rates = Rates { latency_s: 0.5, ..Rates::default() };
        RememberedRates::open(Some(file.clone())).keep([("a".to_owned(), rates)].into());
        RememberedRates::open(Some(file.clone())).keep([("b".to_owned(), Rates::default())].into());
        let again = RememberedRates::open(Some(file.clone()));
        assert_eq!((again.of("a"), again.of("b"), again.of("c")), (Some(rates), Some(Rates::default()), None));

        let wrong = Rates { network_bytes_s: 0.0, ..rates };
        again.keep([("a".to_owned(), wrong)].into());
        assert_eq!(RememberedRates::open(Some(file.clone())).of("a"), None, "nothing is read at no speed");
        fs::write(&file, "{").unwrap();
        assert_eq!(RememberedRates::open(Some(file)).of("b"), None);
    }
}
