//! Row numbers of a Parquet file: assigning them, and selecting rows by them.
//!
//! Numbers count from the start of the file, whichever row groups are read. With a page index, only
//! pages with selected rows are fetched, and otherwise the whole column chunks of their row groups.

use std::ops::Range;

use ::parquet::file::metadata::ParquetMetaData;
use arrow::array::RecordBatch;
use pushdowndb_contract::Result;

use crate::batch::record_batch;
use crate::parquet::read::selection::Rows;
use crate::parquet::row_group::RowGroupSlice;
use crate::range::positions::{Positions, with_positions};

/// Returns the batch with its row numbers, which start at `next`. Advances `next`.
pub(crate) fn numbered(batch: &RecordBatch, next: &mut u64) -> Result<RecordBatch> {
    let mut positions = Positions::default();
    for _ in 0..batch.num_rows() {
        positions.push(*next..*next + 1);
        *next += 1;
    }
    let columns = batch.columns().iter().cloned().chain(positions.take()).collect();
    record_batch(&with_positions(batch.schema_ref()), columns, batch.num_rows())
}

/// Returns the row groups that contain rows of `only`, and those rows in each of them. `only` must
/// be ascending and disjoint.
pub(crate) fn holding(only: &[Range<u64>], metadata: &ParquetMetaData) -> Vec<RowGroupSlice> {
    let mut wanted = Vec::new();
    let mut begin = 0u64;
    for (group, of) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(of.num_rows()).unwrap_or_default();
        let end = begin.saturating_add(rows);
        let from = only.partition_point(|range| range.end <= begin);
        let place = |row: u64| usize::try_from(row - begin).unwrap_or(usize::MAX);
        let within = only.iter().skip(from).take_while(|range| range.start < end);
        let within = within.map(|range| place(range.start.max(begin))..place(range.end.min(end)));
        let rows = Rows::of(within, usize::try_from(rows).unwrap_or_default());
        if !rows.is_empty() {
            wanted.push(RowGroupSlice { group, rows, is_first: true });
        }
        begin = end;
    }
    wanted
}
