//! Tests of recording and searching together.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use pushdowndb_contract::{CompareOp, Expr};

use crate::zones::recorder::ZoneRecorder;
use crate::zones::search::{intersection, wants_keys};
use crate::zones::store::*;
use crate::zones::zone::{ZONE_BYTES, ZoneColumn, column_key};

fn column(data_type: DataType) -> ZoneColumn {
    ZoneColumn { key: column_key().text("c").finish(), field: Field::new("c", data_type, true) }
}

/// Returns the starts of records that have half the size of a zone.
fn starts(count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| i * ZONE_BYTES / 2).collect()
}

fn observed(values: ArrayRef, keys: bool) -> (Zones, Vec<ZoneColumn>, u64) {
    let zones = Arc::new(Zones::default());
    let of = column(values.data_type().clone());
    let starts = starts(values.len());
    let end = values.len() as u64 * ZONE_BYTES / 2;
    let mut recorder = ZoneRecorder::new(&zones, vec![(of.clone(), keys)], 0).unwrap();
    // In pieces, as a scan observes them.
    for at in (0..values.len()).step_by(3) {
        let rows = 3.min(values.len() - at);
        recorder.observe(&starts[at..at + rows], &[values.slice(at, rows)]).unwrap();
    }
    recorder.finish(end);
    drop(recorder);
    (Arc::into_inner(zones).unwrap(), vec![of], end)
}

fn in_zones(surviving: &[Range<u64>]) -> Vec<Range<u64>> {
    surviving.iter().map(|range| range.start / ZONE_BYTES..range.end / ZONE_BYTES).collect()
}

fn compare(op: CompareOp, value: i64) -> Expr {
    Expr::compare(op, Expr::Column(0), Expr::int(value))
}

#[test]
fn bounds_rule_stretches_out() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 11, 12, 21, 22, 31, 32]));
    let (zones, columns, end) = observed(values, false);
    let left = |condition: &Expr| in_zones(&zones.surviving(condition, &columns, 0..end).unwrap());
    assert_eq!(left(&compare(CompareOp::Gt, 12)), [2..4]);
    assert_eq!(left(&compare(CompareOp::Eq, 11)), [1..2]);
    assert_eq!(left(&compare(CompareOp::Eq, 15)), [] as [Range<u64>; 0]);
    assert_eq!(left(&compare(CompareOp::NotEq, 15)), [0..4]);
    let either = Expr::Or(vec![compare(CompareOp::Lt, 5), compare(CompareOp::GtEq, 31)]);
    assert_eq!(left(&either), [0..1, 3..4]);
    let both = compare(CompareOp::Gt, 5).and(compare(CompareOp::Lt, 25));
    assert_eq!(left(&both), [1..3]);
    let unknown = Expr::Not(Box::new(compare(CompareOp::Gt, 5)));
    assert_eq!(left(&Expr::Or(vec![compare(CompareOp::Lt, 5), unknown.clone()])), [0..4]);
    assert_eq!(left(&compare(CompareOp::Lt, 5).and(unknown)), [0..1]);
    // A zone that is only partly in the range does not exclude that part.
    assert_eq!(zones.surviving(&compare(CompareOp::Gt, 100), &columns, 5..end).unwrap(), [5..ZONE_BYTES]);
}

#[test]
fn keys_rule_out_what_bounds_do_not() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "z", "b", "y", "c", "x"]));
    let (zones, columns, end) = observed(values, true);
    let is = |text: &str| Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::text(text));
    assert_eq!(in_zones(&zones.surviving(&is("b"), &columns, 0..end).unwrap()), [1..2]);
    assert_eq!(in_zones(&zones.surviving(&is("x"), &columns, 0..end).unwrap()), [2..3]);
    let list =
        Expr::InList { expr: Box::new(Expr::Column(0)), list: vec![Expr::text("a"), Expr::text("c")], negated: false };
    assert_eq!(in_zones(&zones.surviving(&list, &columns, 0..end).unwrap()), [0..1, 2..3]);
    assert!(wants_keys(&is("b"), 0, &columns[0].field) && wants_keys(&list, 0, &columns[0].field));
    assert!(!wants_keys(&compare(CompareOp::Lt, 1), 0, &columns[0].field));
}

#[test]
fn nulls_count_for_is_null_alone() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![None, None, Some(1), None, Some(2), Some(3)]));
    let (zones, columns, end) = observed(values, true);
    let is_null = Expr::IsNull(Box::new(Expr::Column(0)));
    let left = |condition: &Expr| in_zones(&zones.surviving(condition, &columns, 0..end).unwrap());
    assert_eq!(left(&is_null), [0..2]);
    assert_eq!(left(&Expr::Not(Box::new(is_null))), [1..3]);
    assert_eq!(left(&compare(CompareOp::Gt, 0)), [1..3]);
    assert_eq!(left(&compare(CompareOp::Eq, 1)), [1..2]);
}

#[test]
fn what_is_known_is_not_gathered_again() {
    let zones = Arc::new(Zones::default());
    let of = column(DataType::Int64);
    let record = |starts: &[u64], values: Vec<i64>, keys: bool, from: u64, end: u64| {
        let mut recorder = ZoneRecorder::new(&zones, vec![(of.clone(), keys)], from).unwrap();
        recorder.observe(starts, &[Arc::new(Int64Array::from(values)) as ArrayRef]).unwrap();
        recorder.finish(end);
    };
    record(&[0, 10, ZONE_BYTES], vec![1, 2, 3], false, 0, ZONE_BYTES + 10);
    let size = zones.size_bytes();
    record(&[0, 10, ZONE_BYTES], vec![1, 2, 3], false, 0, ZONE_BYTES + 10);
    assert_eq!(zones.size_bytes(), size, "twice the same");
    record(&[0, 10, ZONE_BYTES], vec![1, 2, 3], true, 0, ZONE_BYTES + 10);
    assert!(zones.size_bytes() > size, "now with keys");
    let gone =
        |value| zones.surviving(&compare(CompareOp::Eq, value), std::slice::from_ref(&of), 0..ZONE_BYTES + 10).unwrap();
    assert_eq!(gone(2), [0..ZONE_BYTES]);
    assert_eq!(gone(9), [] as [Range<u64>; 0]);
}

#[test]
fn what_both_rule_out_is_ruled_out() {
    assert_eq!(intersection(&[0..4, 6..9], &[2..7, 8..20]), [2..4, 6..7, 8..9]);
    assert_eq!(intersection(&[0..4], &[]), [] as [Range<u64>; 0]);
}

#[test]
fn what_is_kept_comes_back() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("z"), None, None, Some("c"), Some("x")]));
    let (zones, columns, end) = observed(values, true);
    let bytes = zones.to_bytes().unwrap();
    let again = Zones::from_bytes(&bytes).unwrap();
    assert_eq!((again.size_bytes(), again.to_bytes().unwrap()), (zones.size_bytes(), bytes.clone()));
    for text in ["a", "b", "x", "zz"] {
        let is = Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::text(text));
        let left = |zones: &Zones| zones.surviving(&is, &columns, 0..end).unwrap();
        assert_eq!(left(&again), left(&zones), "{text}");
    }
    assert!(Zones::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    assert!(Zones::from_bytes(b"\x01\0\0\0x").is_err());
    assert_eq!(Zones::from_bytes(b"").unwrap().size_bytes(), 0);
    // A scan of this version must not use keys of another version.
    let key = columns[0].key.to_string();
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap();
    let with = |first: u8| {
        let mut other = bytes.clone();
        other[at] = first;
        Zones::from_bytes(&other)
    };
    assert_eq!(with(b'9').unwrap().size_bytes(), 0);
    assert!(with(b'x').is_err());
}
