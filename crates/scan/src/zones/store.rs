//! The zones of one object: a zone map of its text, which earlier scans record for later ones.
//!
//! Text has no statistics, but a scan with a predicate decodes the predicate's first columns for
//! all records. For each of these columns, and each stretch of about [`ZONE_BYTES`], it records the
//! smallest and the largest value, whether there are NULLs, and, for equality, a Bloom filter of
//! all values, which is small if there are few values. A later scan skips stretches in which no
//! record can match (suggestion 2 of PushdownDB, Section X: an index inside storage).
//!
//! A zone describes a decoded column: how the text is written, the field, and the type. A scan with
//! zones returns the same rows as a scan without them, but does not report malformed records in
//! skipped stretches.

use std::ops::Range;

use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::{Expr, Fingerprint, Result};

use crate::zones::search::Search;
use crate::zones::zone::{Known, MAX_OBJECT_BYTES, Zone, ZoneColumn};

/// The zones of one version (ETag) of an object, shared by all scans of it.
#[derive(Debug, Default)]
pub struct Zones {
    pub(crate) known: Mutex<Known>,
}

impl Zones {
    /// Returns the approximate memory of the zones, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns the number of changes so far. While it is equal, the zones are equal.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Returns the parts of `range` in which a record may begin for which `condition`, over
    /// `columns`, is TRUE.
    pub(crate) fn surviving(
        &self,
        condition: &Expr,
        columns: &[ZoneColumn],
        range: Range<u64>,
    ) -> Result<Vec<Range<u64>>> {
        let known = self.lock();
        let search = Search { known: &known, columns, range: &range };
        let impossible = search.impossible(condition)?;
        drop(known);
        let mut surviving = Vec::new();
        let mut at = range.start;
        for stretch in impossible {
            if at < stretch.start {
                surviving.push(at..stretch.start);
            }
            at = at.max(stretch.end);
        }
        if at < range.end {
            surviving.push(at..range.end);
        }
        Ok(surviving)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Returns the end of the zone of column `key` that contains offset `at`. Returns `None` if
    /// there is none, or if `keys` are required and the zone does not have them.
    pub(crate) fn zone_at(&self, key: &Fingerprint, at: u64, keys: bool) -> Option<u64> {
        let known = self.lock();
        let (_, zone) = known.columns.get(key)?.range(..=at).next_back()?;
        (at < zone.end && (!keys || zone.keys.is_some() || !zone.values)).then_some(zone.end)
    }

    pub(crate) fn keep(&self, key: &Fingerprint, start: u64, zone: Zone) {
        let mut known = self.lock();
        let bytes = zone.bytes();
        if known.bytes + bytes > MAX_OBJECT_BYTES || start >= zone.end {
            return;
        }
        let zones = known.columns.entry(*key).or_default();
        let overlaps: Vec<u64> =
            zones.range(..zone.end).rev().take_while(|(_, other)| other.end > start).map(|(at, _)| *at).collect();
        // A zone with keys replaces one without keys. Otherwise the existing zone stays.
        if zone.keys.is_none() && !overlaps.is_empty() {
            return;
        }
        let freed: usize = overlaps.iter().filter_map(|at| zones.remove(at)).map(|zone| zone.bytes()).sum();
        zones.insert(start, zone);
        known.changes += 1;
        known.bytes = (known.bytes + bytes).saturating_sub(freed);
    }
}
