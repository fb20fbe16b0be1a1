//! Gathering zones while a scan decodes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};
use pushdown::{BloomFilter, Result};

use super::{OBJECT_BYTES, ZONE_BYTES, Zone, ZoneColumn, Zones, has_keys, is_ordered};
use crate::errors::from_datafusion;
use crate::evaluate::for_each_key;

/// Longer bounds are not kept.
const BOUND_BYTES: usize = 128;

/// The share of zones that a Bloom filter fails to rule out.
const FALSE_POSITIVES: f64 = 0.01;

/// Gathers zones while a scan decodes columns of all records of a range, in their order.
#[derive(Debug)]
pub(crate) struct ZoneRecorder {
    zones: Arc<Zones>,
    columns: Vec<Gathering>,
}

#[derive(Debug)]
struct Gathering {
    column: ZoneColumn,
    /// Keys are gathered too.
    keys: bool,
    open: Option<Open>,
    /// Every record that begins before it is in a zone, and the next zone begins here.
    from: u64,
}

/// A zone that has begun.
#[derive(Debug)]
struct Open {
    start: u64,
    zone: Zone,
    hashes: Vec<u64>,
}

impl ZoneRecorder {
    /// For these columns, each with whether its keys are wanted, of the records that begin from byte `from` on. `None` if
    /// nothing can be gathered of any.
    pub(crate) fn new(zones: &Arc<Zones>, columns: Vec<(ZoneColumn, bool)>, from: u64) -> Option<Self> {
        let any = columns.iter().any(|(column, _)| is_ordered(column.field.data_type()));
        let gathering = |(column, keys): (ZoneColumn, bool)| {
            let keys = keys && has_keys(column.field.data_type());
            Gathering { column, keys, open: None, from }
        };
        any.then(|| Self { zones: Arc::clone(zones), columns: columns.into_iter().map(gathering).collect() })
    }

    /// Whether something is still to be learned of records that begin in here. If so, all of them must be taken in.
    pub(crate) fn wants(&mut self, range: &Range<u64>) -> bool {
        // What is learned would not be kept.
        if self.zones.size_bytes() >= OBJECT_BYTES / 16 * 15 {
            self.columns.iter_mut().for_each(|gathering| gathering.pass_over(range.start));
            return self.columns.iter().any(|gathering| gathering.open.is_some());
        }
        let zones = &self.zones;
        self.columns.iter_mut().any(|gathering| gathering.wants(zones, range))
    }

    /// Takes in the values of records that begin at `starts`, ascending; an array for each column.
    pub(crate) fn observe(&mut self, starts: &[u64], arrays: &[ArrayRef]) -> Result<()> {
        for (gathering, array) in self.columns.iter_mut().zip(arrays) {
            if is_ordered(gathering.column.field.data_type()) {
                gathering.observe(&self.zones, starts, array)?;
            }
        }
        Ok(())
    }

    /// All records that begin before `end` were taken in.
    pub(crate) fn finish(&mut self, end: u64) {
        for gathering in &mut self.columns {
            gathering.close(&self.zones, end);
        }
    }
}

impl Gathering {
    /// What lies before this byte was not taken in, unless it is in the zone that is open.
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
            // A record that begins far behind the one before it.
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
            let mut keys = BloomFilter::with_capacity(hashes.len(), FALSE_POSITIVES);
            hashes.into_iter().for_each(|hash| keys.insert_hash(hash));
            zone.keys = Some(keys);
        }
        for bound in [&mut zone.smallest, &mut zone.largest] {
            if matches!(bound, ScalarValue::Utf8(Some(text)) if text.len() > BOUND_BYTES) {
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
