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

mod saved;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};
use pushdown::{BloomFilter, CompareOp, Expr, Literal, Result};

use crate::bloom::for_each_key;
use crate::bounds::Possible;
use crate::errors::from_datafusion;
use crate::lower::arrays_of;
use crate::types::is_text;

/// A zone ends with the first record that begins so many bytes after its start.
const ZONE_BYTES: u64 = 1024 * 1024;

/// Longer bounds are not kept.
const BOUND_BYTES: usize = 128;

/// The share of zones that a Bloom filter fails to rule out.
const FALSE_POSITIVES: f64 = 0.01;

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

/// Looks for the stretches that a condition rules out. They are kept in order, and apart.
struct Search<'a> {
    known: &'a Known,
    columns: &'a [ZoneColumn],
    range: &'a Range<u64>,
}

type Stretches = Vec<Range<u64>>;

impl Search<'_> {
    fn impossible(&self, condition: &Expr) -> Result<Stretches> {
        match condition {
            Expr::And(all) => {
                all.iter().try_fold(Vec::new(), |ruled_out, part| Ok(union(ruled_out, self.impossible(part)?)))
            }
            Expr::Or(all) if !all.is_empty() => {
                let whole = vec![self.range.clone()];
                all.iter().try_fold(whole, |ruled_out, part| Ok(intersection(&ruled_out, &self.impossible(part)?)))
            }
            atom => match atom.columns().as_slice() {
                [column] => self.by_zones(atom, *column),
                _ => Ok(vec![]),
            },
        }
    }

    /// The zones of the one column that rule the condition out.
    fn by_zones(&self, atom: &Expr, column: usize) -> Result<Stretches> {
        let Some(of) = self.columns.get(column) else { return Ok(vec![]) };
        let Some(zones) = self.known.columns.get(&of.key) else { return Ok(vec![]) };
        let inside = |at: u64, zone: &Zone| self.range.start <= at && zone.end <= self.range.end;
        let zones: Vec<(u64, &Zone)> = zones
            .range(self.range.start..self.range.end)
            .filter(|(at, zone)| inside(**at, zone))
            .map(|(at, zone)| (*at, zone))
            .collect();
        if zones.is_empty() {
            return Ok(vec![]);
        }
        let mut may_match = vec![true; zones.len()];
        rule_out(&mut may_match, zones.iter().map(|(_, zone)| zone.by_nulls(atom)));
        if let Some(within) = self.by_bounds(atom, column, &zones)? {
            rule_out(&mut may_match, within);
        }
        if let Some(wanted) = wanted_values(atom, &of.field) {
            let hashes = hashes_of(&wanted)?;
            let holds = |keys: &BloomFilter| hashes.iter().any(|hash| keys.contains_hash(*hash));
            rule_out(&mut may_match, zones.iter().map(|(_, zone)| zone.keys.as_ref().is_none_or(holds)));
        }
        let ruled_out = zones.iter().zip(may_match).filter(|(_, may)| !may).map(|((at, zone), _)| *at..zone.end);
        Ok(union(ruled_out.collect(), vec![]))
    }

    fn by_bounds(&self, atom: &Expr, column: usize, zones: &[(u64, &Zone)]) -> Result<Option<Vec<bool>>> {
        let fields = self.columns.iter().map(|c| c.field.clone()).collect::<Vec<_>>();
        if !self.columns.get(column).is_some_and(|c| is_ordered(c.field.data_type())) {
            return Ok(None);
        }
        let Some(possible) = Possible::of(atom, &Schema::new(fields)) else { return Ok(None) };
        let bound = |of: fn(&Zone) -> &ScalarValue| {
            ScalarValue::iter_to_array(zones.iter().map(|(_, zone)| of(zone).clone())).map_err(from_datafusion)
        };
        let (smallest, largest) = (bound(|zone| &zone.smallest)?, bound(|zone| &zone.largest)?);
        let bounds_of = |_| Some((Arc::clone(&smallest), Arc::clone(&largest)));
        possible.holds(zones.len(), &bounds_of).map(Some)
    }
}

impl Zone {
    /// What NULLs alone decide.
    fn by_nulls(&self, atom: &Expr) -> bool {
        match atom {
            Expr::IsNull(inner) if matches!(**inner, Expr::Column(_)) => self.nulls,
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) if matches!(**inner, Expr::Column(_)) => self.values,
                _ => true,
            },
            // NULL where an operand is.
            Expr::Compare(_, left, right) => {
                let is_column = |side: &Expr| matches!(side, Expr::Column(_));
                self.values || !(is_column(left) || is_column(right))
            }
            _ => true,
        }
    }
}

/// The values of which one must be there, if the condition says so and keys tell.
fn wanted_values<'a>(atom: &'a Expr, field: &Field) -> Option<Vec<&'a Literal>> {
    let items: Vec<&Expr> = match atom {
        Expr::Compare(CompareOp::Eq, left, right) => match (&**left, &**right) {
            (Expr::Column(_), value @ Expr::Literal(_)) | (value @ Expr::Literal(_), Expr::Column(_)) => vec![value],
            _ => return None,
        },
        Expr::InList { expr, list, negated: false } if matches!(**expr, Expr::Column(_)) => list.iter().collect(),
        _ => return None,
    };
    // Nothing is equal to NULL.
    let values = items.into_iter().filter(|item| !matches!(item, Expr::Literal(Literal::Null)));
    let known = values.map(|item| match item {
        Expr::Literal(value) if same_keys(field.data_type(), &crate::lower::scalar(value).data_type()) => Some(value),
        _ => None,
    });
    known.collect()
}

fn hashes_of(values: &[&Literal]) -> Result<Vec<u64>> {
    let mut hashes = Vec::with_capacity(values.len());
    for run in arrays_of(values)? {
        for_each_key(&run, &mut |key| hashes.extend(key.map(|key| key.hash())))?;
    }
    Ok(hashes)
}

/// Whether a column has keys in zones.
fn has_keys(data_type: &DataType) -> bool {
    same_keys(data_type, data_type)
}

/// Whether equal values of these types have equal keys.
fn same_keys(column: &DataType, value: &DataType) -> bool {
    let is_number = |t: &DataType| t.is_integer() || matches!(t, DataType::Decimal128(..));
    (is_number(column) && is_number(value))
        || (is_text(column) && is_text(value))
        || (column == value && matches!(column, DataType::Date32 | DataType::Boolean))
}

/// Whether bounds of the type are trusted: floats have two zeros, and NaN.
fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || is_text(data_type)
        || data_type.is_temporal()
        || matches!(data_type, DataType::Decimal128(..) | DataType::Boolean)
}

/// Whether a condition on the column is one that keys decide.
pub(crate) fn wants_keys(condition: &Expr, column: usize, field: &Field) -> bool {
    match condition {
        Expr::And(all) | Expr::Or(all) => all.iter().any(|part| wants_keys(part, column, field)),
        atom => atom.columns() == [column] && wanted_values(atom, field).is_some(),
    }
}

/// Whether zones of the column could ever rule out records for which the condition, over columns of `schema`, is TRUE.
pub(crate) fn decides(condition: &Expr, column: usize, schema: &Schema) -> bool {
    match condition {
        Expr::And(all) | Expr::Or(all) => all.iter().any(|part| decides(part, column, schema)),
        Expr::Not(_) | Expr::IsNull(_) => condition.columns() == [column],
        atom => {
            let keys = schema.fields().get(column).is_some_and(|field| wants_keys(atom, column, field));
            keys || (atom.columns() == [column] && Possible::of(atom, schema).is_some())
        }
    }
}

fn rule_out(may_match: &mut [bool], more: impl IntoIterator<Item = bool>) {
    for (may, also) in may_match.iter_mut().zip(more) {
        *may &= also;
    }
}

/// What is in one or the other; neighbours become one.
fn union(mut one: Stretches, other: Stretches) -> Stretches {
    one.extend(other);
    one.sort_unstable_by_key(|stretch| stretch.start);
    let mut all: Stretches = Vec::with_capacity(one.len());
    for stretch in one {
        match all.last_mut() {
            Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
            _ => all.push(stretch),
        }
    }
    all
}

/// What is in both, each of which is in order.
fn intersection(one: &[Range<u64>], other: &[Range<u64>]) -> Stretches {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let common = a.start.max(b.start)..a.end.min(b.end);
        let first_ends = a.end <= b.end;
        if !common.is_empty() {
            both.push(common);
        }
        if first_ends {
            one.next();
        } else {
            other.next();
        }
    }
    both
}

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

#[cfg(test)]
mod tests;
