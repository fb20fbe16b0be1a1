//! Data pages of flat columns (no lists, no structs): definition levels, which mark NULLs, and
//! values.

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::Page;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescriptor;
use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;

use crate::parquet::decode::rle::{Piece, RleDecoder};
use crate::parquet::read::header::is_dictionary;

/// Returns whether pages of the column are read by this module.
pub(crate) fn is_flat(column: &ColumnDescriptor) -> bool {
    column.max_rep_level() == 0
        && column.max_def_level() <= 1
        && column.path().parts().len() == 1
        && column.physical_type() != Type::BOOLEAN
}

/// A data page of a flat column.
#[derive(Debug)]
pub(crate) struct FlatPage {
    pub(crate) rows: usize,
    /// The definition levels: a bit for each row, set if it has a value. `None` if all rows have
    /// one.
    levels: Option<Bytes>,
    values: Bytes,
    pub(crate) encoding: Encoding,
}

fn broken() -> ParquetError {
    ParquetError::General("a page of values that are none".into())
}

impl FlatPage {
    /// Returns `None` if the page is not a data page, or has levels in a deprecated encoding.
    pub(crate) fn of(page: &Page, column: &ColumnDescriptor) -> Result<Option<Self>> {
        let has_levels = column.max_def_level() > 0;
        match page {
            Page::DictionaryPage { .. } => Ok(None),
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let (rows, encoding) = (*num_values as usize, *encoding);
                if !has_levels {
                    return Ok(Some(Self { rows, levels: None, values: buf.clone(), encoding }));
                }
                if *def_level_encoding != Encoding::RLE {
                    return Ok(None);
                }
                let (length, _) = buf.split_first_chunk::<4>().ok_or_else(broken)?;
                let levels = Part { start: 4, length: u32::from_le_bytes(*length) as usize };
                let (levels, values) = levels.of(buf)?;
                Ok(Some(Self { rows, levels: Some(levels), values, encoding }))
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = Part { start: *rep_levels_byte_len as usize, length: *def_levels_byte_len as usize };
                let (levels, values) = levels.of(buf)?;
                let levels = has_levels.then_some(levels);
                Ok(Some(Self { rows: *num_values as usize, levels, values, encoding: *encoding }))
            }
        }
    }

    pub(crate) fn values(&self) -> &Bytes {
        &self.values
    }

    /// Returns the dictionary codes of the rows that have a value, or an error if the values have
    /// another encoding.
    pub(crate) fn places(&self) -> Result<RleDecoder> {
        if !is_dictionary(self.encoding) {
            return Err(broken());
        }
        match self.values.split_first() {
            Some((width, _)) => RleDecoder::new(self.values.slice(1..), *width),
            // No row has a value.
            None => RleDecoder::new(Bytes::new(), 0),
        }
    }

    /// Returns a level for each row: 1 for a value, 0 for NULL. Returns `None` if the column is
    /// required.
    pub(crate) fn levels(&self) -> Result<Option<RleDecoder>> {
        self.levels.as_ref().map(|levels| RleDecoder::new(levels.clone(), 1)).transpose()
    }

    /// Returns whether each row has a value; `None` if all rows have one.
    pub(crate) fn valid(&self) -> Result<Option<BooleanBuffer>> {
        let Some(levels) = self.levels()? else { return Ok(None) };
        let valid = look_up(levels, self.rows, &[0, 1])?;
        Ok((valid.count_set_bits() < self.rows).then_some(valid))
    }
}

/// A range of bytes in a page.
struct Part {
    start: usize,
    length: usize,
}

impl Part {
    /// Splits `page` after this range. Returns the range, and the bytes after it.
    fn of(&self, page: &Bytes) -> Result<(Bytes, Bytes)> {
        let end = self.start.checked_add(self.length).filter(|end| *end <= page.len()).ok_or_else(broken)?;
        Ok((page.slice(self.start..end), page.slice(end..)))
    }
}

/// Marks invalid codes in a table.
const UNKNOWN: u8 = 2;

/// Looks up each of the next `count` codes in `table`, which contains 0 or 1. An invalid code is an
/// error.
pub(crate) fn look_up(mut numbers: RleDecoder, count: usize, table: &[u8]) -> Result<BooleanBuffer> {
    let mut found = BooleanBufferBuilder::new(count);
    let mut answers = Vec::new();
    while found.len() < count {
        match numbers.piece(count - found.len())? {
            Piece::Same(number, run) => match table.get(number as usize) {
                Some(answer @ (0 | 1)) => found.append_n(run, *answer == 1),
                _ => return Err(broken()),
            },
            Piece::Each(numbers) => {
                let mut all = 0;
                answers.clear();
                answers.extend(numbers.chunks(8).map(|eight| {
                    eight.iter().rev().fold(0, |answers, number| {
                        let answer = table.get(*number as usize).copied().unwrap_or(UNKNOWN);
                        all |= answer;
                        answers << 1 | (answer & 1)
                    })
                }));
                if all & UNKNOWN != 0 {
                    return Err(broken());
                }
                found.append_packed_range(0..numbers.len(), &answers);
            }
        }
    }
    Ok(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::decode::rle::tests::packed;

    fn found(bytes: Vec<u8>, width: u8, count: usize, table: &[u8]) -> Result<Vec<bool>> {
        Ok(look_up(RleDecoder::new(bytes.into(), width)?, count, table)?.iter().collect())
    }

    #[test]
    fn numbers_of_every_width_are_looked_up() {
        for width in 1..=24u8 {
            let most = (1u64 << width) - 1;
            let numbers: Vec<u64> = (0..40).map(|i| (i * 7919 + 13) % (most + 1)).collect();
            let table: Vec<u8> = (0..=most).map(|n| u8::from(n % 3 == 1)).collect();
            let expected: Vec<bool> = numbers.iter().take(37).map(|n| n % 3 == 1).collect();
            assert_eq!(found(packed(&numbers, width), width, 37, &table).unwrap(), expected, "{width}");
        }
    }

    #[test]
    fn runs_and_packed_numbers_follow_each_other() {
        // Ten times the number 1, then 2, 0, 1 packed in 2 bits.
        let bytes = [&[20, 1][..], &packed(&[2, 0, 1], 2)].concat();
        let found = found(bytes, 2, 13, &[1, 0, 1]).unwrap();
        assert_eq!(found.into_iter().map(u8::from).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn what_is_not_in_the_dictionary_is_an_error() {
        assert!(found(vec![20, 3], 2, 10, &[1, 0, 1]).is_err());
        assert!(found(packed(&[3; 8], 2), 2, 8, &[1, 0, 1]).is_err());
        assert!(found(vec![], 2, 1, &[0]).is_err());
        assert!(found(vec![1], 2, 1, &[0]).is_err());
    }
}
