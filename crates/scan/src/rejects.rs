//! Records that a scan skipped because they do not match its columns.

use std::collections::HashSet;

use parking_lot::Mutex;

/// The maximum number of records that are stored. Further ones are only counted.
const MAX_RECORDS: usize = 10_000;

/// The maximum number of bytes of a record's text that are stored.
const MAX_TEXT_BYTES: usize = 1024;

/// A record that was skipped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reject {
    /// The address of the object.
    pub object: String,
    /// The offset of the record in the object's text, after decompression and translation.
    pub byte: u64,
    /// Why the record does not match.
    pub reason: String,
    /// The beginning of the record's text.
    pub text: String,
}

/// The records that the scans of a statement skipped, up to 10,000 of them. Scanning an object
/// again does not add its records again.
#[derive(Debug, Default)]
pub struct Rejects {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    records: Vec<Reject>,
    known: HashSet<(String, u64)>,
}

impl Rejects {
    /// Returns the records collected so far.
    pub fn records(&self) -> Vec<Reject> {
        self.found.lock().records.clone()
    }

    pub(crate) fn add(&self, object: &str, byte: u64, reason: String, record: &[u8]) {
        let mut found = self.found.lock();
        if found.records.len() >= MAX_RECORDS || !found.known.insert((object.to_owned(), byte)) {
            return;
        }
        let text = String::from_utf8_lossy(record.get(..MAX_TEXT_BYTES).unwrap_or(record)).into_owned();
        found.records.push(Reject { object: object.to_owned(), byte, reason, text });
    }
}
