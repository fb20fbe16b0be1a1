//! Recording of zones during a scan.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};
use pushdowndb_contract::{BloomFilter, Result};

use crate::error::from_datafusion;
use crate::expr::bloom::for_each_key;
use crate::zones::store::Zones;
use crate::zones::zone::{MAX_OBJECT_BYTES, ZONE_BYTES, Zone, ZoneColumn, has_keys, is_ordered};

/// The maximum size of a bound in bytes; longer bounds are not recorded.
const MAX_BOUND_BYTES: usize = 128;

/// The false positive rate of the Bloom filters.
const FALSE_POSITIVE_RATE: f64 = 0.01;

/// Records zones while a scan decodes columns of all records of a range, in order.
#[derive(Debug)]
pub(crate) struct ZoneRecorder {
    zones: Arc<Zones>,
    columns: Vec<Gathering>,
}

#[derive(Debug)]
struct Gathering {
    column: ZoneColumn,
    /// True if keys are recorded, too.
    keys: bool,
    open: Option<Open>,
    /// Records before this offset are in zones; the next zone begins here.
    from: u64,
}

/// A zone under construction.
#[derive(Debug)]
struct Open {
    start: u64,
    zone: Zone,
    hashes: Vec<u64>,
}

impl ZoneRecorder {
    /// Creates a recorder of `columns`, each with whether its keys are needed, for records that
    /// begin at or after offset `from`. Returns `None` if no column can be recorded.
    pub(crate) fn new(zones: &Arc<Zones>, columns: Vec<(ZoneColumn, bool)>, from: u64) -> Option<Self> {
        let any = columns.iter().any(|(column, _)| is_ordered(column.field.data_type()));
        let gathering = |(column, keys): (ZoneColumn, bool)| {
            let keys = keys && has_keys(column.field.data_type());
            Gathering { column, keys, open: None, from }
        };
        any.then(|| Self { zones: Arc::clone(zones), columns: columns.into_iter().map(gathering).collect() })
    }

    /// Returns whether zones of records that begin in `range` are missing. If so, all of these
    /// records must be observed.
    pub(crate) fn wants(&mut self, range: &Range<u64>) -> bool {
        // The zones are full, so new zones would not be stored.
        if self.zones.size_bytes() >= MAX_OBJECT_BYTES / 16 * 15 {
            self.columns.iter_mut().for_each(|gathering| gathering.pass_over(range.start));
            return self.columns.iter().any(|gathering| gathering.open.is_some());
        }
        let zones = &self.zones;
        self.columns.iter_mut().any(|gathering| gathering.wants(zones, range))
    }

    /// Records the values of records that begin at `starts`, which are ascending. `arrays` has one
    /// array for each column.
    pub(crate) fn observe(&mut self, starts: &[u64], arrays: &[ArrayRef]) -> Result<()> {
        for (gathering, array) in self.columns.iter_mut().zip(arrays) {
            if is_ordered(gathering.column.field.data_type()) {
                gathering.observe(&self.zones, starts, array)?;
            }
        }
        Ok(())
    }

    /// Ends the recording. Expects that all records that begin before `end` were observed.
    pub(crate) fn finish(&mut self, end: u64) {
        for gathering in &mut self.columns {
            gathering.close(&self.zones, end);
        }
    }
}

impl Gathering {
    /// Skips records before `start` that were not observed, unless a zone is open.
    fn pass_over(&mut self, start: u64) {
        if self.open.is_none() {
            self.from = self.from.max(start);
        }
    }

    fn wants(&mut self, zones: &Zones, range: &Range<u64>) -> bool {
        if !is_ordered(self.column.field.data_type()) {
            return false;
        }
        self.pass_over(range.start);
        while self.open.is_none()
            && self.from < range.end
            && let Some(end) = zones.zone_at(&self.column.key, self.from, self.keys)
        {
            self.from = end;
        }
        self.from < range.end
    }

    fn observe(&mut self, zones: &Zones, starts: &[u64], array: &ArrayRef) -> Result<()> {
        let mut row = 0;
        while let Some(start) = starts.get(row).copied() {
            let rows_before =
                |end: u64| starts.get(row..).map_or(1, |rest| rest.partition_point(|at| *at < end)).max(1);
            if start < self.from {
                row += rows_before(self.from);
                continue;
            }
            if self.open.as_ref().is_some_and(|open| start >= open.start + ZONE_BYTES) {
                self.close(zones, start);
            }
            if self.open.is_none() {
                if let Some(end) = zones.zone_at(&self.column.key, start, self.keys) {
                    self.from = end;
                    continue;
                }
                self.open = Some(Open::at(self.from, self.column.field.data_type())?);
            }
            let Some(open) = &mut self.open else { continue };
            // A record begins far after the one before it.
            let rows = rows_before(open.start + ZONE_BYTES);
            open.take_in(&array.slice(row, rows), self.keys)?;
            row += rows;
        }
        Ok(())
    }

    fn close(&mut self, zones: &Zones, end: u64) {
        let Some(Open { start, mut zone, mut hashes }) = self.open.take() else { return };
        self.from = end;
        zone.end = end;
        if self.keys {
            hashes.sort_unstable();
            hashes.dedup();
            let mut keys = BloomFilter::with_capacity(hashes.len(), FALSE_POSITIVE_RATE);
            hashes.into_iter().for_each(|hash| keys.insert_hash(hash));
            zone.keys = Some(keys);
        }
        for bound in [&mut zone.smallest, &mut zone.largest] {
            if matches!(bound, ScalarValue::Utf8(Some(text)) if text.len() > MAX_BOUND_BYTES) {
                *bound = ScalarValue::Utf8(None);
            }
        }
        zones.keep(&self.column.key, start, zone);
    }
}

impl Open {
    fn at(start: u64, data_type: &DataType) -> Result<Self> {
        let unknown = ScalarValue::try_from(data_type).map_err(from_datafusion)?;
        let (smallest, largest) = (unknown.clone(), unknown);
        let zone = Zone { end: start, nulls: false, smallest, largest, values: false, keys: None };
        Ok(Self { start, zone, hashes: vec![] })
    }

    fn take_in(&mut self, values: &ArrayRef, keys: bool) -> Result<()> {
        let nulls = values.logical_null_count();
        self.zone.nulls |= nulls > 0;
        if nulls == values.len() {
            return Ok(());
        }
        self.zone.values = true;
        let smallest = min_batch(values).map_err(from_datafusion)?;
        let largest = max_batch(values).map_err(from_datafusion)?;
        if self.zone.smallest.is_null() || smallest < self.zone.smallest {
            self.zone.smallest = smallest;
        }
        if self.zone.largest.is_null() || largest > self.zone.largest {
            self.zone.largest = largest;
        }
        if keys {
            for_each_key(values, &mut |key| self.hashes.extend(key.map(|key| key.hash())))?;
        }
        Ok(())
    }
}
