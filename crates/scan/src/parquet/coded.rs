//! Columns whose values all stand in a dictionary, read as places in it.
//!
//! Each value of the dictionary is decoded and cast once. Of the rows that passed the places are unpacked and looked up;
//! passing over the others takes next to nothing. So nothing is decoded to be filtered out, and a decimal is not
//! widened row by row.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::column::page::PageReader;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::{Array, ArrayRef, DictionaryArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::flat::FlatPage;
use super::numbers::Numbers;
use super::pages::Pages;

/// Rows that are not wanted are unpacked with their neighbours rather than passed over if they are this few: fewer than
/// [`super::selection`] takes for a gap, so that they were fetched.
const NEAR_ROWS: usize = 32;

/// Levels that are looked at together.
const LEVELS_AT_ONCE: usize = 4096;

/// Stands for NULL among places, which are fewer.
const NULL: u32 = u32::MAX;

/// The values of such a column, row by row.
#[derive(Debug)]
pub(super) struct Coded {
    column: ColumnDescPtr,
    /// The dictionary.
    values: ArrayRef,
    pages: Pages,
    page: Option<CodedPage>,
    /// Whether they come out as places, too.
    as_dictionary: bool,
    /// The row that comes next.
    at: usize,
    scratch: Vec<u32>,
}

#[derive(Debug)]
struct CodedPage {
    levels: Option<Numbers>,
    places: Numbers,
    /// Rows that are left.
    left: usize,
}

fn broken() -> ParquetError {
    ParquetError::General("a page of dictionary values that is none".into())
}

impl Coded {
    /// The rows of these pages, all of which refer to a dictionary of `values`.
    pub(super) fn new(column: ColumnDescPtr, values: ArrayRef, pages: Pages, as_dictionary: bool) -> Self {
        Self { column, values, pages, page: None, as_dictionary, at: 0, scratch: Vec::new() }
    }

    /// The type of what comes out.
    pub(super) fn data_type(&self) -> DataType {
        let values = self.values.data_type().clone();
        if self.as_dictionary { DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values)) } else { values }
    }

    /// The values of these rows, which come after those of the last call and ascend.
    pub(super) fn next(&mut self, runs: &[Range<usize>]) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(runs.iter().map(ExactSizeIterator::len).sum());
        for near in runs.chunk_by(|a, b| b.start - a.end <= NEAR_ROWS) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            self.skip(first.start.checked_sub(self.at).ok_or_else(broken)?)?;
            let begin = places.len();
            self.read(last.end - first.start, &mut places)?;
            // The rows between them are closed up.
            let mut end = begin;
            for run in near {
                let from = begin + (run.start - first.start);
                if from > end {
                    places.copy_within(from..from + run.len(), end);
                }
                end += run.len();
            }
            places.truncate(end);
        }
        self.look_up(places)
    }

    fn look_up(&self, mut places: Vec<u32>) -> Result<ArrayRef> {
        let known = |place: u32| (place as usize) < self.values.len();
        let mut nulls = None;
        if places.iter().copied().max().is_some_and(|most| !known(most)) {
            let valid = BooleanBuffer::collect_bool(places.len(), |row| places.get(row) != Some(&NULL));
            nulls = Some(NullBuffer::new(valid));
            for place in &mut places {
                match *place {
                    NULL => *place = 0,
                    other if known(other) => {}
                    _ => return Err(broken()),
                }
            }
        }
        let places = UInt32Array::new(places.into(), nulls);
        if self.as_dictionary {
            // Every place was looked at above.
            return Ok(Arc::new(DictionaryArray::new(places, Arc::clone(&self.values))));
        }
        take(&self.values, &places, None).map_err(|error| ParquetError::External(Box::new(error)))
    }

    /// Appends the places of the next rows.
    fn read(&mut self, mut rows: usize, into: &mut Vec<u32>) -> Result<()> {
        while rows > 0 {
            let Some(page) = self.page.as_mut().filter(|page| page.left > 0) else {
                self.open()?;
                continue;
            };
            let taken = page.read(rows, into, &mut self.scratch)?;
            rows -= taken;
            self.at += taken;
        }
        Ok(())
    }

    fn skip(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            let skipped = match self.page.as_mut().filter(|page| page.left > 0) {
                Some(page) => page.skip(rows, &mut self.scratch)?,
                None => match self.next_page_rows()? {
                    // Not even decompressed.
                    next if next <= rows => {
                        self.pages.skip_next_page()?;
                        next
                    }
                    _ => {
                        self.open()?;
                        0
                    }
                },
            };
            rows -= skipped;
            self.at += skipped;
        }
        Ok(())
    }

    /// The rows of the next data page.
    fn next_page_rows(&mut self) -> Result<usize> {
        loop {
            let page = self.pages.peek_next_page()?.ok_or_else(broken)?;
            if !page.is_dict {
                return page.num_levels.or(page.num_rows).ok_or_else(broken);
            }
            self.pages.skip_next_page()?;
        }
    }

    fn open(&mut self) -> Result<()> {
        let rows = self.next_page_rows()?;
        let page = self.pages.get_next_page()?.ok_or_else(broken)?;
        let page = FlatPage::of(&page, &self.column)?.filter(|page| page.rows == rows).ok_or_else(broken)?;
        self.page = Some(CodedPage { levels: page.levels()?, places: page.places()?, left: page.rows });
        Ok(())
    }
}

impl CodedPage {
    /// Appends the places of at most so many rows; how many they were.
    fn read(&mut self, most: usize, into: &mut Vec<u32>, levels: &mut Vec<u32>) -> Result<usize> {
        let Some(valid) = self.levels(most, levels)? else {
            let taken = most.min(self.left);
            self.left -= taken;
            self.places.read(taken, into)?;
            return Ok(taken);
        };
        let begin = into.len();
        self.places.read(valid, into)?;
        if valid < levels.len() {
            // From the back, so that no place is written over before it was moved.
            into.resize(begin + levels.len(), NULL);
            let own = into.get_mut(begin..).unwrap_or_default();
            let mut from = valid;
            for (row, level) in levels.iter().enumerate().rev() {
                let place = match level {
                    0 => NULL,
                    _ => {
                        from = from.saturating_sub(1);
                        own.get(from).copied().unwrap_or(NULL)
                    }
                };
                if let Some(to) = own.get_mut(row) {
                    *to = place;
                }
            }
        }
        Ok(levels.len())
    }

    /// Passes over at most so many rows; how many they were.
    fn skip(&mut self, most: usize, levels: &mut Vec<u32>) -> Result<usize> {
        let (taken, valid) = match self.levels(most, levels)? {
            Some(valid) => (levels.len(), valid),
            None => {
                let taken = most.min(self.left);
                self.left -= taken;
                (taken, taken)
            }
        };
        self.places.skip(valid)?;
        Ok(taken)
    }

    /// Takes the levels of some of the next rows; how many of those have a value. `None` if all rows have.
    fn levels(&mut self, most: usize, into: &mut Vec<u32>) -> Result<Option<usize>> {
        let Some(levels) = &mut self.levels else { return Ok(None) };
        let taken = most.min(self.left).min(LEVELS_AT_ONCE);
        self.left -= taken;
        into.clear();
        levels.read(taken, into)?;
        Ok(Some(into.iter().filter(|level| **level != 0).count()))
    }
}
