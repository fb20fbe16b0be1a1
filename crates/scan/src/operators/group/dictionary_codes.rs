//! Grouping by dictionary columns: each combination of codes is looked up once per batch, even if
//! it occurs in many rows.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::UInt32Type;
use pushdowndb_contract::Result;

use crate::error::from_arrow;
use crate::operators::group::keys::KeyTable;

/// Marks a combination of codes that has not occurred yet.
const NONE: u32 = u32::MAX;

impl KeyTable {
    /// Appends the group of each row to `groups`. New groups are added while they fit into `room`
    /// bytes; each takes `state_bytes` in addition to its key. Rows of other groups are omitted
    /// from `groups`, and their indexes are returned.
    pub(crate) fn find(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        room: usize,
        state_bytes: usize,
        groups: &mut Vec<usize>,
    ) -> Result<Vec<u32>> {
        let Some(combinations) = Combinations::of(keys, rows) else {
            let keys = keys.iter().map(plain).collect::<Result<Vec<_>>>()?;
            return self.find_values(&keys, rows, room, state_bytes, groups);
        };
        let (places, firsts) = combinations.firsts();
        let firsts = UInt32Array::from(firsts);
        let first_keys = keys.iter().map(|key| plain(&take(key, &firsts, None).map_err(from_arrow)?));
        let first_keys = first_keys.collect::<Result<Vec<_>>>()?;
        let mut found = Vec::with_capacity(firsts.len());
        let unknown = self.find_values(&first_keys, firsts.len(), room, state_bytes, &mut found)?;
        let mut found = found.into_iter();
        let group = |first: u32| if unknown.contains(&first) { None } else { found.next() };
        let known: Vec<Option<usize>> = (0..firsts.len() as u32).map(group).collect();
        let mut left_out = Vec::new();
        for (row, code) in combinations.codes.iter().enumerate() {
            let place = places.get(*code as usize).copied().unwrap_or(NONE);
            match known.get(place as usize) {
                Some(Some(group)) => groups.push(*group),
                _ => left_out.push(row as u32),
            }
        }
        Ok(left_out)
    }
}

/// The combination of codes of each row, as a number.
struct Combinations {
    codes: Vec<u32>,
    /// The number of possible combinations.
    count: usize,
}

impl Combinations {
    /// Returns `None` if a key is not a dictionary, or if there may be more combinations than rows.
    fn of(keys: &[ArrayRef], rows: usize) -> Option<Self> {
        let dictionaries = keys.iter().map(|key| key.as_dictionary_opt::<UInt32Type>()).collect::<Option<Vec<_>>>()?;
        // NULL has an additional code.
        let sizes: Vec<usize> = dictionaries.iter().map(|dictionary| dictionary.values().len() + 1).collect();
        let count = sizes.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))?;
        if keys.is_empty() || count > rows || u32::try_from(count).is_err() {
            return None;
        }
        let mut codes = vec![0; rows];
        for (dictionary, size) in dictionaries.into_iter().zip(sizes) {
            let (places, size) = (dictionary.keys(), size as u32);
            match places.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => codes.iter_mut().zip(places.values()).for_each(|(code, place)| *code = *code * size + place),
                Some(_) => {
                    for (code, place) in codes.iter_mut().zip(places) {
                        *code = *code * size + place.unwrap_or(size - 1);
                    }
                }
            }
        }
        Some(Self { codes, count })
    }

    /// Numbers the combinations in the order in which they first occur. Returns the number of each
    /// combination, and the first row of each number.
    fn firsts(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut numbers, mut firsts) = (vec![NONE; self.count], Vec::new());
        for (row, code) in self.codes.iter().enumerate() {
            if let Some(number) = numbers.get_mut(*code as usize).filter(|number| **number == NONE) {
                *number = firsts.len() as u32;
                firsts.push(row as u32);
            }
        }
        (numbers, firsts)
    }
}

/// Decodes a dictionary column; returns other columns unchanged.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    match column.as_dictionary_opt::<UInt32Type>() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys(), None).map_err(from_arrow),
        None => Ok(std::sync::Arc::clone(column)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int64Array, StringArray};
    use arrow::datatypes::DataType;

    use super::*;

    fn texts(places: &[Option<u32>], values: &[&str]) -> ArrayRef {
        Arc::new(DictionaryArray::new(UInt32Array::from(places.to_vec()), Arc::new(StringArray::from(values.to_vec()))))
    }

    fn numbers(places: &[Option<u32>], values: &[i64]) -> ArrayRef {
        Arc::new(DictionaryArray::new(UInt32Array::from(places.to_vec()), Arc::new(Int64Array::from(values.to_vec()))))
    }

    #[test]
    fn places_and_values_find_the_same_groups() {
        let rows = 40;
        let place = |row: usize, n: usize| (row % 7 != 3).then_some((row % n) as u32);
        let batches = [
            vec![
                texts(&(0..rows).map(|row| place(row, 3)).collect::<Vec<_>>(), &["a", "b", "a"]),
                numbers(&(0..rows).map(|row| place(row, 4)).collect::<Vec<_>>(), &[7, -1, 7, i64::MAX]),
            ],
            // Dictionaries that differ for the same columns, and too many combinations.
            vec![
                texts(&(0..rows).map(|row| place(row, 2)).collect::<Vec<_>>(), &["c", "a"]),
                numbers(&(0..rows).map(|row| place(row, 30)).collect::<Vec<_>>(), &(0..30).collect::<Vec<_>>()),
            ],
            // One of the columns is not a dictionary.
            vec![
                Arc::new(StringArray::from_iter_values((0..rows).map(|row| ["a", "d"][row % 2]))) as ArrayRef,
                numbers(&(0..rows).map(|row| place(row, 2)).collect::<Vec<_>>(), &[7, -1]),
            ],
        ];
        assert!(Combinations::of(&batches[0], rows).is_some() && Combinations::of(&batches[1], rows).is_none());
        let new = || KeyTable::new(vec![DataType::Utf8, DataType::Int64]).unwrap();
        let (mut table, mut expected) = (new(), new());
        let (mut groups, mut of_values) = (Vec::new(), Vec::new());
        for batch in &batches {
            assert_eq!(table.find(batch, rows, usize::MAX, 0, &mut groups).unwrap(), [0; 0]);
            let values = batch.iter().map(|column| plain(column).unwrap()).collect::<Vec<_>>();
            expected.find_values(&values, rows, usize::MAX, 0, &mut of_values).unwrap();
        }
        assert_eq!((groups, table.len()), (of_values, expected.len()));
        assert_eq!(table.into_columns().unwrap(), expected.into_columns().unwrap());
    }

    #[test]
    fn a_full_table_leaves_rows_of_other_combinations_out() {
        let batch = [texts(&[0, 1, 2, 0, 2, 1, 0].map(Some), &["a", "b", "c"])];
        let mut table = KeyTable::new(vec![DataType::Utf8]).unwrap();
        let mut groups = Vec::new();
        table.find(&batch, 7, usize::MAX, 0, &mut groups).unwrap();
        let room = table.bytes() * 2 / 3;
        let mut table = KeyTable::new(vec![DataType::Utf8]).unwrap();
        groups.clear();
        let unknown = table.find(&batch, 7, room, 0, &mut groups).unwrap();
        assert_eq!((groups, unknown), (vec![0, 1, 0, 1, 0], vec![2, 4]));
    }
}
