//! The first k of the keys seen so far, as long as the keys are short enough to be held.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{SortOptions, concat, sort_to_indices, take};
use pushdowndb_contract::Result;

use crate::batch::compact_array;
use crate::error::from_arrow;
use crate::limits::MAX_FIRST_KEYS_BYTES;

/// The number of held keys from which all but the first k are dropped.
const MAX_HELD_KEYS: usize = 65_536;

/// The first k keys seen so far.
#[derive(Debug)]
pub struct FirstKeys {
    order: SortOptions,
    k: usize,
    keys: Vec<ArrayRef>,
    held: usize,
    bytes: usize,
    /// True after the keys were too long: no keys are held then.
    given_up: bool,
}

impl FirstKeys {
    /// Creates an empty set of keys.
    pub fn new(order: SortOptions, k: usize) -> Self {
        Self { order, k, keys: Vec::new(), held: 0, bytes: 0, given_up: false }
    }

    /// Adds the keys of some rows. All keys must have the same type.
    pub fn push(&mut self, keys: ArrayRef) -> Result<()> {
        if self.given_up {
            return Ok(());
        }
        self.held += keys.len();
        self.bytes += keys.get_array_memory_size();
        self.keys.push(keys);
        if self.held <= self.k.saturating_mul(2).max(MAX_HELD_KEYS) && self.bytes <= MAX_FIRST_KEYS_BYTES {
            return Ok(());
        }
        self.sort()?;
        if self.bytes > MAX_FIRST_KEYS_BYTES {
            // Keys only save work, so they can be given up.
            self.given_up = true;
            (self.keys, self.held, self.bytes) = (Vec::new(), 0, 0);
        }
        Ok(())
    }

    /// Returns the k-th key as an array with one value; `None` if fewer keys were seen.
    pub fn kth(&mut self) -> Result<Option<ArrayRef>> {
        if self.k == 0 || self.held < self.k {
            return Ok(None);
        }
        self.sort()?;
        Ok(self.keys.first().map(|keys| keys.slice(self.k - 1, 1)))
    }

    fn sort(&mut self) -> Result<()> {
        let keys: Vec<&dyn Array> = self.keys.iter().map(AsRef::as_ref).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let keys = concat(&keys).map_err(from_arrow)?;
        let first = sort_to_indices(&keys, Some(self.order), Some(self.k)).map_err(from_arrow)?;
        let first = compact_array(&take(&keys, &first, None).map_err(from_arrow)?);
        (self.held, self.bytes) = (first.len(), first.get_array_memory_size());
        self.keys = vec![first];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    /// Returns the k-th key: `None` if there are fewer keys, `Some(None)` if it is NULL.
    fn kth(k: usize, descending: bool, nulls_first: bool, pieces: &[ArrayRef]) -> Option<Option<i64>> {
        let mut keys = FirstKeys::new(SortOptions { descending, nulls_first }, k);
        pieces.iter().for_each(|piece| keys.push(Arc::clone(piece)).expect("integers"));
        let kth = keys.kth().expect("integers")?;
        Some(kth.is_valid(0).then(|| kth.as_primitive::<Int64Type>().value(0)))
    }

    #[test]
    fn the_kth_key_is_that_of_a_sort() {
        let pieces: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(5), None, Some(1)])),
            Arc::new(Int64Array::from(vec![Some(3), Some(3), None])),
        ];
        assert_eq!(kth(2, false, false, &pieces), Some(Some(3)));
        assert_eq!(kth(1, true, false, &pieces), Some(Some(5)));
        assert_eq!(kth(3, false, true, &pieces), Some(Some(1)));
        assert_eq!(kth(2, false, true, &pieces), Some(None));
        assert_eq!(kth(5, false, false, &pieces), Some(None));
        assert_eq!(kth(7, false, false, &pieces), None, "fewer than k");
        assert_eq!(kth(0, false, false, &pieces), None);
        assert_eq!(kth(1, false, false, &[]), None);
    }

    #[test]
    fn keys_that_are_too_long_are_not_held() {
        let mut keys = FirstKeys::new(SortOptions::default(), 100_000);
        let long: ArrayRef =
            Arc::new(arrow::array::StringArray::from_iter_values((0..100).map(|_| "x".repeat(100_000))));
        for _ in 0..10 {
            keys.push(Arc::clone(&long)).unwrap();
            assert!(keys.bytes <= MAX_FIRST_KEYS_BYTES);
        }
        assert!(keys.given_up && keys.kth().unwrap().is_none());
    }

    #[test]
    fn keys_beyond_the_first_k_are_let_go() {
        let pieces: Vec<ArrayRef> =
            (0..40i64).map(|i| Arc::new(Int64Array::from_iter_values((0..5000).map(|j| j * 40 + i))) as _).collect();
        assert_eq!(kth(3, false, false, &pieces), Some(Some(2)));
    }
}
