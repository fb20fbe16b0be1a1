//! The RLE / bit-packing hybrid of the Parquet specification ("Encodings"), which encodes
//! dictionary codes and levels.

use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;

use crate::parquet::meta::thrift::Compact;

/// The maximum number of values that are unpacked at a time. They fit into the first-level cache.
const AT_ONCE: usize = 1024;

/// Decodes values in order.
#[derive(Debug)]
pub(crate) struct RleDecoder {
    bytes: Bytes,
    /// The offset of the next run.
    at: usize,
    width: u8,
    run: Run,
    unpacked: Vec<u32>,
}

#[derive(Debug)]
enum Run {
    /// A repeated value, and how often it is still to be returned.
    Same(u32, usize),
    /// Values packed in groups of eight: the offset of the packed bytes, the index of the next
    /// value, and the number of values.
    Packed { begin: usize, next: usize, count: usize },
}

/// Some of the values: one repeated value, or a slice of values.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Same(u32, usize),
    Each(&'a [u32]),
}

fn broken() -> ParquetError {
    ParquetError::General("a page of numbers that are none".into())
}

impl RleDecoder {
    /// Creates a decoder of values with `width` bits.
    pub(crate) fn new(bytes: Bytes, width: u8) -> Result<Self> {
        if width > 32 {
            return Err(broken());
        }
        Ok(Self { bytes, at: 0, width, run: Run::Same(0, 0), unpacked: Vec::new() })
    }

    /// Returns the next values, at least one and at most `most`, which must not be 0.
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
                // First the rest of a group, and then whole groups are unpacked.
                let (group, skipped) = (*next / 8, *next % 8);
                let taken = most.min(*count - *next).min(AT_ONCE - skipped);
                let unpacked = (skipped + taken).next_multiple_of(8);
                self.unpacked.resize(AT_ONCE, 0);
                let into = self.unpacked.get_mut(..unpacked).ok_or_else(broken)?;
                // Bytes after the run may be unpacked, too, but those values are not returned.
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

    /// Moves to the next run if the current one is used up.
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

/// Unpacks groups of eight values. Missing bytes are treated as 0.
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
        // Each value is extracted from eight bytes, the last of which may lie after the group.
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

    /// Encodes numbers as one bit-packed run, with `width` bits for each.
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
            // A run of one repeated number, followed by the packed numbers.
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
        // Two groups of 4-bit numbers are claimed, but there is only one and a half: twelve
        // numbers.
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
