//! Checks of the sizes claimed in pages, before the library allocates memory for them.
//!
//! The library's decoders trust counts in a page: the number of values in a dictionary, or of
//! lengths in a delta encoding. A page of some bytes can claim 2^60 of them, and a failed
//! allocation would abort the process. Small pages can also expand to large values, if values share
//! long prefixes.

use ::parquet::basic::{Encoding, Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescriptor;

use crate::limits::MAX_DICTIONARY_VALUES;
use crate::parquet::meta::thrift::Compact;

/// The maximum bytes of the values of a page in a delta encoding of strings.
const MAX_EXPANDED_BYTES: u64 = 256 << 20;

fn broken(what: &str) -> ParquetError {
    ParquetError::General(format!("a page {what}"))
}

/// Checks that a dictionary page has as many values as it claims. Returns the length of the longest
/// value.
pub(crate) fn check_dictionary(column: &ColumnDescriptor, values: u32, page: &[u8]) -> Result<usize> {
    if values > MAX_DICTIONARY_VALUES {
        return Err(broken("claims more dictionary values than are read"));
    }
    let values = values as usize;
    let fits = |width: usize| values.checked_mul(width).is_some_and(|bytes| bytes <= page.len());
    let (fits, longest) = match column.physical_type() {
        Type::BYTE_ARRAY => {
            let mut rest = page;
            let mut longest = 0;
            for _ in 0..values {
                let value =
                    split_value(&mut rest).ok_or_else(|| broken("claims more dictionary values than it has"))?;
                longest = longest.max(value.len());
            }
            (true, longest)
        }
        Type::BOOLEAN => (values.div_ceil(8) <= page.len(), 1),
        Type::FIXED_LEN_BYTE_ARRAY => {
            let width = usize::try_from(column.type_length()).unwrap_or_default();
            (width > 0 && fits(width), width)
        }
        Type::INT32 | Type::FLOAT => (fits(4), 4),
        Type::INT64 | Type::DOUBLE => (fits(8), 8),
        Type::INT96 => (fits(12), 12),
    };
    if fits { Ok(longest) } else { Err(broken("claims more dictionary values than it has")) }
}

/// Reads the next value of a plain page of strings: its length in four bytes, followed by the
/// value.
pub(crate) fn split_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (value, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(value)
}

/// Checks the values of a data page without levels, which may be at most `values`. Returns the
/// bytes to which they expand if they share prefixes, and otherwise 0.
pub(crate) fn check_values(encoding: Encoding, values: u32, page: &[u8]) -> Result<usize> {
    let values = u64::from(values);
    match encoding {
        Encoding::DELTA_BINARY_PACKED => Delta::new(page, values).map(|_| 0),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            let mut lengths = Delta::new(page, values)?;
            let mut all = 0;
            while let Some(length) = lengths.next()? {
                all += length_of(length)?;
            }
            if all > lengths.rest().len() as u64 { Err(broken("claims more text than it has")) } else { Ok(0) }
        }
        Encoding::DELTA_BYTE_ARRAY => {
            let mut prefixes = Delta::new(page, values)?;
            while prefixes.next()?.is_some() {}
            let mut suffixes = Delta::new(prefixes.rest(), values)?;
            let mut prefixes = Delta::new(page, values)?;
            let (mut before, mut stored, mut expanded) = (0, 0, 0);
            loop {
                match (prefixes.next()?, suffixes.next()?) {
                    (None, None) => break,
                    (Some(prefix), Some(suffix)) => {
                        let (prefix, suffix) = (length_of(prefix)?, length_of(suffix)?);
                        if prefix > before {
                            return Err(broken("has a value with a longer prefix than the value before it"));
                        }
                        before = prefix + suffix;
                        stored += suffix;
                        expanded += before;
                        if expanded > MAX_EXPANDED_BYTES {
                            return Err(broken("comes to more text than is read"));
                        }
                    }
                    _ => return Err(broken("has not as many prefixes as suffixes")),
                }
            }
            if stored > suffixes.rest().len() as u64 {
                return Err(broken("claims more text than it has"));
            }
            Ok(usize::try_from(expanded).unwrap_or(usize::MAX))
        }
        _ => Ok(0),
    }
}

fn length_of(number: i64) -> Result<u64> {
    u64::try_from(number as i32).map_err(|_| broken("has a value of less than no bytes"))
}

/// A decoder of integers packed as differences (DELTA_BINARY_PACKED in the Parquet specification,
/// "Encodings"). Here the integers are lengths.
struct Delta<'a> {
    rest: Compact<'a>,
    blocks: Blocks,
    left: u64,
    /// The next number, and whether it is the first one, which is stored in the header.
    last: i64,
    is_first: bool,
    /// Of the current block: the minimum difference, and the widths of the remaining miniblocks.
    least: i64,
    widths: &'a [u8],
    /// Of the current miniblock: its bits, their width, and the number of values already decoded.
    miniblock: &'a [u8],
    width: u8,
    taken: usize,
}

#[derive(Clone, Copy)]
struct Blocks {
    miniblocks: usize,
    /// The number of values in each miniblock.
    numbers: usize,
}

impl<'a> Delta<'a> {
    fn new(page: &'a [u8], most: u64) -> Result<Self> {
        let mut rest = Compact(page);
        let mut header = || Some((rest.varint()?, rest.varint()?, rest.varint()?, rest.zigzag()?));
        let (block, miniblocks, left, first) = header().ok_or_else(|| broken("ends within a header"))?;
        let numbers = block.checked_div(miniblocks).unwrap_or_default();
        let regular = numbers > 0 && numbers % 32 == 0 && numbers.checked_mul(miniblocks) == Some(block);
        if !regular || block > u64::from(u32::MAX) {
            return Err(broken("has blocks of an odd size"));
        }
        // NULLs have no value, so there may be fewer values than rows.
        if left > most {
            return Err(broken("claims more values than its header"));
        }
        let blocks = Blocks { miniblocks: miniblocks as usize, numbers: numbers as usize };
        Ok(Self {
            rest,
            blocks,
            left,
            last: first,
            is_first: true,
            least: 0,
            widths: &[],
            miniblock: &[],
            width: 0,
            taken: blocks.numbers,
        })
    }

    fn next(&mut self) -> Result<Option<i64>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if !std::mem::take(&mut self.is_first) {
            let difference = self.difference().ok_or_else(|| broken("ends within a block"))?;
            self.last = self.last.wrapping_add(difference);
        }
        Ok(Some(self.last))
    }

    fn difference(&mut self) -> Option<i64> {
        if self.taken == self.blocks.numbers {
            if self.widths.is_empty() {
                self.least = self.rest.zigzag()?;
                (self.widths, self.rest.0) = self.rest.0.split_at_checked(self.blocks.miniblocks)?;
            }
            let (width, widths) = self.widths.split_first()?;
            (self.width, self.widths) = (*width, widths);
            if self.width > 64 {
                return None;
            }
            // The last miniblock may be truncated.
            let bytes = self.blocks.numbers / 8 * usize::from(self.width);
            (self.miniblock, self.rest.0) = self.rest.0.split_at(bytes.min(self.rest.0.len()));
            self.taken = 0;
        }
        let packed = bits(self.miniblock, self.taken * usize::from(self.width), self.width)?;
        self.taken += 1;
        Some(self.least.wrapping_add(packed))
    }

    /// Returns the bytes after the last block.
    fn rest(&self) -> &'a [u8] {
        self.rest.0
    }
}

/// Returns the number in the `width` bits from bit `at` on, least significant bit first.
fn bits(bytes: &[u8], at: usize, width: u8) -> Option<i64> {
    let (first, shift) = (at / 8, at % 8);
    let end = (at + usize::from(width)).div_ceil(8);
    let mut number = 0u128;
    for (place, byte) in bytes.get(first..end)?.iter().enumerate() {
        number |= u128::from(*byte) << (8 * place);
    }
    Some(((number >> shift) & ((1u128 << width) - 1)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_least() {
        assert_eq!(bits(&[0b1010_0110, 0b0000_0011], 1, 3), Some(0b011));
        assert_eq!(bits(&[0b1010_0110, 0b0000_0011], 5, 5), Some(0b11101));
        assert_eq!(bits(&[0xff; 9], 1, 64), Some(-1));
        assert_eq!(bits(&[0xff], 5, 5), None);
        assert_eq!(bits(&[], 0, 0), Some(0));
    }

    #[test]
    fn counts_are_not_believed() {
        // Blocks of 128 values in 4 miniblocks, 2^60 values in total, the first of them 0.
        let header = [0x80, 0x01, 0x04, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0x00];
        for encoding in [Encoding::DELTA_BINARY_PACKED, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            assert!(check_values(encoding, u32::MAX, &header).is_err());
        }
        assert!(check_values(Encoding::DELTA_BINARY_PACKED, 1, &[0x80, 0x01, 0x04, 0x01, 0x00]).is_ok());
        assert!(check_values(Encoding::DELTA_BINARY_PACKED, 1, &[0x80, 0x01, 0x00, 0x01, 0x00]).is_err());
    }
}
