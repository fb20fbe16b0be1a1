//! A list of keys, and whether a key is in it.
//!
//! Most keys that are asked for are not: the keys of a join drop nearly all rows. A table of bits, one for each hash, tells
//! most of these apart with one look, where a search through the list takes a step for each of its halves, and none of
//! them can be foretold.

/// Bits in the table for each key: of the keys that are not in the list at most one in so many is looked for in it.
const BITS: usize = 16;

/// Multiplied with a key, its highest bits depend on all of the key: 2^64 by the golden ratio (Knuth, "The Art of Computer
/// Programming", volume 3, Section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Keys, ready to be asked for.
#[derive(Debug)]
pub(super) struct KeyList {
    /// Ascending.
    keys: Vec<i64>,
    table: Vec<u64>,
    /// What a hash is shifted by to be the place of a bit.
    shift: u32,
}

impl KeyList {
    pub(super) fn new(mut keys: Vec<i64>) -> Self {
        keys.sort_unstable();
        let bits = keys.len().saturating_mul(BITS).next_power_of_two().max(u64::BITS as usize);
        let shift = u64::BITS - bits.trailing_zeros();
        let mut table = vec![0; bits / u64::BITS as usize];
        for key in &keys {
            let (word, bit) = place(*key, shift);
            if let Some(word) = table.get_mut(word) {
                *word |= bit;
            }
        }
        Self { keys, table, shift }
    }

    #[inline(always)]
    pub(super) fn contains(&self, key: i64) -> bool {
        let (word, bit) = place(key, self.shift);
        self.table.get(word).is_some_and(|word| word & bit != 0) && self.keys.binary_search(&key).is_ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The word of the table that holds the bit of a key, and that bit.
#[inline(always)]
fn place(key: i64, shift: u32) -> (usize, u64) {
    let hash = key.cast_unsigned().wrapping_mul(GOLDEN) >> shift;
    ((hash / u64::from(u64::BITS)) as usize, 1 << (hash % u64::from(u64::BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_its_keys_and_no_others() {
        for count in [0, 1, 3, 4, 5, 1000] {
            let keys: Vec<i64> =
                [i64::MIN, i64::MAX, 0, -1].into_iter().chain((0..).map(|n| n * 37)).take(count).collect();
            let list = KeyList::new(keys.iter().rev().copied().collect());
            assert_eq!(list.is_empty(), keys.is_empty());
            assert!(keys.iter().all(|key| list.contains(*key)), "{count}");
            let others = (-2000..40_000).chain([i64::MIN + 1, i64::MAX - 1, i64::MIN, i64::MAX]);
            let others: Vec<i64> = others.filter(|key| !keys.contains(key)).collect();
            assert!(!others.iter().any(|key| list.contains(*key)), "{count}");
        }
    }

    #[test]
    fn most_other_keys_are_told_apart_by_the_table() {
        let list = KeyList::new((0..1000).map(|n| n * 37).collect());
        let hit = |key: &i64| {
            let (word, bit) = place(*key, list.shift);
            list.table[word] & bit != 0
        };
        let hits = (40_000..140_000).filter(hit).count();
        assert!(hits < 10_000, "{hits} of 100 000");
    }
}
