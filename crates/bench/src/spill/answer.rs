//! Checks whether contestants agree, by counts and sums of rows that are updated while rows arrive.

use anyhow::{Context, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use serde::Deserialize;

/// The factor that makes the hash of rows depend on their order.
const ORDER_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// How answers are compared.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// A column of integers that every contestant sums.
    pub column: &'static str,
    /// Whether the order of rows is compared too.
    pub in_order: bool,
}

/// The answer of a contestant.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct Answer {
    pub rows: u64,
    /// The sum of the checked column modulo 2^64. If the order counts, each value is multiplied by
    /// its position, from 1 on.
    pub sum: u64,
    /// A hash of all columns; `None` for contestants outside of this program.
    #[serde(default)]
    pub hash: Option<u64>,
}

impl Answer {
    /// An answer without rows.
    pub fn empty() -> Self {
        Self { hash: Some(0), ..Self::default() }
    }

    /// Adds the next rows.
    pub fn add(&mut self, batch: &RecordBatch, checked: &Checked) -> Result<()> {
        let column = batch.column_by_name(checked.column);
        let column = column.with_context(|| format!("the answer has no column {}", checked.column))?;
        let values = cast(column, &DataType::Int64)?;
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(batch.columns(), &RandomState::with_seed(0), &mut hashes)?;
        let mut hash = self.hash.unwrap_or_default();
        for (value, row) in values.as_primitive::<Int64Type>().values().iter().zip(&hashes) {
            self.rows += 1;
            let position = if checked.in_order { self.rows } else { 1 };
            self.sum = self.sum.wrapping_add(position.wrapping_mul(*value as u64));
            let before = if checked.in_order { hash.wrapping_mul(ORDER_FACTOR) } else { hash };
            hash = before.wrapping_add(mixed(*row));
        }
        self.hash = Some(hash);
        Ok(())
    }

    /// Whether two answers are equal in all parts that both of them have.
    pub fn agrees(&self, other: &Self) -> bool {
        let same_hash = self.hash.zip(other.hash).is_none_or(|(own, theirs)| own == theirs);
        self.rows == other.rows && self.sum == other.sum && same_hash
    }
}

/// Maps each number to another one, with the steps of SplitMix64. Hashes of rows are linear in
/// those of their columns, so without this their sum would not show which values are in the same
/// row.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn answer(rows: &[(i64, &str)], cut: usize, in_order: bool) -> Answer {
        let mut answer = Answer::empty();
        let (first, second) = rows.split_at(cut);
        for part in [first, second] {
            let keys: ArrayRef = Arc::new(part.iter().map(|row| Some(row.0)).collect::<Int64Array>());
            let texts: ArrayRef = Arc::new(part.iter().map(|row| Some(row.1)).collect::<StringArray>());
            let batch = RecordBatch::try_from_iter([("k", keys), ("t", texts)]).unwrap();
            answer.add(&batch, &Checked { column: "k", in_order }).unwrap();
        }
        answer
    }

    #[test]
    fn order_counts_where_it_should() {
        let rows = [(1, "a"), (2, "b"), (3, "c")];
        let swapped = [(2, "b"), (1, "a"), (3, "c")];
        let other = [(1, "a"), (2, "c"), (3, "b")];
        for in_order in [false, true] {
            assert!(answer(&rows, 1, in_order).agrees(&answer(&rows, 2, in_order)));
            assert_eq!(answer(&rows, 1, in_order).agrees(&answer(&swapped, 1, in_order)), !in_order);
            assert!(!answer(&rows, 1, in_order).agrees(&answer(&other, 1, in_order)));
        }
        assert_eq!(answer(&swapped, 0, true).sum, 2 + 2 + 9);
        // Contestants outside of this program only report the sum.
        assert!(answer(&rows, 1, true).agrees(&Answer { rows: 3, sum: 14, hash: None }));
    }
}
