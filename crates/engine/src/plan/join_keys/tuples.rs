//! The distinct tuples of a join's several keys, which are often far fewer than the possible
//! combinations of values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use pushdowndb_contract::{Error, Key, Result, and_key};

use super::set::{HashSet, MAX_KEYS, is_key};

/// Maximum distinct tuples of integers whose values are kept. If there are more, only hashes are
/// kept, since they would not fit into a filter in SQL.
const MAX_INTEGER_TUPLES: usize = 200_000;

/// The distinct tuples of a build side's keys, without those that contain a NULL.
#[derive(Clone, Debug)]
pub(crate) struct TupleSet {
    /// Hashes of the tuples, for a binary Bloom filter; `None` if there were too many.
    hashes: Option<HashSet<u64>>,
    /// Values of the tuples, for a Bloom filter in SQL; `None` if there were too many, or if a key
    /// is not an integer.
    whole: Option<HashSet<Box<[i64]>>>,
}

impl TupleSet {
    /// Creates an empty set. Returns `None` for a single key, or for types that are not collected.
    pub(crate) fn new(types: &[DataType]) -> Option<Self> {
        let whole = types.iter().all(|t| t.is_integer() && *t != DataType::UInt64);
        let collected = types.len() > 1 && types.iter().all(is_key);
        collected.then(|| Self { hashes: Some(HashSet::default()), whole: whole.then(HashSet::default) })
    }

    /// Adds the keys of a batch, one array per key.
    pub(crate) fn push(&mut self, keys: &[ArrayRef]) -> Result<()> {
        let Some(hashes) = &mut self.hashes else { return Ok(()) };
        let mut of_rows: Vec<Option<u64>> = Vec::new();
        for (place, keys) in keys.iter().enumerate() {
            let mut row = 0;
            pushdowndb_scan::for_each_key(keys, &mut |key| {
                let hash = key.map(Key::hash);
                match of_rows.get_mut(row) {
                    Some(before) => *before = before.zip(hash).map(|(before, hash)| and_key(before, hash)),
                    None if place == 0 => of_rows.push(hash),
                    None => {}
                }
                row += 1;
            })?;
        }
        hashes.extend(of_rows.into_iter().flatten());
        if let Some(whole) = &mut self.whole {
            let internal = |error| Error::internal("keys that are no integers").with_source(error);
            let columns = keys.iter().map(|keys| cast(keys, &DataType::Int64).map_err(internal));
            let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
            let columns: Vec<_> = columns.iter().map(|column| column.as_primitive::<Int64Type>()).collect();
            for row in 0..columns.first().map_or(0, |column| column.len()) {
                let tuple: Option<Box<[i64]>> =
                    columns.iter().map(|column| column.is_valid(row).then(|| column.value(row))).collect();
                whole.extend(tuple);
            }
        }
        self.keep_within_bounds();
        Ok(())
    }

    /// Adds the tuples of another partition of the same side.
    pub(crate) fn merge(&mut self, other: Self) {
        self.hashes = self.hashes.take().zip(other.hashes).map(|(all, more)| union(all, more));
        self.whole = self.whole.take().zip(other.whole).map(|(all, more)| union(all, more));
        self.keep_within_bounds();
    }

    fn keep_within_bounds(&mut self) {
        if self.whole.as_ref().is_some_and(|whole| whole.len() > MAX_INTEGER_TUPLES) {
            self.whole = None;
        }
        if self.hashes.as_ref().is_some_and(|hashes| hashes.len() > MAX_KEYS) {
            self.give_up();
        }
    }

    pub(crate) fn give_up(&mut self) {
        *self = Self { hashes: None, whole: None };
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |whole: &HashSet<Box<[i64]>>| {
            let width = whole.iter().next().map_or(0, |tuple| tuple.len() * 8 + 16);
            whole.capacity() * 24 + whole.len() * width
        };
        self.hashes.as_ref().map_or(0, |hashes| hashes.capacity() * 16) + self.whole.as_ref().map_or(0, bytes)
    }

    /// Returns the number of distinct tuples; `None` if there were too many.
    pub(crate) fn distinct(&self) -> Option<usize> {
        self.hashes.as_ref().map(HashSet::len)
    }

    pub(crate) fn hashes(&self) -> Option<&HashSet<u64>> {
        self.hashes.as_ref()
    }

    pub(crate) fn whole(&self) -> Option<&HashSet<Box<[i64]>>> {
        self.whole.as_ref()
    }
}

fn union<T: std::hash::Hash + Eq>(mut all: HashSet<T>, more: HashSet<T>) -> HashSet<T> {
    all.extend(more);
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn combinations_are_counted_without_nulls() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), None, Some(1)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("a"), Some("a")]));
        let mut mixed = TupleSet::new(&[DataType::Int64, DataType::Utf8]).unwrap();
        mixed.push(&[Arc::clone(&ints), texts]).unwrap();
        assert_eq!(mixed.distinct(), Some(2));
        assert!(mixed.whole().is_none());

        let more: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, i32::MIN, 7, 2]));
        let mut whole = TupleSet::new(&[DataType::Int64, DataType::Int32]).unwrap();
        whole.push(&[ints, more]).unwrap();
        assert_eq!(whole.distinct(), Some(3));
        assert!(whole.whole().unwrap().contains(&[2, i64::from(i32::MIN)][..]));
        assert!(TupleSet::new(&[DataType::Int64]).is_none());
        assert!(TupleSet::new(&[DataType::Int64, DataType::Binary]).is_none());
    }

    #[test]
    fn too_many_combinations_are_dropped() {
        let column = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 600_000)) as ArrayRef;
        let of = |from| {
            let mut tuples = TupleSet::new(&[DataType::Int64, DataType::Int64]).unwrap();
            tuples.push(&[column(from), column(0)]).unwrap();
            tuples
        };
        let mut all = of(0);
        assert!(all.whole().is_none() && all.distinct() == Some(600_000));
        all.merge(of(1));
        assert_eq!((all.distinct(), all.memory_bytes()), (None, 0));
    }
}
