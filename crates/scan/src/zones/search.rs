//! Pruning of stretches of text by zones.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_common::ScalarValue;
use pushdowndb_contract::{BloomFilter, CompareOp, Expr, Literal, Result};

use crate::error::from_datafusion;
use crate::expr::bloom::for_each_key;
use crate::expr::lower::{arrays_of, scalar};
use crate::range::positions::joined;
use crate::zones::bounds::Possible;
use crate::zones::zone::{Known, Zone, ZoneColumn, is_ordered, same_keys};

/// Searches zones for the stretches that a condition excludes. Stretches are ascending and
/// disjoint.
pub(crate) struct Search<'a> {
    pub(crate) known: &'a Known,
    pub(crate) columns: &'a [ZoneColumn],
    pub(crate) range: &'a Range<u64>,
}

type Stretches = Vec<Range<u64>>;

impl Search<'_> {
    pub(crate) fn impossible(&self, condition: &Expr) -> Result<Stretches> {
        match condition {
            Expr::And(all) => {
                let each: Vec<Stretches> = all.iter().map(|part| self.impossible(part)).collect::<Result<_>>()?;
                Ok(joined(&each.concat()))
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

    /// Returns the zones of one column in which the condition cannot be TRUE.
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
        Ok(joined(&ruled_out.collect::<Stretches>()))
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
    /// Returns whether the condition may be TRUE, judged only by whether there are NULLs and other
    /// values.
    fn by_nulls(&self, atom: &Expr) -> bool {
        match atom {
            Expr::IsNull(inner) if matches!(**inner, Expr::Column(_)) => self.nulls,
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) if matches!(**inner, Expr::Column(_)) => self.values,
                _ => true,
            },
            // The result is NULL if an operand is NULL.
            Expr::Compare(_, left, right) => {
                let is_column = |side: &Expr| matches!(side, Expr::Column(_));
                self.values || !(is_column(left) || is_column(right))
            }
            _ => true,
        }
    }
}

/// Returns values of which one must occur, if the condition requires that and keys can decide it.
fn wanted_values<'a>(atom: &'a Expr, field: &Field) -> Option<Vec<&'a Literal>> {
    let items: Vec<&Expr> = match atom {
        Expr::Compare(CompareOp::Eq, left, right) => match (&**left, &**right) {
            (Expr::Column(_), value @ Expr::Literal(_)) | (value @ Expr::Literal(_), Expr::Column(_)) => vec![value],
            _ => return None,
        },
        Expr::InList { expr, list, negated: false } if matches!(**expr, Expr::Column(_)) => list.iter().collect(),
        _ => return None,
    };
    // Nothing equals NULL.
    let values = items.into_iter().filter(|item| !matches!(item, Expr::Literal(Literal::Null)));
    let known = values.map(|item| match item {
        Expr::Literal(value) if same_keys(field.data_type(), &scalar(value).data_type()) => Some(value),
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

/// Returns whether keys can decide the condition on the column.
pub(crate) fn wants_keys(condition: &Expr, column: usize, field: &Field) -> bool {
    match condition {
        Expr::And(all) | Expr::Or(all) => all.iter().any(|part| wants_keys(part, column, field)),
        atom => atom.columns() == [column] && wanted_values(atom, field).is_some(),
    }
}

/// Returns whether zones of the column could exclude records in which `condition`, over columns of
/// `schema`, is TRUE.
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

/// Returns the intersection of two ascending lists of ranges.
pub(crate) fn intersection(one: &[Range<u64>], other: &[Range<u64>]) -> Stretches {
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
