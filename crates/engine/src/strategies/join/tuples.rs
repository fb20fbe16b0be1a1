//! The distinct combinations of a join's keys, where it has several: far fewer than their values would make together.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use pushdown::{Error, Key, Result, and_key};

use super::HashSet;
use super::keys::{MOST_KEYS, is_key};

/// Beyond so many only the hashes of integers are kept: no SQL has room for more.
const MOST_WHOLE: usize = 200_000;

/// The combinations of the keys of a join's build side. None of them has a NULL.
#[derive(Clone, Debug)]
pub(crate) struct TupleSet {
    /// As a Bloom filter in bytes is made of; `None` if too many.
    hashes: Option<HashSet<u64>>,
    /// As one in SQL is made of; `None` if too many, or if not all keys are integers.
    whole: Option<HashSet<Box<[i64]>>>,
}

impl TupleSet {
    /// `None` for a single key, and for keys that are not collected.
    pub(crate) fn new(types: &[DataType]) -> Option<Self> {
        let whole = types.iter().all(|t| t.is_integer() && *t != DataType::UInt64);
        let collected = types.len() > 1 && types.iter().all(is_key);
        collected.then(|| Self { hashes: Some(HashSet::default()), whole: whole.then(HashSet::default) })
    }

    /// Takes the keys of some rows in, an array for each key.
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

    /// Takes in what another part of the same side has collected.
    pub(crate) fn merge(&mut self, other: Self) {
        self.hashes = self.hashes.take().zip(other.hashes).map(|(all, more)| union(all, more));
        self.whole = self.whole.take().zip(other.whole).map(|(all, more)| union(all, more));
        self.keep_within_bounds();
    }

    fn keep_within_bounds(&mut self) {
        if self.whole.as_ref().is_some_and(|whole| whole.len() > MOST_WHOLE) {
            self.whole = None;
        }
        if self.hashes.as_ref().is_some_and(|hashes| hashes.len() > MOST_KEYS) {
            self.give_up();
        }
    }

    /// Forgets them.
    pub(crate) fn give_up(&mut self) {
        *self = Self { hashes: None, whole: None };
    }

    /// Bytes of memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |whole: &HashSet<Box<[i64]>>| {
            let width = whole.iter().next().map_or(0, |tuple| tuple.len() * 8 + 16);
            whole.capacity() * 24 + whole.len() * width
        };
        self.hashes.as_ref().map_or(0, |hashes| hashes.capacity() * 16) + self.whole.as_ref().map_or(0, bytes)
    }

    /// How many there are; `None` if too many to be known.
    pub(crate) fn distinct(&self) -> Option<usize> {
        self.hashes.as_ref().map(HashSet::len)
    }

    /// Their hashes.
    pub(super) fn hashes(&self) -> Option<&HashSet<u64>> {
        self.hashes.as_ref()
    }

    /// The combinations of integers.
    pub(super) fn whole(&self) -> Option<&HashSet<Box<[i64]>>> {
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
    fn combinations_are_counted_and_those_with_null_are_none() {
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
    fn what_is_too_much_is_forgotten() {
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
