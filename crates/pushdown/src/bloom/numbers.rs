//! A set of whole numbers as bits, from the least of them on: keys that are counted up lie near each other, and one bit for each
//! number that there could be is less than a Bloom filter's bits for each that there is.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PDBF` |
//! | 4 | version, 2 |
//! | 5..8 | 0 |
//! | 8..16 | the first number, little endian, two's complement |
//! | 16.. | the bits, at least one byte; bit `i` is bit `i % 8` of byte `i / 8`, and set if the first number + `i` is in the set |

/// The first number comes before the bits.
const FIRST_BYTES: usize = size_of::<i64>();

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NumberSet {
    first: i64,
    bits: Vec<u8>,
}

impl NumberSet {
    /// In at most so many bytes; `None` where they do not suffice, or there is no number.
    pub(super) fn of(numbers: impl Iterator<Item = i64> + Clone, most_bytes: usize) -> Option<Self> {
        let (first, last) = (numbers.clone().min()?, numbers.clone().max()?);
        let bytes = usize::try_from(last.abs_diff(first) / 8 + 1).ok()?;
        if bytes.checked_add(FIRST_BYTES)? > most_bytes {
            return None;
        }
        // The last byte may hold bits of numbers that there are not.
        let first = first.min(i64::MAX - (bytes as i64 * 8 - 1));
        let mut set = Self { first, bits: vec![0; bytes] };
        for number in numbers {
            let place = number.abs_diff(first) as usize;
            if let Some(byte) = set.bits.get_mut(place / 8) {
                *byte |= 1 << (place % 8);
            }
        }
        Some(set)
    }

    /// What [`Self::write`] wrote. `None` if nothing could have.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, bits) = bytes.split_first_chunk::<FIRST_BYTES>()?;
        let first = i64::from_le_bytes(*first);
        let last = (bits.len() as i64).checked_mul(8)?.checked_sub(1).filter(|last| *last > 0)?;
        first.checked_add(last)?;
        Some(Self { first, bits: bits.to_vec() })
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.bits);
    }

    pub(super) fn size_bytes(&self) -> usize {
        FIRST_BYTES + self.bits.len()
    }

    #[inline]
    pub(super) fn contains(&self, number: i64) -> bool {
        // Whatever is below the first wraps to beyond the last.
        let place = number.wrapping_sub(self.first).cast_unsigned();
        let byte = usize::try_from(place / 8).ok().and_then(|place| self.bits.get(place));
        byte.is_some_and(|byte| byte >> (place % 8) & 1 != 0)
    }

    pub(super) fn count(&self) -> u32 {
        ones(&self.bits)
    }
}

/// How many bits are set. Of at most 8 MiB.
pub(super) fn ones(bits: &[u8]) -> u32 {
    let (words, rest) = bits.as_chunks();
    let in_words: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    in_words + in_rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[i64], most_bytes: usize) -> Option<NumberSet> {
        NumberSet::of(numbers.iter().copied(), most_bytes)
    }

    #[test]
    fn it_holds_its_numbers_and_no_others() {
        for numbers in [vec![5], vec![1, 2, 9, 17, 64, 65], vec![-70, -3, 0, 8], vec![i64::MAX - 9, i64::MAX]] {
            let set = set(&numbers, 64).expect("they are near");
            let mut bytes = Vec::new();
            set.write(&mut bytes);
            assert_eq!(NumberSet::from_bytes(&bytes).as_ref(), Some(&set));
            let near = numbers.iter().flat_map(|number| (-9..9).map(|step| number.wrapping_add(step)));
            for number in near.chain([i64::MIN, -1, 0, i64::MAX]) {
                assert_eq!(set.contains(number), numbers.contains(&number), "{number} of {numbers:?}");
            }
            assert_eq!(set.count() as usize, numbers.len());
        }
    }

    #[test]
    fn numbers_far_apart_take_too_many_bytes() {
        assert_eq!(set(&[0, 80], 19).unwrap().size_bytes(), 19);
        assert_eq!(set(&[0, 79], 18).unwrap().size_bytes(), 18);
        assert_eq!(set(&[0, 80], 18), None);
        assert_eq!(set(&[i64::MIN, i64::MAX], 1 << 23), None);
        assert_eq!(set(&[], 100), None);
    }
}
