//! Zones: what scans have learned of the values in stretches of a text object, so that later ones read less of it.
//!
//! Text has no statistics, but every scan with a predicate decodes the columns that the predicate reads first, of all
//! records. It leaves behind, for each of these columns and each stretch of about [`ZONE_BYTES`], the smallest and the
//! largest value, whether there are NULLs, and, where a value was looked for, a Bloom filter of all values: a small
//! set is a small filter. A later scan passes over the stretches in which no record can match (suggestion 2 of
//! PushdownDB, Section X: an index inside storage).
//!
//! A zone is about one decoded column: how the text is written, which field, as which type. It never decides more than
//! the decoded values do, so a scan with zones gives the rows of a scan without; but what it passes over is not looked
//! at, so malformed records there are not found.

mod recorder;
mod saved;
mod search;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use pushdown::{BloomFilter, Expr, Result};

use crate::types::is_exact_number;
pub(crate) use recorder::ZoneRecorder;
use search::Search;
pub(crate) use search::{decides, wants_keys};

/// A zone ends with the first record that begins so many bytes after its start.
const ZONE_BYTES: u64 = 1024 * 1024;

/// The most that the zones of one object take.
const OBJECT_BYTES: usize = 16 * 1024 * 1024;

/// What is known of the values of one object, as it was with one ETag. Shared by all scans of it.
#[derive(Debug, Default)]
pub struct Zones {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    columns: HashMap<Arc<str>, BTreeMap<u64, Zone>>,
    bytes: usize,
    changes: u64,
}

/// One column of the records that begin in a stretch.
#[derive(Clone, Debug)]
struct Zone {
    end: u64,
    nulls: bool,
    /// NULL where they are not known, or where all values are NULL.
    smallest: ScalarValue,
    largest: ScalarValue,
    /// Whether there is a value that is not NULL.
    values: bool,
    keys: Option<BloomFilter>,
}

/// A column as a scan decodes it.
#[derive(Clone, Debug)]
pub(crate) struct ZoneColumn {
    /// All that decides how its values come from the text.
    pub(crate) key: Arc<str>,
    pub(crate) field: Field,
}

impl Zones {
    /// About how many bytes of memory they take.
    pub fn size_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Counts what was added since they were made: equal counts, equal zones.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// The parts of `range` in which a record may begin for which `condition`, over `columns`, is TRUE.
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

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zone of a column that holds this byte, by its end, unless keys are wanted that it lacks.
    fn zone_at(&self, key: &str, at: u64, keys: bool) -> Option<u64> {
        let known = self.lock();
        let (_, zone) = known.columns.get(key)?.range(..=at).next_back()?;
        (at < zone.end && (!keys || zone.keys.is_some() || !zone.values)).then_some(zone.end)
    }

    fn keep(&self, key: &Arc<str>, start: u64, zone: Zone) {
        let mut known = self.lock();
        let bytes = zone.bytes();
        if known.bytes + bytes > OBJECT_BYTES || start >= zone.end {
            return;
        }
        let zones = known.columns.entry(Arc::clone(key)).or_default();
        let overlaps: Vec<u64> =
            zones.range(..zone.end).rev().take_while(|(_, other)| other.end > start).map(|(at, _)| *at).collect();
        // One with keys takes the place of those without; otherwise the first one stays.
        if zone.keys.is_none() && !overlaps.is_empty() {
            return;
        }
        let freed: usize = overlaps.iter().filter_map(|at| zones.remove(at)).map(|zone| zone.bytes()).sum();
        zones.insert(start, zone);
        known.changes += 1;
        known.bytes = (known.bytes + bytes).saturating_sub(freed);
    }
}

impl Zone {
    fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, BloomFilter::size_bytes);
        size_of::<Self>() + self.smallest.size() + self.largest.size() + keys
    }
}

/// Whether a column has keys in zones.
fn has_keys(data_type: &DataType) -> bool {
    same_keys(data_type, data_type)
}

/// Whether equal values of these types have equal keys.
fn same_keys(column: &DataType, value: &DataType) -> bool {
    (is_exact_number(column) && is_exact_number(value))
        || (column.is_string() && value.is_string())
        || (column == value && matches!(column, DataType::Date32 | DataType::Boolean))
}

/// Whether bounds of the type are trusted: floats have two zeros, and NaN.
fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_string()
        || data_type.is_temporal()
        || matches!(data_type, DataType::Decimal128(..) | DataType::Boolean)
}

#[cfg(test)]
mod tests;
