//! Fixed-width numbers, read as integers from plain and dictionary pages.
//!
//! A value is four or eight bytes of a page or dictionary, and is converted only if its row passes.
//! A range condition is evaluated at the same time, so that no value is read twice. A column whose
//! dictionary became too large has pages of both kinds, which is common for keys and prices.

use std::ops::{Range, RangeInclusive};

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::Page;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use arrow::array::{ArrayData, ArrayRef, BooleanBufferBuilder, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use bytes::Bytes;

use crate::parquet::decode::levels::FlatPage;
use crate::parquet::decode::rle::RleDecoder;
use crate::parquet::decode::run_reader::{PageValues, RunReader};
use crate::parquet::read::header::is_dictionary;
use crate::parquet::read::pages::Pages;

/// Reads the values of such a column, row by row.
#[derive(Debug)]
pub(crate) struct FixedWidth {
    data_type: DataType,
    values: RunReader<FixedValues>,
}

fn broken() -> ParquetError {
    ParquetError::General("a page with fewer numbers than it claims".into())
}

/// The rows with a value in a range.
pub(crate) struct Within {
    /// For each requested row, whether its value is in the range.
    pub(crate) found: BooleanBuffer,
    pub(crate) values: ArrayRef,
    /// The number of NULLs among the requested rows.
    pub(crate) nulls: usize,
}

/// Returns whether a column with the types `stored` and `declared` is read by this module.
pub(crate) fn is_fixed(column: &ColumnDescriptor, stored: &DataType, declared: &DataType) -> bool {
    let fits = match declared {
        DataType::Int32 | DataType::Date32 => column.physical_type() == Type::INT32,
        DataType::Int64 => column.physical_type() == Type::INT64,
        DataType::Float32 => column.physical_type() == Type::FLOAT,
        DataType::Float64 => column.physical_type() == Type::DOUBLE,
        DataType::Decimal128(..) => matches!(column.physical_type(), Type::INT32 | Type::INT64),
        _ => false,
    };
    let is_narrower = *declared == DataType::Int64
        && matches!(stored, DataType::Int8 | DataType::Int16 | DataType::Int32)
        && column.physical_type() == Type::INT32;
    fits && stored == declared || is_narrower
}

/// Returns whether pages with this encoding are read by this module.
pub(crate) fn is_read(encoding: Encoding) -> bool {
    encoding == Encoding::PLAIN || is_dictionary(encoding)
}

impl FixedWidth {
    /// Creates a reader of these pages. Expects that [`is_fixed`] accepts the column, and
    /// [`is_read`] the encodings of all pages.
    pub(crate) fn new(column: ColumnDescPtr, data_type: DataType, pages: Pages) -> Result<Self> {
        let width = Width::of(&column).ok_or_else(broken)?;
        let mut dictionary = Bytes::new();
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = pages.dictionary() {
            let values = width.first(buf, *num_values as usize)?;
            dictionary = buf.slice_ref(values);
        }
        let open = move |page: &FlatPage| {
            Ok(match is_dictionary(page.encoding) {
                true => {
                    let (places, dictionary) = (page.places()?, dictionary.clone());
                    FixedValues::DictionaryCodes { places, dictionary, width, scratch: vec![] }
                }
                false if page.encoding == Encoding::PLAIN => FixedValues::Plain { bytes: page.values().clone(), width },
                // Headers were checked before, but the page's own encoding counts.
                false => return Err(ParquetError::General(format!("a page of numbers in {}", page.encoding))),
            })
        };
        Ok(Self { data_type, values: RunReader::new(column, pages, Box::new(open)) })
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the values of these rows, which must be ascending and after those of the previous
    /// call.
    pub(crate) fn next(&mut self, runs: &[Range<usize>]) -> Result<ArrayRef> {
        let (values, nulls) = self.values.next(runs)?;
        self.array(values, nulls)
    }

    /// Returns which of these rows have a value in the range, and the values of those rows. The
    /// rows must be ascending and after those of the previous call.
    pub(crate) fn within(&mut self, range: &RangeInclusive<i64>, runs: &[Range<usize>]) -> Result<Within> {
        let (values, nulls) = self.values.next(runs)?;
        let (least, most) = (*range.start(), *range.end());
        let mut found = BooleanBufferBuilder::new(values.len());
        for some in values.chunks(64) {
            let bits = some
                .iter()
                .enumerate()
                .fold(0u64, |bits, (place, value)| bits | u64::from((least <= *value) & (*value <= most)) << place);
            found.append_packed_range(0..some.len(), &bits.to_le_bytes());
        }
        let mut found = found.finish();
        if let Some(nulls) = &nulls {
            found = &found & nulls.inner();
        }
        let mut own = Vec::with_capacity(found.count_set_bits());
        for (start, end) in found.set_slices() {
            own.extend_from_slice(values.get(start..end).ok_or_else(broken)?);
        }
        Ok(Within { found, values: self.array(own, None)?, nulls: nulls.map_or(0, |nulls| nulls.null_count()) })
    }

    fn array(&self, values: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let rows = values.len();
        let buffer = match &self.data_type {
            DataType::Int64 | DataType::Float64 => Buffer::from_vec(values),
            DataType::Decimal128(..) => Buffer::from_vec(values.into_iter().map(i128::from).collect::<Vec<_>>()),
            _ => Buffer::from_vec(values.into_iter().map(|value| value as i32).collect::<Vec<_>>()),
        };
        let data = ArrayData::builder(self.data_type.clone()).len(rows).add_buffer(buffer).nulls(nulls);
        data.build().map(make_array).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// The number of bytes of a value, least significant first.
#[derive(Clone, Copy, Debug)]
enum Width {
    Four,
    Eight,
}

impl Width {
    fn of(column: &ColumnDescriptor) -> Option<Self> {
        match column.physical_type() {
            Type::INT32 | Type::FLOAT => Some(Self::Four),
            Type::INT64 | Type::DOUBLE => Some(Self::Eight),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    fn first(self, bytes: &[u8], count: usize) -> Result<&[u8]> {
        count.checked_mul(self.bytes()).and_then(|end| bytes.get(..end)).ok_or_else(broken)
    }

    /// Appends the first `count` values.
    fn read(self, bytes: &[u8], count: usize, into: &mut Vec<i64>) -> Result<()> {
        let bytes = self.first(bytes, count)?;
        match self {
            Self::Four => into.extend(bytes.as_chunks().0.iter().map(four_bytes)),
            Self::Eight => into.extend(bytes.as_chunks().0.iter().map(|eight| i64::from_le_bytes(*eight))),
        }
        Ok(())
    }

    /// Appends the values with these codes, up to the first code that is out of range.
    fn look_up(self, bytes: &[u8], places: &[u32], into: &mut Vec<i64>) {
        match self {
            Self::Four => {
                let (values, _) = bytes.as_chunks();
                into.extend(places.iter().map_while(|place| values.get(*place as usize)).map(four_bytes));
            }
            Self::Eight => {
                let (values, _) = bytes.as_chunks();
                let values = places.iter().map_while(|place| values.get(*place as usize));
                into.extend(values.map(|eight| i64::from_le_bytes(*eight)));
            }
        }
    }
}

fn four_bytes(four: &[u8; 4]) -> i64 {
    i64::from(i32::from_le_bytes(*four))
}

enum FixedValues {
    Plain { bytes: Bytes, width: Width },
    DictionaryCodes { places: RleDecoder, dictionary: Bytes, width: Width, scratch: Vec<u32> },
}

impl PageValues for FixedValues {
    /// The bits of a float.
    type Value = i64;

    fn read(&mut self, count: usize, into: &mut Vec<i64>) -> Result<()> {
        match self {
            Self::Plain { bytes, width } => width.read(bytes, count, into)?,
            Self::DictionaryCodes { places, dictionary, width, scratch } => {
                scratch.clear();
                places.read(count, scratch)?;
                let begin = into.len();
                width.look_up(dictionary, scratch, into);
                return if into.len() == begin + count { Ok(()) } else { Err(broken()) };
            }
        }
        self.skip(count)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        match self {
            Self::Plain { bytes, width } => {
                let skipped = count.checked_mul(width.bytes()).filter(|skipped| *skipped <= bytes.len());
                *bytes = bytes.slice(skipped.ok_or_else(broken)?..);
                Ok(())
            }
            Self::DictionaryCodes { places, .. } => places.skip(count),
        }
    }
}
