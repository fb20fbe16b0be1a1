//! Row-group boundaries of a Parquet object, for cutting it into row ranges.
//!
//! With few row groups per core, whole row groups would be spread unevenly over the cores. But each
//! piece of a cut row group decompresses its dictionaries again, which costs 2 to 4 % of a query
//! over 23 row groups, as much as an uneven split into 12 and 11 row groups. So pieces end at
//! row-group boundaries, unless those are too far away. Without a page index, a row group is not
//! cut, because each piece would search all of it.

use std::ops::Range;

use pushdowndb_contract::Format;
use pushdowndb_scan::RowGroupPlace;

use crate::catalog::DataObject;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;

/// Maximum distance by which a cut is moved to a row-group boundary: 1 / `SNAP_DIVISOR` of a
/// partition's share.
const SNAP_DIVISOR: u64 = 8;

#[derive(Debug)]
pub(crate) struct RowGroups {
    /// First byte and first row of each row group, then the end of the last one.
    bounds: Vec<(u64, u64)>,
    snap_bytes: u64,
}

impl RowGroups {
    /// Returns the row groups of `object`; `None` without a cached footer or a page index.
    pub(crate) fn known(
        plan: &ScanPlan,
        context: &ScanContext,
        object: &DataObject,
        partitions: usize,
    ) -> Option<Self> {
        if !matches!(plan.table.format_of(object), Format::Parquet) {
            return None;
        }
        let known = context.backend.footer(object)?.row_groups(&context.backend.address(&object.path))?;
        Self::new(&known, object.size, partitions)
    }

    /// Returns `None` if there are no row groups or they are not in ascending order.
    pub(crate) fn new(groups: &[RowGroupPlace], size: u64, partitions: usize) -> Option<Self> {
        let mut bounds = Vec::with_capacity(groups.len() + 1);
        let mut rows = 0u64;
        for group in groups {
            bounds.push((group.first_byte, rows));
            rows = rows.checked_add(group.rows)?;
        }
        bounds.push((size, rows));
        let snap_bytes = size / (SNAP_DIVISOR * partitions.max(1) as u64);
        (!groups.is_empty() && bounds.is_sorted_by(|a, b| a.0 < b.0)).then_some(Self { bounds, snap_bytes })
    }

    /// Returns the nearest row-group boundary if it is close to `byte`, otherwise `byte` itself.
    pub(crate) fn near(&self, byte: u64) -> u64 {
        let near = self.bounds.iter().map(|(bound, _)| *bound).filter(|bound| bound.abs_diff(byte) <= self.snap_bytes);
        near.min_by_key(|bound| bound.abs_diff(byte)).unwrap_or(byte)
    }

    /// Returns where to end a piece that starts at `start` and should end near `end`: at a
    /// row-group boundary if one is close.
    pub(crate) fn end(&self, start: u64, end: u64) -> u64 {
        let most = self.snap_bytes.max((end - start) / 2);
        let near = self.bounds.iter().map(|(bound, _)| *bound).filter(|b| *b > start && b.abs_diff(end) <= most);
        near.min_by_key(|bound| bound.abs_diff(end)).unwrap_or(end)
    }

    /// Returns the rows of the byte range `range`, as if rows were spread evenly over the bytes of
    /// their row group. Adjacent byte ranges have adjacent row ranges, and the whole object has all
    /// rows.
    pub(crate) fn rows(&self, range: &Range<u64>) -> Range<u64> {
        self.before(range.start)..self.before(range.end)
    }

    /// Returns the number of rows before `byte`.
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
        // Many row groups: about as many for each partition.
        let many = row_groups(23, 2);
        assert_eq!((many.near(1150), many.end(1104, 1120)), (1104, 1204));
        let few = row_groups(3, 2);
        assert_eq!((few.near(152), few.near(110)), (152, 104));
        assert_eq!((few.end(4, 80), few.end(104, 130)), (104, 130));
        assert_eq!(row_groups(1, 2).near(54), 54);
    }
}
