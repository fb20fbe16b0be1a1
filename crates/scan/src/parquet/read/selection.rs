//! Selections of rows in a row group: at first those that page statistics allow, and later those
//! that passed the predicate.
//!
//! Decoders take a call to skip rows, which costs more than decoding a few unneeded rows. So rows
//! that passed are decoded together with short gaps between them, and the rows in the gaps are
//! removed afterwards.

use std::ops::Range;

use ::parquet::arrow::arrow_reader::RowSelection;
use arrow::array::{BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;

/// The minimum number of rows in a gap that is skipped instead of decoded. If runs of selected and
/// skipped rows were shorter than 32 on average, the library might decode everything between the
/// first and the last row, including pages that were not fetched.
const MAX_GAP_ROWS: usize = 128;

/// Selected rows of a row group: ascending ranges, which are not empty and do not touch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    ranges: Vec<Range<usize>>,
    /// The number of rows in the row group.
    all: usize,
}

impl Rows {
    pub(crate) fn all(all: usize) -> Self {
        Self { ranges: if all > 0 { vec![0..all] } else { Vec::new() }, all }
    }

    /// Creates a selection of these ranges, which must be ascending, in a row group of `all` rows.
    pub(crate) fn of(ranges: impl IntoIterator<Item = Range<usize>>, all: usize) -> Self {
        let mut rows = Self { ranges: Vec::new(), all };
        for range in ranges {
            rows.push(range.start..range.end.min(all));
        }
        rows
    }

    fn push(&mut self, range: Range<usize>) {
        if range.start >= range.end {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Returns the number of rows in the row group.
    pub(crate) fn of_group(&self) -> usize {
        self.all
    }

    /// Returns whether all rows are selected.
    pub(crate) fn are_all(&self) -> bool {
        self.len() == self.all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether any row in `range` is selected.
    pub(crate) fn touch(&self, range: &Range<usize>) -> bool {
        let at = self.ranges.partition_point(|own| own.end <= range.start);
        self.ranges.get(at).is_some_and(|own| own.start < range.end)
    }

    /// Returns the selected rows in this range.
    pub(crate) fn within(&self, range: Range<usize>) -> Self {
        self.and(&Self::of([range], self.all))
    }

    /// Returns the rows that are selected in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both = Self { ranges: Vec::new(), all: self.all };
        for range in &self.ranges {
            let from = other.ranges.partition_point(|own| own.end <= range.start);
            for own in other.ranges.iter().skip(from).take_while(|own| own.start < range.end) {
                both.push(own.start.max(range.start)..own.end.min(range.end));
            }
        }
        both
    }

    /// Returns the selection with the bounds of ranges mapped by `bound`, which must be monotonic.
    pub(crate) fn moved(&self, bound: impl Fn(usize) -> usize) -> Self {
        Self::of(self.ranges.iter().map(|range| bound(range.start)..bound(range.end)), self.all)
    }

    /// Returns for each row of the row group whether it is selected.
    pub(crate) fn bits(&self) -> BooleanBuffer {
        self.spread(&BooleanBuffer::new_set(self.len()))
    }

    /// Returns a bit for each row of the row group: that in `own` for a selected row, and otherwise
    /// 0.
    pub(crate) fn spread(&self, own: &BooleanBuffer) -> BooleanBuffer {
        let mut bits = BooleanBufferBuilder::new(self.all);
        let mut taken = 0;
        for range in &self.ranges {
            bits.append_n(range.start - bits.len(), false);
            bits.append_buffer(&own.slice(taken, range.len()));
            taken += range.len();
        }
        bits.append_n(self.all - bits.len(), false);
        bits.finish()
    }

    /// Returns the selection in the form of the library; `None` if all rows are selected.
    pub(crate) fn selection(&self) -> Option<RowSelection> {
        (!self.are_all()).then(|| RowSelection::from_consecutive_ranges(self.ranges.iter().cloned(), self.all))
    }

    /// Narrows the selection to the rows whose bit in `passed` is set.
    ///
    /// Returns the rows to decode, and which of them passed (`None` if all of them did).
    pub(crate) fn passing(&self, passed: &BooleanBuffer) -> (Self, Option<BooleanArray>) {
        let mut decoded = Self { ranges: Vec::new(), all: self.all };
        let mut wanted = BooleanBufferBuilder::new(0);
        let mut ranges = self.ranges.iter();
        // The current range, and the index in `passed` of its first row.
        let (mut current, mut first) = (ranges.next(), 0);
        for (mut from, to) in passed.set_slices() {
            while let Some(range) = current
                && from < to
            {
                if from - first >= range.len() {
                    first += range.len();
                    current = ranges.next();
                    continue;
                }
                let start = range.start + (from - first);
                let end = range.end.min(start + (to - from));
                from += end - start;
                let before = decoded.ranges.last().map_or(0, |last| last.end);
                if start - before >= MAX_GAP_ROWS {
                    decoded.ranges.push(start..end);
                } else {
                    wanted.append_n(start - before, false);
                    decoded.push(before..end);
                }
                wanted.append_n(end - start, true);
            }
        }
        let wanted = wanted.finish();
        let all = wanted.count_set_bits() == wanted.len();
        (decoded, (!all).then(|| BooleanArray::new(wanted, None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(set: impl IntoIterator<Item = usize>, length: usize) -> BooleanBuffer {
        let set: Vec<usize> = set.into_iter().collect();
        BooleanBuffer::collect_bool(length, |i| set.contains(&i))
    }

    #[test]
    fn ranges_are_met_and_joined() {
        let rows = Rows::of([0..10, 10..12, 20..30], 25);
        assert_eq!(rows.ranges, [0..12, 20..25]);
        assert!(rows.touch(&(11..13)) && !rows.touch(&(12..20)) && rows.touch(&(5..6)) && !rows.touch(&(25..30)));
        assert_eq!(rows.and(&Rows::of([5..22, 24..25], 25)).ranges, [5..12, 20..22, 24..25]);
        assert_eq!(rows.len(), 17);
        assert!(rows.selection().is_some() && Rows::all(25).selection().is_none());
    }

    #[test]
    fn bits_are_those_of_the_row_group() {
        let rows = Rows::of([1..3, 5..6], 8);
        let shown = |bits: BooleanBuffer| bits.iter().map(|bit| if bit { '1' } else { '0' }).collect::<String>();
        assert_eq!(shown(rows.bits()), "01100100");
        assert_eq!(shown(rows.spread(&bits([0, 2], 3))), "01000100");
    }

    #[test]
    fn little_gaps_are_decoded() {
        let rows = Rows::of([0..200, 400..600], 600);
        let (decoded, wanted) = rows.passing(&bits([3, 5, 199, 200, 399], 400));
        assert_eq!(decoded.ranges, [0..6, 199..200, 400..401, 599..600]);
        let wanted: Vec<bool> = wanted.unwrap().values().iter().collect();
        assert_eq!(wanted, [false, false, false, true, false, true, true, true, true]);
        let (decoded, wanted) = rows.passing(&bits(140..260, 400));
        assert_eq!(decoded.ranges, [140..200, 400..460]);
        assert!(wanted.is_none());
        assert!(rows.passing(&bits([], 400)).0.is_empty());
    }
}
