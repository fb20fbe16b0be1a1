//! The rates of endpoints in earlier sessions, persisted in one JSON file by endpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Rates;
use crate::files::put_in_place;

/// The rates of earlier sessions, and the file they came from, if there is one.
#[derive(Debug, Default)]
pub(crate) struct PersistedRates {
    file: Option<PathBuf>,
    rates: BTreeMap<String, Rates>,
}

impl PersistedRates {
    /// Reads the file. If it is missing or unreadable, there are no rates.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let rates = file.as_deref().map(read).unwrap_or_default();
        Self { file, rates }
    }

    /// The rates of an endpoint, if a session measured it.
    pub(crate) fn of(&self, endpoint: &str) -> Option<Rates> {
        self.rates.get(endpoint).copied()
    }

    /// Writes `measured` to the file, and keeps what other sessions wrote since. If two sessions
    /// measured the same endpoint, the last one to end wins.
    pub(crate) fn save(&self, measured: BTreeMap<String, Rates>) {
        let Some(file) = self.file.as_deref().filter(|_| !measured.is_empty()) else { return };
        let mut all = read(file);
        all.extend(measured);
        let written = put_in_place(file, |new| Ok(serde_json::to_writer_pretty(new, &all)?));
        if let Err(error) = written {
            tracing::debug!(file = %file.display(), %error, "rates are not kept");
        }
    }
}

fn read(file: &Path) -> BTreeMap<String, Rates> {
    let rates: BTreeMap<String, Rates> =
        fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    rates.into_iter().filter(|(_, rates)| rates.is_valid()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_outlive_a_session_and_nonsense_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("rates.json");
        let rates = Rates { latency_s: 0.5, ..Rates::default() };
        PersistedRates::open(Some(file.clone())).save([("a".to_owned(), rates)].into());
        PersistedRates::open(Some(file.clone())).save([("b".to_owned(), Rates::default())].into());
        let again = PersistedRates::open(Some(file.clone()));
        assert_eq!((again.of("a"), again.of("b"), again.of("c")), (Some(rates), Some(Rates::default()), None));

        let wrong = Rates { network_bytes_per_s: 0.0, ..rates };
        again.save([("a".to_owned(), wrong)].into());
        assert_eq!(PersistedRates::open(Some(file.clone())).of("a"), None, "nothing is read at no speed");
        fs::write(&file, "{").unwrap();
        assert_eq!(PersistedRates::open(Some(file)).of("b"), None);
    }
}
