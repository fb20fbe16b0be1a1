//! The distinct keys of one side of a join, in bounded memory.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{SortOptions, cast, sort_to_indices};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::ScalarValue;
use pushdowndb_contract::{Error, Literal, Result};

use super::shift::Shift;
use crate::error::from_datafusion;
use crate::plan::lower::literal;

/// Hash set with a fast hash function, since up to a million keys are collected while the probe
/// side waits.
pub(crate) type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

/// Maximum distinct keys of a set. If there are more, only their bounds are kept.
pub(crate) const MAX_KEYS: usize = 1 << 20;

/// Maximum distinct keys whose values are kept, for types other than integers. If there are more,
/// only their hashes are kept.
const MAX_LISTED_KEYS: usize = 4096;

/// Maximum bytes of a text bound that is worth sending to storage.
const MAX_BOUND_BYTES: usize = 1024;

/// The distinct keys of one column.
#[derive(Clone, Debug)]
pub(crate) struct KeySet {
    data_type: DataType,
    distinct: Distinct,
    bounds: Option<(ScalarValue, ScalarValue)>,
    nulls: bool,
    rows: usize,
}

#[derive(Clone, Debug)]
enum Distinct {
    /// Integers, or dates as days since 1970.
    Whole(HashSet<i64>),
    /// Hashes ([`pushdowndb_contract::Key::hash`]) of other types, and the values while there are
    /// few.
    Hashed {
        hashes: HashSet<u64>,
        listed: Option<HashSet<ScalarValue>>,
    },
    TooMany,
}

/// Returns whether keys of this type can be collected and pushed to storage.
pub(crate) fn is_key(data_type: &DataType) -> bool {
    is_whole(data_type)
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::UInt64
                | DataType::Decimal128(..)
                | DataType::Float32
                | DataType::Float64
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                // Coarser units may exceed the range of microseconds, in which they are hashed.
                | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
        )
}

fn is_whole(data_type: &DataType) -> bool {
    (data_type.is_integer() && *data_type != DataType::UInt64) || *data_type == DataType::Date32
}

impl KeySet {
    pub(crate) fn new(data_type: DataType) -> Self {
        let distinct = match is_whole(&data_type) {
            // One of several keys of a join, with a type that is not collected.
            _ if !is_key(&data_type) => Distinct::TooMany,
            true => Distinct::Whole(HashSet::default()),
            // Zeros and NaN have several forms that may or may not be equal: only hashes are used.
            false => Distinct::Hashed {
                hashes: HashSet::default(),
                listed: (!data_type.is_floating()).then(HashSet::default),
            },
        };
        Self { data_type, distinct, bounds: None, nulls: false, rows: 0 }
    }

    pub(crate) fn push(&mut self, keys: &ArrayRef) -> Result<()> {
        self.rows += keys.len();
        self.nulls |= keys.null_count() > 0;
        if keys.null_count() == keys.len() || !is_key(&self.data_type) {
            return Ok(());
        }
        if !self.data_type.is_floating() {
            self.widen(first(keys, false)?, first(keys, true)?);
        }
        match &mut self.distinct {
            Distinct::Whole(values) => {
                let internal = |error| Error::internal("keys that are no integers").with_source(error);
                let days = matches!(self.data_type, DataType::Date32).then(|| cast(keys, &DataType::Int32));
                let whole = days.transpose().map_err(internal)?.unwrap_or_else(|| keys.clone());
                let whole = cast(&whole, &DataType::Int64).map_err(internal)?;
                values.extend(whole.as_primitive::<Int64Type>().iter().flatten());
            }
            Distinct::Hashed { hashes, listed } => {
                let mut row = 0;
                let mut failed = None;
                pushdowndb_scan::for_each_key(keys, &mut |key| {
                    if let Some(key) = key {
                        hashes.insert(key.hash());
                        if let Some(values) = listed {
                            match ScalarValue::try_from_array(keys, row) {
                                Ok(value) => drop(values.insert(value)),
                                Err(error) => failed = Some(error),
                            }
                            if values.len() > MAX_LISTED_KEYS {
                                *listed = None;
                            }
                        }
                    }
                    row += 1;
                })?;
                if let Some(error) = failed {
                    return Err(from_datafusion(error));
                }
            }
            Distinct::TooMany => {}
        }
        if self.distinct().is_some_and(|keys| keys > MAX_KEYS) {
            self.give_up();
        }
        Ok(())
    }

    fn widen(&mut self, least: ScalarValue, greatest: ScalarValue) {
        self.bounds = Some(match self.bounds.take() {
            None => (least, greatest),
            Some((low, high)) => (if least < low { least } else { low }, if greatest > high { greatest } else { high }),
        });
    }

    /// Drops the keys, but keeps their bounds.
    pub(crate) fn give_up(&mut self) {
        self.distinct = Distinct::TooMany;
    }

    /// Adds the keys of another partition of the same side.
    pub(crate) fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.nulls |= other.nulls;
        if let Some((least, greatest)) = other.bounds {
            self.widen(least, greatest);
        }
        match (&mut self.distinct, other.distinct) {
            (Distinct::Whole(values), Distinct::Whole(more)) => values.extend(more),
            (Distinct::Hashed { hashes, listed }, Distinct::Hashed { hashes: more, listed: more_listed }) => {
                hashes.extend(more);
                *listed = listed.take().zip(more_listed).map(|(mut values, more)| {
                    values.extend(more);
                    values
                });
            }
            (distinct, _) => *distinct = Distinct::TooMany,
        }
        if self.distinct().is_some_and(|keys| keys > MAX_KEYS) {
            self.give_up();
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        // Hash tables are at most 7/8 full, and double.
        match &self.distinct {
            Distinct::Whole(values) => values.capacity() * 16,
            Distinct::Hashed { hashes, listed } => {
                let listed = listed.iter().flatten();
                hashes.capacity() * 16 + listed.map(|value| value.size()).sum::<usize>()
            }
            Distinct::TooMany => 0,
        }
    }

    /// Returns the number of rows added, including those with NULL keys.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn nulls(&self) -> bool {
        self.nulls
    }

    /// Returns the number of distinct keys without NULL; `None` if there were too many.
    pub(crate) fn distinct(&self) -> Option<usize> {
        match &self.distinct {
            Distinct::Whole(values) => Some(values.len()),
            Distinct::Hashed { hashes, .. } => Some(hashes.len()),
            Distinct::TooMany => None,
        }
    }

    /// Returns the keys with `shift` undone; `None` if there is a shift and the keys are not 64-bit
    /// integers.
    pub(crate) fn shifted(&self, shift: Shift) -> Option<Cow<'_, Self>> {
        if shift.is_none() {
            return Some(Cow::Borrowed(self));
        }
        if self.data_type != DataType::Int64 {
            return None;
        }
        let distinct = match &self.distinct {
            Distinct::Whole(values) => Distinct::Whole(values.iter().map(|key| shift.undo(*key)).collect()),
            _ => Distinct::TooMany,
        };
        let bound = |value: &ScalarValue| match value {
            ScalarValue::Int64(Some(key)) => shift.undo_in_order(*key).map(|key| ScalarValue::Int64(Some(key))),
            _ => None,
        };
        let bounds = self.bounds.as_ref().and_then(|(least, greatest)| bound(least).zip(bound(greatest)));
        let bounds = bounds.map(|(least, greatest)| if shift.negated { (greatest, least) } else { (least, greatest) });
        let (nulls, rows) = (self.nulls, self.rows);
        Some(Cow::Owned(Self { data_type: DataType::Int64, distinct, bounds, nulls, rows }))
    }

    /// Returns the distinct keys if they are integers and there were not too many.
    pub(crate) fn whole(&self) -> Option<&HashSet<i64>> {
        match &self.distinct {
            Distinct::Whole(values) if self.data_type.is_integer() => Some(values),
            _ => None,
        }
    }

    /// Calls `f` with the hash of each key; `None` if there were too many.
    pub(crate) fn each_hash(&self, f: &mut dyn FnMut(u64)) -> Option<()> {
        match &self.distinct {
            Distinct::Whole(values) => values.iter().for_each(|value| f(pushdowndb_contract::Key::Int(*value).hash())),
            Distinct::Hashed { hashes, .. } => hashes.iter().for_each(|hash| f(*hash)),
            Distinct::TooMany => return None,
        }
        Some(())
    }

    /// Returns the sorted keys as literals; `None` if there are more than `most`, or if one cannot
    /// be a literal.
    pub(crate) fn listed(&self, most: usize) -> Option<Vec<Literal>> {
        match &self.distinct {
            Distinct::Whole(values) if values.len() <= most => {
                let mut values: Vec<i64> = values.iter().copied().collect();
                values.sort_unstable();
                let date = |days| i32::try_from(days).ok().map(Literal::Date);
                let of = |value| if self.data_type.is_integer() { Some(Literal::Int64(value)) } else { date(value) };
                values.into_iter().map(of).collect()
            }
            Distinct::Hashed { listed: Some(values), .. } if values.len() <= most => {
                let mut values: Vec<&ScalarValue> = values.iter().collect();
                values.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
                values.into_iter().map(literal).collect()
            }
            _ => None,
        }
    }

    /// Returns the least and the greatest key as literals; `None` if they are unknown or too long.
    pub(crate) fn bounds(&self) -> Option<(Literal, Literal)> {
        let (least, greatest) = self.bounds.as_ref()?;
        let long = |value: &Literal| matches!(value, Literal::Utf8(text) if text.len() > MAX_BOUND_BYTES);
        let bounds = (literal(least)?, literal(greatest)?);
        (!long(&bounds.0) && !long(&bounds.1)).then_some(bounds)
    }
}

/// Returns the least of `keys`, or the greatest if `descending`. At least one of `keys` must not be
/// NULL.
fn first(keys: &ArrayRef, descending: bool) -> Result<ScalarValue> {
    let internal = |error| Error::internal("keys without an order").with_source(error);
    let order = SortOptions { descending, nulls_first: false };
    let first = sort_to_indices(keys, Some(order), Some(1)).map_err(internal)?;
    let row = first.values().first().copied().unwrap_or_default() as usize;
    ScalarValue::try_from_array(keys, row).map_err(from_datafusion)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int32Array, StringArray};

    use super::*;

    fn of(pieces: &[ArrayRef]) -> KeySet {
        let mut parts = pieces.iter().map(|piece| {
            let mut keys = KeySet::new(piece.data_type().clone());
            keys.push(piece).unwrap();
            keys
        });
        let first = parts.next().unwrap();
        parts.fold(first, |mut all, part| {
            all.merge(part);
            all
        })
    }

    #[test]
    fn integers_and_dates_are_listed() {
        let keys = of(&[
            Arc::new(Int32Array::from(vec![Some(3), None, Some(-4), Some(3)])),
            Arc::new(Int32Array::from(vec![None, None])),
            Arc::new(Int32Array::from(vec![9, 3])),
        ]);
        assert_eq!((keys.rows(), keys.distinct(), keys.nulls()), (8, Some(3), true));
        assert_eq!(keys.bounds(), Some((Literal::Int64(-4), Literal::Int64(9))));
        assert_eq!(keys.listed(3).unwrap(), [Literal::Int64(-4), Literal::Int64(3), Literal::Int64(9)]);
        assert!(keys.listed(2).is_none());
        let days = of(&[Arc::new(Date32Array::from(vec![-1, 20_000]))]);
        assert_eq!(days.listed(9).unwrap(), [Literal::Date(-1), Literal::Date(20_000)]);
        assert!(days.whole().is_none(), "a date is no number in SQL");
    }

    #[test]
    fn other_types_are_listed_while_few() {
        let text = of(&[Arc::new(StringArray::from(vec!["it's", "b", "b"]))]);
        assert_eq!(text.listed(9).unwrap(), [Literal::Utf8("b".into()), Literal::Utf8("it's".into())]);
        let many: Vec<String> = (0..=MAX_LISTED_KEYS).map(|i| i.to_string()).collect();
        let many = of(&[Arc::new(StringArray::from(many))]);
        assert_eq!((many.distinct(), many.listed(usize::MAX)), (Some(MAX_LISTED_KEYS + 1), None));
        let decimals = Decimal128Array::from(vec![150, -1]).with_precision_and_scale(5, 2).unwrap();
        let decimals = of(&[Arc::new(decimals)]);
        assert_eq!(decimals.bounds(), Some((Literal::Decimal(-1, 5, 2), Literal::Decimal(150, 5, 2))));
        let floats = of(&[Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN]))]);
        assert_eq!((floats.distinct(), floats.listed(9), floats.bounds()), (Some(2), None, None));
    }

    #[test]
    fn shifted_keys_wrap_around_but_bounds_do_not() {
        use arrow::array::Int64Array;
        let keys = of(&[Arc::new(Int64Array::from(vec![i64::MIN, 3, 7]))]);
        let down = Shift { negated: false, offset: 1 };
        let shifted = keys.shifted(down).unwrap();
        assert_eq!(shifted.listed(3).unwrap(), [2, 6, i64::MAX].map(Literal::Int64));
        assert_eq!(shifted.bounds(), None, "one came round");
        let keys = of(&[Arc::new(Int64Array::from(vec![3, 7]))]);
        let from_ten = keys.shifted(Shift { negated: true, offset: 10 }).unwrap();
        assert_eq!(from_ten.listed(2).unwrap(), [3, 7].map(Literal::Int64));
        assert_eq!(from_ten.bounds(), Some((Literal::Int64(3), Literal::Int64(7))));
        assert!(of(&[Arc::new(Int32Array::from(vec![3]))]).shifted(down).is_none());
    }

    #[test]
    fn too_many_keys_leave_the_bounds() {
        let some = |from: i32| Arc::new(Int32Array::from_iter_values(from..from + 700_000)) as ArrayRef;
        let keys = of(&[some(0), some(350_000)]);
        assert_eq!((keys.distinct(), keys.rows()), (None, 1_400_000));
        assert_eq!(keys.bounds(), Some((Literal::Int64(0), Literal::Int64(1_049_999))));
        assert!(keys.memory_bytes() == 0 && keys.each_hash(&mut |_| ()).is_none());
    }
}
