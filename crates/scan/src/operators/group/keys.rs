//! The keys of groups, and their numbers.
//!
//! Most keys are short: a number, a date, a few letters. Keys that fit into 16 bytes are packed
//! column by column, and looked up in that form. Other keys are converted row by row to Arrow's row
//! format, which supports keys of any type and length.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Date32Type, Decimal64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use foldhash::fast::RandomState;
use pushdowndb_contract::Result;

use crate::error::from_arrow;

/// The bytes of a table entry in addition to its key.
const KEY_OVERHEAD_BYTES: usize = 40;

/// The bytes of a packed key, and of the row into which it is converted in the end.
const PACKED_KEY_BYTES: usize = size_of::<u128>() + 24;

/// The number of bits of a packed key.
const MAX_PACKED_BITS: u32 = u128::BITS;

/// The maximum number of text bytes of a column in a packed key.
const MAX_PACKED_TEXT_BYTES: u32 = 12;

pub(crate) struct KeyTable {
    types: Vec<DataType>,
    converter: RowConverter,
    /// The key of each group.
    keys: Rows,
    /// The number of bits of each column in a packed key; `None` if keys cannot be packed.
    layout: Option<Vec<Bits>>,
    packed: HashMap<u128, usize, RandomState>,
    wide: HashMap<Box<[u8]>, usize, RandomState>,
    bytes: usize,
}

/// The bits of a column in a packed key, in addition to one bit for NULL.
#[derive(Clone, Copy, Debug)]
enum Bits {
    Fixed(u32),
    /// Text of up to this number of bytes, and its length.
    Text(u32),
}

impl Bits {
    fn count(self) -> u32 {
        1 + match self {
            Self::Fixed(bits) => bits,
            Self::Text(bytes) => (bytes + 1) * 8,
        }
    }
}

impl KeyTable {
    /// Creates a table for keys of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let layout = layout(&types);
        let fields = types.iter().cloned().map(SortField::new).collect();
        let converter = RowConverter::new(fields).map_err(from_arrow)?;
        let keys = converter.empty_rows(0, 0);
        Ok(Self { types, converter, keys, layout, packed: HashMap::default(), wide: HashMap::default(), bytes: 0 })
    }

    /// Returns the number of groups.
    pub(crate) fn len(&self) -> usize {
        self.packed.len() + self.wide.len()
    }

    /// Returns the approximate memory of the keys, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Like [`Self::find`], for keys without dictionaries.
    pub(crate) fn find_values(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        mut room: usize,
        state_bytes: usize,
        groups: &mut Vec<usize>,
    ) -> Result<Vec<u32>> {
        let (codes, too_long) = self.layout.as_deref().map_or((vec![], vec![]), |layout| pack(keys, layout, rows));
        let needs_rows = self.layout.is_none() || too_long.contains(&true);
        let converted = needs_rows.then(|| self.converter.convert_columns(keys).map_err(from_arrow)).transpose()?;
        let (mut new, mut unknown) = (Vec::new(), Vec::new());
        let mut last: Option<(u128, usize)> = None;
        for row in 0..rows {
            let code = codes.get(row).filter(|_| too_long.get(row) != Some(&true));
            let wide: Option<&[u8]> = match code {
                Some(_) => None,
                None => converted.as_ref().map(|rows| rows.row(row).data()),
            };
            let known = match (code, wide) {
                (Some(code), _) => match last {
                    Some((before, group)) if before == *code => Some(group),
                    _ => self.packed.get(code).copied(),
                },
                (None, Some(key)) => self.wide.get(key).copied(),
                (None, None) => None,
            };
            let group = match known {
                Some(group) => group,
                None => {
                    let bytes = KEY_OVERHEAD_BYTES + wide.map_or(PACKED_KEY_BYTES, |key| 2 * key.len());
                    if room < bytes + state_bytes {
                        unknown.push(row as u32);
                        continue;
                    }
                    room -= bytes + state_bytes;
                    self.bytes += bytes;
                    let next = self.packed.len() + self.wide.len();
                    new.push(row as u32);
                    match (code, wide) {
                        (Some(code), _) => self.packed.insert(*code, next),
                        (None, key) => self.wide.insert(key.unwrap_or_default().into(), next),
                    };
                    next
                }
            };
            last = code.map(|code| (*code, group));
            groups.push(group);
        }
        if !new.is_empty() {
            let new = UInt32Array::from(new);
            let keys = keys.iter().map(|column| take(column, &new, None)).collect::<Result<Vec<_>, _>>();
            self.converter.append(&mut self.keys, &keys.map_err(from_arrow)?).map_err(from_arrow)?;
        }
        Ok(unknown)
    }

    /// Returns the key columns, in the order of the groups.
    pub(crate) fn into_columns(self) -> Result<Vec<ArrayRef>> {
        let columns = self.converter.convert_rows(&self.keys).map_err(from_arrow)?;
        // Keys that arrived as dictionaries are returned as plain values.
        let typed = columns.iter().zip(&self.types).map(|(column, data_type)| cast(column, data_type));
        typed.collect::<Result<_, _>>().map_err(from_arrow)
    }
}

/// Returns the layout of packed keys of these types; `None` if they cannot be packed.
fn layout(types: &[DataType]) -> Option<Vec<Bits>> {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View);
    let fixed = types.iter().filter(|data_type| !is_text(data_type)).map(fixed_bits).sum::<Option<u32>>()?;
    let texts = types.iter().filter(|data_type| is_text(data_type)).count() as u32;
    let left = MAX_PACKED_BITS.checked_sub(fixed + types.len() as u32)?;
    let text_bytes = left.checked_div(texts * 8).map_or(0, |bytes| bytes.saturating_sub(1).min(MAX_PACKED_TEXT_BYTES));
    if texts > 0 && text_bytes == 0 {
        return None;
    }
    let bits = types.iter().map(|data_type| match fixed_bits(data_type) {
        Some(bits) => Bits::Fixed(bits),
        None => Bits::Text(text_bytes),
    });
    Some(bits.collect())
}

/// Returns the number of bits of a value; `None` if it varies, or if equal values may have
/// different bits.
fn fixed_bits(data_type: &DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Boolean => 1,
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 | DataType::Date32 => 32,
        DataType::Int64 | DataType::UInt64 | DataType::Decimal64(..) => 64,
        _ => return None,
    })
}

/// Returns the packed key of each row, and whether the row's key is too long to be packed.
fn pack(columns: &[ArrayRef], layout: &[Bits], rows: usize) -> (Vec<u128>, Vec<bool>) {
    let (mut codes, mut too_long) = (vec![0; rows], Vec::new());
    for (column, bits) in columns.iter().zip(layout) {
        let shift = bits.count();
        let column = column.as_ref();
        match (bits, column.data_type()) {
            (Bits::Text(bytes), _) => pack_text(&mut codes, &mut too_long, column, shift, *bytes),
            (_, DataType::Boolean) => {
                let values = column.as_boolean().values();
                put(&mut codes, shift, column, values.iter().map(u128::from));
            }
            (_, DataType::Int8) => pack_numbers::<Int8Type>(&mut codes, shift, column, |v| v as u8 as u128),
            (_, DataType::Int16) => pack_numbers::<Int16Type>(&mut codes, shift, column, |v| v as u16 as u128),
            (_, DataType::Int32) => pack_numbers::<Int32Type>(&mut codes, shift, column, |v| v as u32 as u128),
            (_, DataType::Date32) => pack_numbers::<Date32Type>(&mut codes, shift, column, |v| v as u32 as u128),
            (_, DataType::Int64) => pack_numbers::<Int64Type>(&mut codes, shift, column, |v| v as u64 as u128),
            (_, DataType::Decimal64(..)) => {
                pack_numbers::<Decimal64Type>(&mut codes, shift, column, |v| v as u64 as u128)
            }
            (_, DataType::UInt8) => pack_numbers::<UInt8Type>(&mut codes, shift, column, u128::from),
            (_, DataType::UInt16) => pack_numbers::<UInt16Type>(&mut codes, shift, column, u128::from),
            (_, DataType::UInt32) => pack_numbers::<UInt32Type>(&mut codes, shift, column, u128::from),
            _ => pack_numbers::<UInt64Type>(&mut codes, shift, column, u128::from),
        }
    }
    (codes, too_long)
}

/// Appends the values of a column to the packed keys, `shift` bits each.
fn put(codes: &mut [u128], shift: u32, column: &dyn Array, values: impl Iterator<Item = u128>) {
    match column.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => codes.iter_mut().zip(values).for_each(|(code, value)| *code = *code << shift | value),
        Some(nulls) => {
            for ((code, value), valid) in codes.iter_mut().zip(values).zip(&nulls) {
                // The highest bit of the column's bits marks NULL.
                *code = *code << shift | if valid { value } else { 1 << (shift - 1) };
            }
        }
    }
}

fn pack_numbers<T: ArrowPrimitiveType>(
    codes: &mut [u128],
    shift: u32,
    column: &dyn Array,
    bits: impl Fn(T::Native) -> u128,
) {
    if let Some(numbers) = column.as_primitive_opt::<T>() {
        let numbers: &PrimitiveArray<T> = numbers;
        put(codes, shift, column, numbers.values().iter().map(|value| bits(*value)));
    }
}

fn pack_text(codes: &mut [u128], too_long: &mut Vec<bool>, column: &dyn Array, shift: u32, bytes: u32) {
    // The value of a NULL is arbitrary, so its length does not count.
    let mut long = |row: usize| {
        too_long.resize(column.len(), false);
        if let Some(slot) = too_long.get_mut(row) {
            *slot |= column.is_valid(row);
        }
    };
    if let Some(views) = column.as_string_view_opt() {
        // A view contains its length and, if that is at most 12, its bytes.
        let packed = views.views().iter().enumerate().map(|(row, view)| {
            let length = *view as u32;
            if length > bytes {
                long(row);
                return 0;
            }
            view >> 32 | u128::from(length) << (bytes * 8)
        });
        put(codes, shift, column, packed);
    } else if let Some(texts) = column.as_string_opt::<i32>() {
        let all = texts.value_data();
        let packed = texts.value_offsets().windows(2).enumerate().map(|(row, ends)| {
            let [start, end] = [0, 1].map(|n| ends.get(n).map_or(0, |end| *end as usize));
            let text = all.get(start..end).unwrap_or_default();
            let mut padded = [0; 16];
            match padded.get_mut(..text.len()).filter(|_| text.len() <= bytes as usize) {
                Some(place) => place.copy_from_slice(text),
                None => {
                    long(row);
                    return 0;
                }
            }
            u128::from_le_bytes(padded) | (text.len() as u128) << (bytes * 8)
        });
        put(codes, shift, column, packed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    /// Returns the groups of some batches, and the resulting keys.
    fn groups(batches: &[Vec<ArrayRef>]) -> (Vec<usize>, Vec<ArrayRef>, KeyTable) {
        let types = |batch: &Vec<ArrayRef>| batch.iter().map(|column| column.data_type().clone()).collect();
        let mut table = KeyTable::new(types(&batches[0])).unwrap();
        let mut groups = Vec::new();
        for batch in batches {
            let unknown = table.find(batch, batch[0].len(), usize::MAX, 0, &mut groups).unwrap();
            assert_eq!(unknown, [0; 0]);
        }
        let again = KeyTable::new(types(&batches[0])).unwrap();
        (groups, std::mem::replace(&mut table, again).into_columns().unwrap(), table)
    }

    #[test]
    fn short_and_long_keys_are_one_table() {
        let long = "a text of more than twelve bytes";
        let texts = [Some("a"), None, Some(""), Some(long), Some("a\0"), Some("twelve bytes"), Some("a"), None];
        let again = [Some(long), Some("a"), None, Some("twelve bytes."), Some("twelve bytes"), Some("")];
        let expected = [0, 1, 2, 3, 4, 5, 0, 1, 3, 0, 1, 6, 5, 2];
        let views = |texts: &[Option<&str>]| -> ArrayRef { Arc::new(StringViewArray::from(texts.to_vec())) };
        let strings = |texts: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
        for batches in [[vec![views(&texts)], vec![views(&again)]], [vec![strings(&texts)], vec![strings(&again)]]] {
            let (found, keys, _) = groups(&batches);
            assert_eq!(found, expected);
            let keys = arrow::compute::cast(&keys[0], &DataType::Utf8).unwrap();
            let keys: Vec<Option<&str>> = keys.as_string::<i32>().iter().collect();
            assert_eq!(keys[..6], [Some("a"), None, Some(""), Some(long), Some("a\0"), Some("twelve bytes")]);
            assert_eq!(keys[6], Some("twelve bytes."));
        }
    }

    #[test]
    fn columns_do_not_run_into_each_other() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(0), Some(0), Some(-1), None]));
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(-1), Some(-1), None, Some(0), Some(-1), None]));
        let (found, keys, _) = groups(&[vec![numbers, dates]]);
        assert_eq!(found, [0, 1, 2, 3, 0, 4]);
        assert_eq!(keys[1].as_primitive::<Date32Type>().iter().collect::<Vec<_>>()[2..4], [None, Some(0)]);
        // The keys do not fit into 16 bytes, so they are converted to Arrow's row format.
        let numbers = |values: [i64; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let (found, keys, table) = groups(&[vec![numbers([1, 1, 2]), numbers([1, 2, 1])]]);
        assert_eq!((found, keys[1].len(), table.layout.is_none()), (vec![0, 1, 2], 3, true));
    }

    #[test]
    fn a_full_table_knows_the_groups_that_it_has() {
        let numbers = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let mut table = KeyTable::new(vec![DataType::Int64]).unwrap();
        let mut groups = Vec::new();
        let room = 2 * (KEY_OVERHEAD_BYTES + PACKED_KEY_BYTES);
        let unknown = table.find(&[numbers(&[7, 8, 9, 7, 10])], 5, room, 0, &mut groups).unwrap();
        assert_eq!((groups, unknown, table.len(), table.bytes()), (vec![0, 1, 0], vec![2, 4], 2, room));
    }
}
