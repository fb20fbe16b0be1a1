//! Evaluating a condition on one column once for each value of its dictionary.
//!
//! A column chunk with a dictionary holds the number of a value for each row. If a condition reads only that column, its
//! answer for a row is its answer for the value: so it is evaluated on the dictionary, and the numbers are looked up
//! there without ever becoming values. Where no value fulfils it, no row does.
//!
//! Numbers and levels are in the format "RLE / bit-packing hybrid" of the Parquet specification ("Encodings").

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::Page;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescriptor;
use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use super::pages::{Next, Pages};
use super::thrift::Compact;

/// What a condition says of each value of a dictionary, and of NULL.
pub(super) struct Answers {
    pub(super) values: Vec<bool>,
    pub(super) null: bool,
}

impl Answers {
    /// Whether a row may fulfil the condition at all.
    pub(super) fn any(&self, column: &ColumnDescriptor) -> bool {
        self.values.contains(&true) || (self.null && column.max_def_level() > 0)
    }
}

/// Whether values of the column are looked at here: no lists, no structs.
pub(super) fn is_flat(column: &ColumnDescriptor) -> bool {
    column.max_rep_level() == 0
        && column.max_def_level() <= 1
        && column.path().parts().len() == 1
        && column.physical_type() != Type::BOOLEAN
}

/// The answer for each of `rows` rows. Rows of pages that were not fetched get FALSE. `None` if some page has values of
/// its own.
pub(super) fn look_up(
    mut pages: Pages,
    column: &ColumnDescriptor,
    answers: &Answers,
    rows: usize,
) -> Result<Option<BooleanBuffer>> {
    let mut found = BooleanBufferBuilder::new(rows);
    // Read by number, so that all numbers of the usual widths are there: what is none of the dictionary is an error.
    let mut table: Vec<u8> = answers.values.iter().map(|yes| u8::from(*yes)).collect();
    table.resize(table.len().next_power_of_two().max(256), UNKNOWN);
    while let Some(next) = pages.next_fetched()? {
        let page = match next {
            Next::Missing(missing) => {
                found.append_n(missing, false);
                continue;
            }
            Next::Page(page) => page,
        };
        // Before room is made for as many.
        if page.is_data_page() && found.len() + page.num_values() as usize > rows {
            return Err(broken());
        }
        let (mut rest, valid, values, encoding) = match &page {
            Page::DictionaryPage { .. } => continue,
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let mut rest: &[u8] = buf;
                let values = *num_values as usize;
                let mut valid = None;
                if column.max_def_level() > 0 {
                    if *def_level_encoding != Encoding::RLE {
                        return Ok(None);
                    }
                    let (length, after) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
                    let (levels, after) =
                        after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(broken)?;
                    valid = Some(bits(levels, 1, values, &[0, 1])?);
                    rest = after;
                }
                (rest, valid, values, *encoding)
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let start = *rep_levels_byte_len as usize;
                let end = start + *def_levels_byte_len as usize;
                let levels = buf.get(start..end).ok_or_else(broken)?;
                let values = *num_values as usize;
                let valid = (column.max_def_level() > 0).then(|| bits(levels, 1, values, &[0, 1])).transpose()?;
                (buf.get(end..).ok_or_else(broken)?, valid, values, *encoding)
            }
        };
        if !is_dictionary(encoding) {
            return Ok(None);
        }
        let valid = valid.filter(|valid| valid.count_set_bits() < values);
        let present = valid.as_ref().map_or(values, BooleanBuffer::count_set_bits);
        let own = if present == 0 {
            BooleanBuffer::new_unset(0)
        } else {
            let width = *rest.split_off_first().ok_or_else(broken)?;
            bits(rest, width, present, &table)?
        };
        match valid {
            None => found.append_buffer(&own),
            Some(valid) => {
                let mut own = own.iter();
                valid.iter().for_each(|valid| {
                    found.append(if valid { own.next() == Some(true) } else { answers.null });
                });
            }
        }
    }
    if found.len() == rows { Ok(Some(found.finish())) } else { Err(broken()) }
}

pub(super) fn is_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

/// Stands in a table for numbers that mean nothing.
const UNKNOWN: u8 = 2;

fn broken() -> ParquetError {
    ParquetError::General("a page of dictionary values that is none".into())
}

/// What `table` says, 0 or 1, of each of so many numbers of `width` bits.
fn bits(bytes: &[u8], width: u8, count: usize, table: &[u8]) -> Result<BooleanBuffer> {
    if width > 32 {
        return Err(broken());
    }
    let mut found = BooleanBufferBuilder::new(count);
    let mut rest = Compact(bytes);
    let mut packed = Vec::new();
    while found.len() < count {
        let header = rest.varint().ok_or_else(broken)?;
        let left = count - found.len();
        if header & 1 == 0 {
            let run = usize::try_from(header >> 1).unwrap_or(usize::MAX).min(left);
            let (value, after) = rest.0.split_at_checked(usize::from(width).div_ceil(8)).ok_or_else(broken)?;
            rest.0 = after;
            let number = value.iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte));
            match table.get(number) {
                Some(answer @ (0 | 1)) if run > 0 => found.append_n(run, *answer == 1),
                _ => return Err(broken()),
            }
            continue;
        }
        let groups = usize::try_from(header >> 1).unwrap_or(usize::MAX).min(left.div_ceil(8));
        if groups == 0 {
            return Err(broken());
        }
        packed.clear();
        if width == 0 {
            let answer = table.first().copied().unwrap_or(UNKNOWN);
            packed.resize(groups, if answer == 1 { 0xff } else { 0 });
        } else {
            // The last group may be cut short, and has then fewer numbers than eight.
            let bytes = groups.saturating_mul(usize::from(width)).min(rest.0.len());
            let (numbers, after) = rest.0.split_at(bytes);
            rest.0 = after;
            let mut seen = false;
            for group in numbers.chunks(usize::from(width)) {
                let (answers, unknown) = group_of_eight(group, width, table);
                packed.push(answers);
                seen |= unknown;
            }
            // Numbers beyond the last one asked for are padding.
            if seen && groups * 8 <= left {
                return Err(broken());
            }
        }
        let run = left.min(packed.len() * 8);
        if run == 0 {
            return Err(broken());
        }
        found.append_packed_range(0..run, &packed);
    }
    Ok(found.finish())
}

/// The answers for eight numbers packed into `width` bytes, and whether one is unknown.
#[inline]
fn group_of_eight(group: &[u8], width: u8, table: &[u8]) -> (u8, bool) {
    let mut answers = 0;
    let mut all = 0;
    let mut take = |place: u32, number: usize| {
        let answer = table.get(number).copied().unwrap_or(UNKNOWN);
        answers |= (answer & 1) << place;
        all |= answer;
    };
    if width <= 16 {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(group).for_each(|(to, from)| *to = *from);
        if width <= 8 {
            let mut numbers = u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default());
            let mask = (1u64 << width) - 1;
            for place in 0..8 {
                take(place, (numbers & mask) as usize);
                numbers >>= width;
            }
        } else {
            let mut numbers = u128::from_le_bytes(bytes);
            let mask = (1u64 << width) - 1;
            for place in 0..8 {
                take(place, (numbers as u64 & mask) as usize);
                numbers >>= width;
            }
        }
    } else {
        let mut bytes = group.iter();
        let (mut numbers, mut have) = (0u64, 0u32);
        for place in 0..8 {
            while have < u32::from(width) {
                numbers |= u64::from(bytes.next().copied().unwrap_or_default()) << have;
                have += 8;
            }
            take(place, (numbers & ((1u64 << width) - 1)) as usize);
            numbers >>= width;
            have -= u32::from(width);
        }
    }
    (answers, all & UNKNOWN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers packed as one run, each `width` bits.
    fn packed(numbers: &[u64], width: u8) -> Vec<u8> {
        let mut bytes = vec![((numbers.len().div_ceil(8) << 1) | 1) as u8];
        let mut bits: Vec<bool> = numbers.iter().flat_map(|n| (0..width).map(move |bit| n >> bit & 1 == 1)).collect();
        bits.resize(numbers.len().div_ceil(8) * 8 * usize::from(width), false);
        bytes.extend(bits.chunks(8).map(|byte| byte.iter().rev().fold(0u8, |all, bit| all << 1 | u8::from(*bit))));
        bytes
    }

    #[test]
    fn numbers_of_every_width_are_looked_up() {
        for width in 1..=24u8 {
            let most = (1u64 << width) - 1;
            let numbers: Vec<u64> = (0..40).map(|i| (i * 7919 + 13) % (most + 1)).collect();
            let table: Vec<u8> = (0..=most).map(|n| u8::from(n % 3 == 1)).collect();
            let found = bits(&packed(&numbers, width), width, 37, &table).unwrap();
            let expected: Vec<bool> = numbers.iter().take(37).map(|n| n % 3 == 1).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{width}");
        }
    }

    #[test]
    fn runs_and_packed_numbers_follow_each_other() {
        // Ten of number 1, then 2, 0, 1 packed in 2 bits.
        let bytes = [&[20, 1][..], &packed(&[2, 0, 1], 2)].concat();
        let found = bits(&bytes, 2, 13, &[1, 0, 1]).unwrap();
        assert_eq!(found.iter().map(u8::from).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn what_is_not_in_the_dictionary_is_an_error() {
        assert!(bits(&[20, 3], 2, 10, &[1, 0, 1, UNKNOWN]).is_err());
        assert!(bits(&packed(&[3; 8], 2), 2, 8, &[1, 0, 1, UNKNOWN]).is_err());
        assert!(bits(&[], 2, 1, &[0]).is_err());
        assert!(bits(&[1], 2, 1, &[0]).is_err());
        assert!(bits(&[0, 0], 1, 1, &[0]).is_err());
        assert!(bits(&[2, 0], 33, 1, &[0]).is_err());
    }
}
