//! Columns whose values all stand in a dictionary, read as places in it.
//!
//! Each value of the dictionary is decoded and cast once. Of the rows that passed the places are unpacked and looked up;
//! passing over the others takes next to nothing. So nothing is decoded to be filtered out, and a decimal is not
//! widened row by row.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::{Array, ArrayRef, DictionaryArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::flat::FlatPage;
use super::numbers::Numbers;
use super::pages::Pages;
use super::run_reader::{PageValues, RunReader};
use crate::Reservation;

/// The values of such a column, row by row.
#[derive(Debug)]
pub(super) struct Coded {
    /// The dictionary.
    values: ArrayRef,
    places: RunReader<Numbers>,
    /// Whether they come out as places, too.
    as_dictionary: bool,
    /// For the dictionary.
    _reserved: Reservation,
}

fn broken() -> ParquetError {
    ParquetError::General("a page of dictionary values that is none".into())
}

impl Coded {
    /// The rows of these pages, all of which refer to a dictionary of `values`, for which memory is `reserved`.
    pub(super) fn new(
        column: ColumnDescPtr,
        (values, reserved): (ArrayRef, Reservation),
        pages: Pages,
        as_dictionary: bool,
    ) -> Self {
        let places = RunReader::new(column, pages, Box::new(FlatPage::places));
        Self { values, places, as_dictionary, _reserved: reserved }
    }

    /// The type of what comes out.
    pub(super) fn data_type(&self) -> DataType {
        let values = self.values.data_type().clone();
        if self.as_dictionary { DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values)) } else { values }
    }

    /// The values of these rows, which come after those of the last call and ascend.
    pub(super) fn next(&mut self, runs: &[Range<usize>]) -> Result<ArrayRef> {
        let (places, nulls) = self.places.next(runs)?;
        // The place of a NULL is 0, which an empty dictionary has not.
        let known = |place: u32| (place as usize) < self.values.len();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        if places.iter().copied().max().is_some_and(|most| !known(most))
            && places.iter().enumerate().any(|(row, place)| !known(*place) && !is_null(row))
        {
            return Err(broken());
        }
        let places = UInt32Array::new(places.into(), nulls);
        if self.as_dictionary {
            // Every place was looked at above.
            return Ok(Arc::new(DictionaryArray::new(places, Arc::clone(&self.values))));
        }
        take(&self.values, &places, None).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl PageValues for Numbers {
    type Value = u32;

    fn read(&mut self, count: usize, into: &mut Vec<u32>) -> Result<()> {
        Self::read(self, count, into)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        Self::skip(self, count)
    }
}
