//! Where the row groups of a Parquet object lie, for cutting it into pieces of rows.
//!
//! A file may have fewer row groups than there are cores, or a few more, and then some have a row group more than others. But
//! a row group that is cut has its dictionaries decompressed for each piece, which takes 2 to 4 % of the time of a query over 23 of
//! them: as much as two cores lose that have 12 and 11. So pieces end where row groups do, unless that is far away. And where a
//! file does not tell where its pages lie, each piece would look through all of a row group: it is not cut.

use std::ops::Range;

use pushdown::Format;
use pushdowndb_scan::RowGroupPlace;

use super::ScanSpec;
use crate::table::DataObject;

/// The end of a row group may be so far away: this part of the object's share for each partition.
const FAR: u64 = 8;

/// The row groups of an object.
#[derive(Debug)]
pub(super) struct RowGroups {
    /// Where each begins, and before which row; and the end of the last.
    bounds: Vec<(u64, u64)>,
    /// The end of a row group is not farther away than this many bytes.
    far: u64,
}

impl RowGroups {
    /// Those of an object that so many partitions share, if its footer was read before and there is an index of its pages.
    pub(super) fn known(spec: &ScanSpec, object: &DataObject, partitions: usize) -> Option<Self> {
        if !matches!(spec.table.format_of(object), Format::Parquet) {
            return None;
        }
        let known = spec.backend.footer(object)?.row_groups(&spec.backend.address(&object.path))?;
        Self::new(&known, object.size, partitions)
    }

    /// `None` if they do not lie one after the other.
    pub(super) fn new(groups: &[RowGroupPlace], size: u64, partitions: usize) -> Option<Self> {
        let mut bounds = Vec::with_capacity(groups.len() + 1);
        let mut rows = 0u64;
        for group in groups {
            bounds.push((group.first_byte, rows));
            rows = rows.checked_add(group.rows)?;
        }
        bounds.push((size, rows));
        let far = size / (FAR * partitions.max(1) as u64);
        (!groups.is_empty() && bounds.is_sorted_by(|a, b| a.0 < b.0)).then_some(Self { bounds, far })
    }

    /// The end of a row group near this byte, or the byte itself.
    pub(super) fn near(&self, byte: u64) -> u64 {
        let near = self.bounds.iter().map(|(bound, _)| *bound).filter(|bound| bound.abs_diff(byte) <= self.far);
        near.min_by_key(|bound| bound.abs_diff(byte)).unwrap_or(byte)
    }

    /// Where a piece from `start` on ends that should end at `end`.
    pub(super) fn end(&self, start: u64, end: u64) -> u64 {
        let most = self.far.max((end - start) / 2);
        let near = self.bounds.iter().map(|(bound, _)| *bound).filter(|b| *b > start && b.abs_diff(end) <= most);
        near.min_by_key(|bound| bound.abs_diff(end)).unwrap_or(end)
    }

    /// The rows of a range of bytes, as if those of a row group were spread evenly over it: adjacent ranges have adjacent rows,
    /// and the range of all bytes has all.
    pub(super) fn rows(&self, range: &Range<u64>) -> Range<u64> {
        self.before(range.start)..self.before(range.end)
    }

    /// How many rows lie before this byte.
    fn before(&self, byte: u64) -> u64 {
        let place = self.bounds.partition_point(|(start, _)| *start <= byte);
        match (place.checked_sub(1).and_then(|place| self.bounds.get(place)), self.bounds.get(place)) {
            (None, _) => 0,
            (Some((_, rows)), None) => *rows,
            (Some((start, before)), Some((end, after))) => {
                let share = u128::from(after - before) * u128::from(byte - start) / u128::from(end - start);
                before + u64::try_from(share).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row groups of 100 bytes and 10 rows.
    fn row_groups(count: u64, partitions: usize) -> RowGroups {
        let groups: Vec<_> = (0..count).map(|n| RowGroupPlace { first_byte: 4 + 100 * n, rows: 10 }).collect();
        RowGroups::new(&groups, 4 + 100 * count, partitions).unwrap()
    }

    #[test]
    fn ranges_that_touch_have_rows_that_touch() {
        let groups = row_groups(3, 2);
        let bounds = [0, 3, 4, 30, 104, 150, 299, 303, 304];
        assert_eq!(bounds.map(|byte| groups.rows(&(0..byte)).end), [0, 0, 0, 2, 10, 14, 29, 29, 30]);
        let empty = RowGroupPlace { first_byte: 4, rows: 0 };
        assert_eq!(RowGroups::new(&[empty], 90, 2).unwrap().rows(&(4..90)), 0..0);
        assert!(RowGroups::new(&[empty, empty], 90, 2).is_none(), "one where the other is");
        assert!(RowGroups::new(&[], 90, 2).is_none());
    }

    #[test]
    fn pieces_end_where_row_groups_do_if_that_is_near() {
        // Of many row groups each partition has about as many.
        let many = row_groups(23, 2);
        assert_eq!((many.near(1150), many.end(1104, 1120)), (1104, 1204));
        let few = row_groups(3, 2);
        assert_eq!((few.near(152), few.near(110)), (152, 104));
        assert_eq!((few.end(4, 80), few.end(104, 130)), (104, 130));
        assert_eq!(row_groups(1, 2).near(54), 54);
    }
}
