//! Sets of integers as bitmaps that begin at the smallest member. A set is encoded either as the
//! bitmap or as the gaps between its members, whichever is shorter.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PDBF` |
//! | 4 | version, 2 |
//! | 5..8 | 0 |
//! | 8..16 | the first number, little endian, two's complement |
//! | 16.. | the bits, at least one byte: bit `i` is set if first number + `i` is a member |
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PDBF` |
//! | 4 | version, 3 |
//! | 5..8 | 0 |
//! | 8..16 | the first number |
//! | 16..20 | the length of the bitmap in bytes, little endian |
//! | 20.. | for each further member, how many integers lie between it and the last, as LEB128 |

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::limits;

/// The size of the first number, which is encoded before the bits or gaps, in bytes.
const FIRST_BYTES: usize = size_of::<i64>();

/// The size of the bitmap's length, which is encoded before the gaps, in bytes.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The maximum ratio of the bitmap's size to the encoded size.
const MAX_RATIO: usize = 64;

/// The memory for bitmaps decoded from gaps, shared by all sets of the process.
static DECODED_GAPS: Budget = Budget { max_bytes: 128 * 1024 * 1024, charged: AtomicUsize::new(0) };

/// A memory budget for decoded bitmaps.
struct Budget {
    max_bytes: usize,
    charged: AtomicUsize,
}

#[derive(Clone)]
pub(super) struct NumberSet {
    first: i64,
    bits: Arc<Bits>,
    /// The encoded gaps; `None` if the set is encoded as bits.
    gaps: Option<Arc<[u8]>>,
}

/// Two sets are equal if they have the same members, whatever their encoding.
impl PartialEq for NumberSet {
    fn eq(&self, other: &Self) -> bool {
        (self.first, &self.bits.bytes) == (other.first, &other.bits.bytes)
    }
}

impl Eq for NumberSet {}

impl fmt::Debug for NumberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} numbers from {} on", self.count(), self.first)
    }
}

struct Bits {
    bytes: Vec<u8>,
    /// The budget that the bytes are charged to, if they were decoded from a shorter encoding.
    budget: Option<&'static Budget>,
}

impl Bits {
    /// Allocates `bytes` zeros and charges them to `budget`. Returns `None` if the budget is
    /// exhausted.
    fn expanded(bytes: usize, budget: &'static Budget) -> Option<Self> {
        let more = |charged: usize| charged.checked_add(bytes).filter(|all| *all <= budget.max_bytes);
        budget.charged.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self { bytes: vec![0; bytes], budget: Some(budget) })
    }

    fn set(&mut self, position: u64) -> Option<()> {
        let byte = self.bytes.get_mut(usize::try_from(position / 8).ok()?)?;
        *byte |= 1 << (position % 8);
        Some(())
    }
}

impl Drop for Bits {
    fn drop(&mut self) {
        if let Some(budget) = self.budget {
            budget.charged.fetch_sub(self.bytes.len(), Relaxed);
        }
    }
}

/// The reason why bytes could not be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DecodeError {
    Malformed,
    /// The memory budget is exhausted.
    NoMemory,
}

impl NumberSet {
    /// Creates a set from `numbers`. Returns `None` if there are none or the encoded set would take
    /// more than `max_bytes` bytes.
    pub(super) fn of(numbers: impl Iterator<Item = i64> + Clone, max_bytes: usize) -> Option<Self> {
        let (first, last) = (numbers.clone().min()?, numbers.clone().max()?);
        let bytes = usize::try_from(last.abs_diff(first) / 8 + 1).ok()?;
        if !Self::fits(bytes, max_bytes) {
            return None;
        }
        // The positions of the last byte must not exceed the greatest integer.
        let first = first.min(i64::MAX - (bytes as i64 * 8 - 1));
        let mut bits = Bits { bytes: vec![0; bytes], budget: None };
        numbers.map(|number| bits.set(number.abs_diff(first))).for_each(drop);
        let shorter = |gaps: &Vec<u8>| LENGTH_BYTES + gaps.len() < bytes && Self::fits(bytes, FIRST_BYTES + gaps.len());
        let gaps = gaps(&bits.bytes, bytes.min(max_bytes)).filter(shorter);
        let set = Self { first, bits: Arc::new(bits), gaps: gaps.map(Arc::from) };
        (set.size_bytes() <= max_bytes).then_some(set)
    }

    /// Returns whether a bitmap of `bitmap` bytes may be encoded in as few as `encoded` bytes.
    pub(super) fn fits(bitmap: usize, encoded: usize) -> bool {
        bitmap <= encoded.saturating_mul(MAX_RATIO).min(limits::BLOOM_FILTER_BYTES)
    }

    /// Decodes a set that [`Self::write`] encoded as bits.
    pub(super) fn from_bits(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (first, bits) = split_first(bytes)?;
        check_last(first, bits.len())?;
        let bits = Bits { bytes: bits.to_vec(), budget: None };
        Ok(Self { first, bits: Arc::new(bits), gaps: None })
    }

    /// Decodes a set that [`Self::write`] encoded as gaps.
    pub(super) fn from_gaps(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::expanded(bytes, &DECODED_GAPS)
    }

    fn expanded(bytes: &[u8], budget: &'static Budget) -> Result<Self, DecodeError> {
        let (first, rest) = split_first(bytes)?;
        let (length, gaps) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(DecodeError::Malformed)?;
        let length = u32::from_le_bytes(*length) as usize;
        check_last(first, length)?;
        if !Self::fits(length, FIRST_BYTES + gaps.len()) {
            return Err(DecodeError::Malformed);
        }
        let mut bits = Bits::expanded(length, budget).ok_or(DecodeError::NoMemory)?;
        let (mut position, mut left) = (0_u64, gaps);
        bits.set(position).ok_or(DecodeError::Malformed)?;
        while !left.is_empty() {
            let between = read_leb128(&mut left).ok_or(DecodeError::Malformed)?;
            position = position
                .checked_add(between)
                .and_then(|position| position.checked_add(1))
                .ok_or(DecodeError::Malformed)?;
            bits.set(position).ok_or(DecodeError::Malformed)?;
        }
        Ok(Self { first, bits: Arc::new(bits), gaps: Some(gaps.into()) })
    }

    /// True if the set is encoded as gaps.
    pub(super) fn is_gaps(&self) -> bool {
        self.gaps.is_some()
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.first.to_le_bytes());
        match &self.gaps {
            Some(gaps) => {
                bytes.extend_from_slice(&(self.bits.bytes.len() as u32).to_le_bytes());
                bytes.extend_from_slice(gaps);
            }
            None => bytes.extend_from_slice(&self.bits.bytes),
        }
    }

    /// The encoded size in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        FIRST_BYTES + self.gaps.as_ref().map_or(self.bits.bytes.len(), |gaps| LENGTH_BYTES + gaps.len())
    }

    #[inline]
    pub(super) fn contains(&self, number: i64) -> bool {
        // Numbers below the first one wrap around to positions after the last one.
        let position = number.wrapping_sub(self.first).cast_unsigned();
        let byte = usize::try_from(position / 8).ok().and_then(|position| self.bits.bytes.get(position));
        byte.is_some_and(|byte| byte >> (position % 8) & 1 != 0)
    }

    pub(super) fn count(&self) -> u32 {
        ones(&self.bits.bytes)
    }
}

fn split_first(bytes: &[u8]) -> Result<(i64, &[u8]), DecodeError> {
    let (first, rest) = bytes.split_first_chunk::<FIRST_BYTES>().ok_or(DecodeError::Malformed)?;
    Ok((i64::from_le_bytes(*first), rest))
}

/// Checks that the last position of a bitmap of `bytes` bytes stands for an `i64`.
fn check_last(first: i64, bytes: usize) -> Result<(), DecodeError> {
    let last = (bytes as i64).checked_mul(8).and_then(|bits| bits.checked_sub(1)).filter(|last| *last > 0);
    last.and_then(|last| first.checked_add(last)).map(drop).ok_or(DecodeError::Malformed)
}

/// Encodes the numbers of zeros between set bits. Returns `None` if that takes more than
/// `max_bytes` or the first bit is not set.
fn gaps(bits: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    let (mut gaps, mut before) = (Vec::new(), None);
    for (at, byte) in bits.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        let mut byte = *byte;
        while byte != 0 {
            let position = at as u64 * 8 + u64::from(byte.trailing_zeros());
            byte &= byte - 1;
            match before.replace(position) {
                Some(before) => write_leb128(position - before - 1, &mut gaps),
                None if position > 0 => return None,
                None => {}
            }
        }
        if gaps.len() > max_bytes {
            return None;
        }
    }
    Some(gaps)
}

fn write_leb128(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads the next number; `None` if it is cut off or longer than 64 bits.
fn read_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let digit = u64::from(byte & 0x7f);
        if digit.leading_zeros() < shift {
            return None;
        }
        number |= digit << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Counts set bits; `bits` holds at most 8 MiB.
pub(super) fn ones(bits: &[u8]) -> u32 {
    let (words, rest) = bits.as_chunks();
    let in_words: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    in_words + in_rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[i64], max_bytes: usize) -> Option<NumberSet> {
        NumberSet::of(numbers.iter().copied(), max_bytes)
    }

    fn read(set: &NumberSet) -> NumberSet {
        let mut bytes = Vec::new();
        set.write(&mut bytes);
        assert_eq!(bytes.len(), set.size_bytes());
        if set.is_gaps() { NumberSet::from_gaps(&bytes) } else { NumberSet::from_bits(&bytes) }.unwrap()
    }

    #[test]
    fn it_holds_its_numbers_and_no_others() {
        let apart: Vec<i64> = (0..500).map(|i| i * i - 1000).collect();
        for (numbers, is_gaps) in [
            (vec![5], false),
            (vec![1, 2, 9, 17, 30, 33], false),
            (vec![-70, -3, 0, 8], true),
            (vec![i64::MAX - 9, i64::MAX], false),
            (vec![i64::MIN, i64::MIN + 300], true),
            (apart, true),
        ] {
            let set = set(&numbers, 4096).expect("they are near");
            assert_eq!(set.is_gaps(), is_gaps, "{numbers:?}");
            let read = read(&set);
            assert_eq!((read.first, &read.bits.bytes), (set.first, &set.bits.bytes));
            let near = numbers.iter().flat_map(|number| (-9..9).map(|step| number.wrapping_add(step)));
            for number in near.chain([i64::MIN, -1, 0, i64::MAX]) {
                assert_eq!(read.contains(number), numbers.contains(&number), "{number} of {numbers:?}");
            }
            assert_eq!(read.count() as usize, numbers.len());
        }
    }

    #[test]
    fn numbers_far_apart_take_too_many_bytes() {
        assert_eq!(set(&[0, 30], 12).unwrap().size_bytes(), 12);
        // The encoding takes 12 bytes, and one for the gap.
        assert_eq!(set(&[0, 80], 13).unwrap().size_bytes(), 13);
        assert_eq!(set(&[0, 80], 12), None);
        assert!(set(&[0, 4_000], 100).is_some());
        assert_eq!(set(&[0, 6_000], 100), None, "bits of 751 bytes for 10 of gaps");
        assert_eq!(set(&[i64::MIN, i64::MAX], 1 << 23), None);
        assert_eq!(set(&[], 100), None);
    }

    #[test]
    fn gaps_of_peers_are_checked() {
        let of = |length: u32, gaps: &[u8]| {
            let bytes = [&0_i64.to_le_bytes()[..], &length.to_le_bytes(), gaps].concat();
            NumberSet::from_gaps(&bytes)
        };
        assert_eq!(of(2, &[14]).unwrap().count(), 2);
        for (length, gaps) in [
            (2, &[15][..]),
            (2, &[0x80]),
            (0, &[]),
            (513, &[]),
            (u32::MAX, &[0; 100]),
            (9, &[0xff; 11]),
            (9, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            (9, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
        ] {
            assert_eq!(of(length, gaps), Err(DecodeError::Malformed), "{length} {gaps:?}");
        }
        let wraps = [&(i64::MAX - 14).to_le_bytes()[..], &2_u32.to_le_bytes(), &[14]].concat();
        assert_eq!(NumberSet::from_gaps(&wraps), Err(DecodeError::Malformed));
    }

    #[test]
    fn what_peers_have_expanded_is_bounded() {
        static BUDGET: Budget = Budget { max_bytes: 20, charged: AtomicUsize::new(0) };
        let expand = || NumberSet::expanded(b"\0\0\0\0\0\0\0\0\x09\0\0\0\x40", &BUDGET);
        let (one, other) = (expand(), expand());
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(expand(), Err(DecodeError::NoMemory));
        let copy = one.clone();
        drop(one);
        assert_eq!(expand(), Err(DecodeError::NoMemory), "it is held twice");
        drop(copy);
        assert!(expand().is_ok());
        let broken = NumberSet::expanded(b"\0\0\0\0\0\0\0\0\x09\0\0\0\x80", &BUDGET);
        assert_eq!(broken, Err(DecodeError::Malformed));
        assert!(expand().is_ok(), "what is malformed holds nothing");
    }
}
