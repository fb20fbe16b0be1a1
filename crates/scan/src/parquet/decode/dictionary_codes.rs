//! Columns whose values are all in a dictionary, read as codes.
//!
//! Each dictionary value is decoded and cast once. The codes of rows that passed are unpacked and
//! looked up; to skip other codes costs almost nothing, and decimals are not widened row by row.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::{Array, ArrayRef, DictionaryArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::parquet::decode::levels::FlatPage;
use crate::parquet::decode::rle::RleDecoder;
use crate::parquet::decode::run_reader::{PageValues, RunReader};
use crate::parquet::read::pages::Pages;
use crate::runtime::memory::Reservation;

/// Reads the values of such a column, row by row.
#[derive(Debug)]
pub(crate) struct DictionaryCodes {
    values: ArrayRef,
    places: RunReader<RleDecoder>,
    /// True if the output is a dictionary array.
    as_dictionary: bool,
    /// Memory reserved for the dictionary.
    _reserved: Reservation,
}

fn broken() -> ParquetError {
    ParquetError::General("a page of dictionary values that is none".into())
}

impl DictionaryCodes {
    /// Creates a reader of these pages, all of which must refer to the dictionary `values`.
    pub(crate) fn new(
        column: ColumnDescPtr,
        (values, reserved): (ArrayRef, Reservation),
        pages: Pages,
        as_dictionary: bool,
    ) -> Self {
        let places = RunReader::new(column, pages, Box::new(FlatPage::places));
        Self { values, places, as_dictionary, _reserved: reserved }
    }

    pub(crate) fn data_type(&self) -> DataType {
        let values = self.values.data_type().clone();
        if self.as_dictionary { DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values)) } else { values }
    }

    /// Returns the values of these rows, which must be ascending and after those of the previous
    /// call.
    pub(crate) fn next(&mut self, runs: &[Range<usize>]) -> Result<ArrayRef> {
        let (places, nulls) = self.places.next(runs)?;
        // A NULL has the code 0, which does not exist in an empty dictionary.
        let known = |place: u32| (place as usize) < self.values.len();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        if places.iter().copied().max().is_some_and(|most| !known(most))
            && places.iter().enumerate().any(|(row, place)| !known(*place) && !is_null(row))
        {
            return Err(broken());
        }
        let places = UInt32Array::new(places.into(), nulls);
        if self.as_dictionary {
            // Every code was checked above.
            return Ok(Arc::new(DictionaryArray::new(places, Arc::clone(&self.values))));
        }
        take(&self.values, &places, None).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl PageValues for RleDecoder {
    type Value = u32;

    fn read(&mut self, count: usize, into: &mut Vec<u32>) -> Result<()> {
        Self::read(self, count, into)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        Self::skip(self, count)
    }
}
