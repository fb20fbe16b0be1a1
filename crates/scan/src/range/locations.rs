//! Locations of records, as returned by an index, and merging of them into parts to read.
//!
//! A location is the byte range of a record without its line end, or the row number in Parquet.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use pushdowndb_contract::{Error, ErrorKind, Result};

/// The maximum size of a part in bytes, unless a single location is larger.
const MAX_PART_BYTES: u64 = 4 * 1024 * 1024;

/// Returns the locations stored in two columns of an index, whose offsets are inclusive. `size`
/// returns the size of the object to which a row refers, if known; a location that exceeds it is an
/// error.
pub fn places(
    batch: &RecordBatch,
    columns: [usize; 2],
    size: impl Fn(usize) -> Option<u64>,
) -> Result<Vec<Range<u64>>> {
    let corrupt = || Error::new(ErrorKind::Corrupt, "the index names places outside of the object");
    let column = |index: usize| {
        let column = batch.columns().get(index).and_then(|column| column.as_primitive_opt::<Int64Type>());
        column.filter(|column| column.null_count() == 0).ok_or_else(|| Error::internal("places that are no numbers"))
    };
    let [first, last] = columns;
    let (first, last) = (column(first)?, column(last)?);
    let place = |(row, (first, last)): (usize, (&i64, &i64))| {
        let (Ok(first), Ok(last)) = (u64::try_from(*first), u64::try_from(*last)) else { return Err(corrupt()) };
        let inside = size(row).is_none_or(|size| last < size);
        if first <= last && inside { Ok(first..last + 1) } else { Err(corrupt()) }
    };
    first.values().iter().zip(last.values()).enumerate().map(place).collect()
}

/// Returns the locations that are in both `a` and `b`, which must be ascending.
pub fn places_in_both(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut b = b.iter().peekable();
    let mut both = Vec::new();
    for place in a {
        while b.next_if(|other| other.start < place.start).is_some() {}
        if b.next_if(|other| other.start == place.start).is_some() {
            both.push(place.clone());
        }
    }
    both
}

/// Merges locations, which must be ascending, into parts if they are at most `gap` bytes apart.
pub fn near_places(places: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for place in places {
        match parts.last_mut() {
            Some(last) if place.start <= last.end.saturating_add(gap) && last.end - last.start < MAX_PART_BYTES => {
                last.end = last.end.max(place.end);
            }
            _ => parts.push(place.clone()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(first: Vec<i64>, last: Vec<i64>) -> RecordBatch {
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        RecordBatch::try_from_iter([("first", column(first)), ("last", column(last))]).unwrap()
    }

    #[test]
    fn places_lie_in_their_object() {
        let of = |first, last| places(&batch(first, last), [0, 1], |_| Some(10));
        assert_eq!(of(vec![0, 4], vec![3, 9]).unwrap(), [0..4, 4..10]);
        for (first, last) in [(4, 10), (5, 4), (-1, 3), (i64::MIN, i64::MAX)] {
            assert_eq!(of(vec![first], vec![last]).unwrap_err().kind(), ErrorKind::Corrupt, "{first} to {last}");
        }
        let far = places(&batch(vec![i64::MAX], vec![i64::MAX]), [0, 1], |_| None).unwrap();
        assert_eq!(far, [i64::MAX as u64..i64::MAX as u64 + 1]);
    }

    #[test]
    fn only_what_both_name_is_read() {
        assert_eq!(places_in_both(&[1..3, 5..9, 10..12], &[0..1, 5..9, 10..12, 20..21]), [5..9, 10..12]);
        assert_eq!(places_in_both(&[], &[1..2]), []);
    }

    #[test]
    fn near_records_are_read_as_one() {
        assert_eq!(near_places(&[0..10, 10..20, 120..125], 100), [0..125]);
        assert_eq!(near_places(&[0..10, 111..125], 100), [0..10, 111..125]);
        let long = MAX_PART_BYTES + 1;
        assert_eq!(near_places(&[0..long, long..long + 5], 100), [0..long, long..long + 5]);
    }
}
