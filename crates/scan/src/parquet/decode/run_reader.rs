//! Reading of runs of rows of a column in order, skipping the rows between them.
//!
//! The library's decoders also decode rows between wanted ones, and convert every value to its
//! Arrow type. Here, only wanted rows are decoded, and pages without such rows are not even
//! decompressed. A [`PageValues`] reads the values of a page: dictionary codes
//! ([`crate::parquet::decode::dictionary_codes`]) or numbers
//! ([`crate::parquet::decode::fixed_width`]).

use std::ops::Range;

use ::parquet::column::page::PageReader;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::NullBufferBuilder;
use arrow::buffer::NullBuffer;

use crate::parquet::decode::levels::FlatPage;
use crate::parquet::decode::rle::RleDecoder;
use crate::parquet::read::pages::Pages;

/// The maximum length of a gap that is unpacked instead of skipped. It is shorter than a gap of
/// [`crate::parquet::read::selection`], so the pages of the rows in the gap were fetched.
const MAX_GAP_ROWS: usize = 32;

/// The maximum length of a run that is copied value by value.
const FEW: usize = 16;

/// The number of levels that are decoded together.
const LEVELS_AT_ONCE: usize = 4096;

/// Reads the values of a page in order. NULLs have no value.
pub(crate) trait PageValues {
    /// The type of the values. Rows with NULL get its default.
    type Value: Copy + Default;

    /// Appends the next `count` values.
    fn read(&mut self, count: usize, into: &mut Vec<Self::Value>) -> Result<()>;

    /// Skips the next `count` values.
    fn skip(&mut self, count: usize) -> Result<()>;
}

/// A function that opens the values of a page.
pub(crate) type OpenPage<V> = Box<dyn Fn(&FlatPage) -> Result<V> + Send + Sync>;

/// Reads the rows of a column.
pub(crate) struct RunReader<V: PageValues> {
    column: ColumnDescPtr,
    pages: Pages,
    open: OpenPage<V>,
    page: Option<OpenedPage<V>>,
    /// The index of the next row.
    at: usize,
    scratch: Scratch<V::Value>,
}

#[derive(Default)]
struct Scratch<T> {
    levels: Vec<u32>,
    values: Vec<T>,
}

struct OpenedPage<V> {
    levels: Option<RleDecoder>,
    values: V,
    /// The number of remaining rows.
    left: usize,
}

fn broken() -> ParquetError {
    ParquetError::General("a page of another kind than its header says".into())
}

impl<V: PageValues> RunReader<V> {
    pub(crate) fn new(column: ColumnDescPtr, pages: Pages, open: OpenPage<V>) -> Self {
        let scratch = Scratch { levels: Vec::new(), values: Vec::new() };
        Self { column, pages, open, page: None, at: 0, scratch }
    }

    /// Returns the values and the NULLs of these rows, which must be ascending and after those of
    /// the previous call.
    pub(crate) fn next(&mut self, runs: &[Range<usize>]) -> Result<(Vec<V::Value>, Option<NullBuffer>)> {
        let rows = runs.iter().map(ExactSizeIterator::len).sum();
        let (mut values, mut nulls) = (Vec::with_capacity(rows), NullBufferBuilder::new(rows));
        for near in runs.chunk_by(|a, b| b.start - a.end <= MAX_GAP_ROWS) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            self.skip(first.start.checked_sub(self.at).ok_or_else(broken)?)?;
            if near.len() == 1 {
                self.read(first.len(), &mut values, &mut nulls)?;
                continue;
            }
            // Removes the rows in the gaps.
            let mut all = std::mem::take(&mut self.scratch.values);
            all.clear();
            let mut all_nulls = NullBufferBuilder::new(0);
            self.read(last.end - first.start, &mut all, &mut all_nulls)?;
            let all_nulls = all_nulls.finish();
            if all_nulls.is_none() {
                nulls.append_n_non_nulls(near.iter().map(ExactSizeIterator::len).sum());
            }
            for run in near {
                let within = run.start - first.start..run.end - first.start;
                if let Some(all_nulls) = &all_nulls {
                    nulls.append_buffer(&all_nulls.slice(within.start, within.len()));
                }
                match all.get(within).ok_or_else(broken)? {
                    // Calling a copy function for a few values costs more than copying them.
                    few if few.len() <= FEW => few.iter().for_each(|value| values.push(*value)),
                    many => values.extend_from_slice(many),
                }
            }
            self.scratch.values = all;
        }
        Ok((values, nulls.finish()))
    }

    fn read(&mut self, mut rows: usize, into: &mut Vec<V::Value>, nulls: &mut NullBufferBuilder) -> Result<()> {
        while rows > 0 {
            let Some(page) = self.page.as_mut().filter(|page| page.left > 0) else {
                self.open_page()?;
                continue;
            };
            let taken = page.read(rows, into, nulls, &mut self.scratch.levels)?;
            rows -= taken;
            self.at += taken;
        }
        Ok(())
    }

    fn skip(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            let skipped = match self.page.as_mut().filter(|page| page.left > 0) {
                Some(page) => page.skip(rows, &mut self.scratch.levels)?,
                None => match self.next_page_rows()? {
                    // The page is not even decompressed.
                    next if next <= rows => {
                        self.pages.skip_next_page()?;
                        next
                    }
                    _ => {
                        self.open_page()?;
                        0
                    }
                },
            };
            rows -= skipped;
            self.at += skipped;
        }
        Ok(())
    }

    /// Returns the number of rows of the next data page.
    fn next_page_rows(&mut self) -> Result<usize> {
        loop {
            let page = self.pages.peek_next_page()?.ok_or_else(broken)?;
            if !page.is_dict {
                return page.num_levels.or(page.num_rows).ok_or_else(broken);
            }
            self.pages.skip_next_page()?;
        }
    }

    fn open_page(&mut self) -> Result<()> {
        let rows = self.next_page_rows()?;
        let page = self.pages.get_next_page()?.ok_or_else(broken)?;
        let page = FlatPage::of(&page, &self.column)?.filter(|page| page.rows == rows).ok_or_else(broken)?;
        self.page = Some(OpenedPage { levels: page.levels()?, values: (self.open)(&page)?, left: page.rows });
        Ok(())
    }
}

impl<V: PageValues> OpenedPage<V> {
    /// Appends the values of at most `most` rows. Returns the number of rows.
    fn read(
        &mut self,
        most: usize,
        into: &mut Vec<V::Value>,
        nulls: &mut NullBufferBuilder,
        levels: &mut Vec<u32>,
    ) -> Result<usize> {
        let Some(valid) = self.levels(most, levels)? else {
            let taken = most.min(self.left);
            self.left -= taken;
            self.values.read(taken, into)?;
            nulls.append_n_non_nulls(taken);
            return Ok(taken);
        };
        let begin = into.len();
        self.values.read(valid, into)?;
        if valid == levels.len() {
            nulls.append_n_non_nulls(valid);
            return Ok(valid);
        }
        // Values are moved from the back, so that none is overwritten before it is moved.
        into.resize(begin + levels.len(), V::Value::default());
        let own = into.get_mut(begin..).unwrap_or_default();
        let mut from = valid;
        for (row, level) in levels.iter().enumerate().rev() {
            let value = match level {
                0 => V::Value::default(),
                _ => {
                    from = from.saturating_sub(1);
                    own.get(from).copied().unwrap_or_default()
                }
            };
            if let Some(to) = own.get_mut(row) {
                *to = value;
            }
        }
        levels.iter().for_each(|level| nulls.append(*level != 0));
        Ok(levels.len())
    }

    /// Skips at most `most` rows. Returns the number of rows.
    fn skip(&mut self, most: usize, levels: &mut Vec<u32>) -> Result<usize> {
        let (taken, valid) = match self.levels(most, levels)? {
            Some(valid) => (levels.len(), valid),
            None => {
                let taken = most.min(self.left);
                self.left -= taken;
                (taken, taken)
            }
        };
        self.values.skip(valid)?;
        Ok(taken)
    }

    /// Decodes the levels of some of the next rows. Returns how many of them have a value; `None`
    /// if all rows have one.
    fn levels(&mut self, most: usize, into: &mut Vec<u32>) -> Result<Option<usize>> {
        let Some(levels) = &mut self.levels else { return Ok(None) };
        let taken = most.min(self.left).min(LEVELS_AT_ONCE);
        self.left -= taken;
        into.clear();
        levels.read(taken, into)?;
        Ok(Some(into.iter().filter(|level| **level != 0).count()))
    }
}

impl<V: PageValues> std::fmt::Debug for RunReader<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunReader").field("column", &self.column).field("at", &self.at).finish_non_exhaustive()
    }
}
