//! The RLE / bit-packing hybrid of the Parquet specification ("Encodings"), used for dictionary
//! codes and levels.

use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;

use crate::parquet::meta::thrift::Compact;

/// Maximum number of values that are unpacked at a time: they stay in the first-level cache.
const AT_ONCE: usize = 1024;

/// Decodes values in order.
#[derive(Debug)]
pub(crate) struct RleDecoder {
    bytes: Bytes,
    /// Start of the next run.
    at: usize,
    width: u8,
    run: Run,
    unpacked: Vec<u32>,
}

#[derive(Debug)]
enum Run {
    /// Number of values left of a repeated value.
    Same(u32, usize),
    /// Packed in groups of eight: the current group, and the index of the next value and the number
    /// left.
    Packed { begin: usize, next: usize, count: usize },
}

/// Some of the values.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Same(u32, usize),
    Each(&'a [u32]),
}

fn broken() -> ParquetError {
    ParquetError::General("a page of numbers that are none".into())
}

impl RleDecoder {
    /// Returns a decoder of values of `width` bits.
    pub(crate) fn new(bytes: Bytes, width: u8) -> Result<Self> {
        if width > 32 {
            return Err(broken());
        }
        Ok(Self { bytes, at: 0, width, run: Run::Same(0, 0), unpacked: Vec::new() })
    }

    /// Returns the next values, at least one and at most `most`, which is not 0.
    pub(crate) fn piece(&mut self, most: usize) -> Result<Piece<'_>> {
        self.find_run()?;
        match &mut self.run {
            Run::Same(number, left) => {
                let taken = most.min(*left);
                *left -= taken;
                Ok(Piece::Same(*number, taken))
            }
            Run::Packed { begin, next, count } => {
                let width = usize::from(self.width);
                // First the rest of a group, then whole groups.
                let (group, skipped) = (*next / 8, *next % 8);
                let taken = most.min(*count - *next).min(AT_ONCE - skipped);
                let unpacked = (skipped + taken).next_multiple_of(8);
                self.unpacked.resize(AT_ONCE, 0);
                let into = self.unpacked.get_mut(..unpacked).ok_or_else(broken)?;
                // What follows the run is not among the values taken.
                unpack(self.bytes.get(*begin + group * width..).unwrap_or_default(), self.width, into);
                *next += taken;
                into.get(skipped..skipped + taken).map(Piece::Each).ok_or_else(broken)
            }
        }
    }

    /// Appends the next `count` values.
    pub(crate) fn read(&mut self, mut count: usize, into: &mut Vec<u32>) -> Result<()> {
        while count > 0 {
            count -= match self.piece(count)? {
                Piece::Same(number, run) => {
                    into.resize(into.len() + run, number);
                    run
                }
                Piece::Each(numbers) => {
                    into.extend_from_slice(numbers);
                    numbers.len()
                }
            };
        }
        Ok(())
    }

    /// Skips the next `count` values.
    pub(crate) fn skip(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            self.find_run()?;
            count -= match &mut self.run {
                Run::Same(_, left) => {
                    let taken = count.min(*left);
                    *left -= taken;
                    taken
                }
                Run::Packed { next, count: of, .. } => {
                    let taken = count.min(*of - *next);
                    *next += taken;
                    taken
                }
            };
        }
        Ok(())
    }

    /// Moves to the next run if this one is used up.
    fn find_run(&mut self) -> Result<()> {
        let left = match &self.run {
            Run::Same(_, left) => *left,
            Run::Packed { next, count, .. } => count - next,
        };
        if left > 0 {
            return Ok(());
        }
        let mut rest = Compact(self.bytes.get(self.at..).unwrap_or_default());
        let header = rest.varint().ok_or_else(broken)?;
        let (begin, width) = (self.bytes.len() - rest.0.len(), usize::from(self.width));
        let length = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        if length == 0 {
            return Err(broken());
        }
        if header & 1 == 0 {
            let number = rest.0.get(..width.div_ceil(8)).ok_or_else(broken)?;
            self.at = begin + number.len();
            self.run = Run::Same(number.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)), length);
            return Ok(());
        }
        // The last group may be truncated to fewer than eight values.
        let stored = length.saturating_mul(width).min(rest.0.len());
        let claimed = length.saturating_mul(8);
        let count = (stored * 8).checked_div(width).unwrap_or(claimed).min(claimed);
        if count == 0 {
            return Err(broken());
        }
        self.at = begin + stored;
        self.run = Run::Packed { begin, next: 0, count };
        Ok(())
    }
}

/// Unpacks groups of eight values; missing bytes are 0.
fn unpack(bytes: &[u8], width: u8, into: &mut [u32]) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_groups::<$width>(bytes, into),)*
                _ => into.fill(0),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

fn unpack_groups<const WIDTH: usize>(mut bytes: &[u8], into: &mut [u32]) {
    for eight in into.chunks_exact_mut(8) {
        // Each value is taken out of eight bytes, the last of which may lie behind the group.
        match bytes.get(..WIDTH + 8) {
            Some(window) => unpack_group::<WIDTH>(window, eight),
            None => {
                let mut window = [0; 40];
                window.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                unpack_group::<WIDTH>(&window, eight);
            }
        }
        bytes = bytes.get(WIDTH..).unwrap_or_default();
    }
}

#[inline]
fn unpack_group<const WIDTH: usize>(window: &[u8], into: &mut [u32]) {
    for (place, number) in into.iter_mut().enumerate().take(8) {
        let bit = place * WIDTH;
        let bytes = window.get(bit / 8..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
        *number = (u64::from_le_bytes(bytes) >> (bit % 8)) as u32 & (u32::MAX >> (32 - WIDTH));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Numbers packed as one run, each `width` bits.
    pub(crate) fn packed(numbers: &[u64], width: u8) -> Vec<u8> {
        let mut bytes = vec![((numbers.len().div_ceil(8) << 1) | 1) as u8];
        let mut bits: Vec<bool> = numbers.iter().flat_map(|n| (0..width).map(move |bit| n >> bit & 1 == 1)).collect();
        bits.resize(numbers.len().div_ceil(8) * 8 * usize::from(width), false);
        bytes.extend(bits.chunks(8).map(|byte| byte.iter().rev().fold(0u8, |all, bit| all << 1 | u8::from(*bit))));
        bytes
    }

    #[test]
    fn numbers_of_every_width_are_read_from_any_place() {
        for width in 1..=32u8 {
            let most = u64::MAX >> (64 - width);
            let all: Vec<u64> = (0..480).map(|i| (i * 2_654_435_761 + 13) & most).collect();
            // A run of one number, then those.
            let mut bytes = vec![20];
            bytes.extend(&5u64.min(most).to_le_bytes()[..usize::from(width).div_ceil(8)]);
            bytes.extend(packed(&all, width));
            let expected: Vec<u32> = [5.min(most); 10].iter().chain(&all).map(|n| *n as u32).collect();
            for skipped in [0, 1, 9, 10, 13, 18, 400] {
                let mut numbers = RleDecoder::new(bytes.clone().into(), width).unwrap();
                let mut read = Vec::new();
                numbers.skip(skipped).unwrap();
                for count in [1, 3, 8, 64, 14] {
                    numbers.read(count, &mut read).unwrap();
                }
                assert_eq!(read, expected[skipped..skipped + 90], "{width} bits, {skipped} skipped");
            }
        }
    }

    #[test]
    fn numbers_of_no_bits_are_0() {
        let mut numbers = RleDecoder::new(vec![5].into(), 0).unwrap();
        let mut read = Vec::new();
        numbers.read(16, &mut read).unwrap();
        assert_eq!(read, [0; 16]);
        assert!(numbers.skip(1).is_err());
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        // Of two groups in 4 bits there is one and a half: twelve numbers.
        let mut numbers = RleDecoder::new(vec![5, 1, 2, 3, 4, 5, 6].into(), 4).unwrap();
        numbers.skip(12).unwrap();
        assert!(numbers.skip(1).is_err());
        assert!(RleDecoder::new(vec![20].into(), 8).unwrap().skip(1).is_err());
        assert!(RleDecoder::new(vec![0, 0].into(), 1).unwrap().skip(1).is_err());
        assert!(RleDecoder::new(vec![1].into(), 1).unwrap().skip(1).is_err());
        assert!(RleDecoder::new(vec![].into(), 1).unwrap().skip(1).is_err());
        assert!(RleDecoder::new(vec![].into(), 33).is_err());
    }
}
