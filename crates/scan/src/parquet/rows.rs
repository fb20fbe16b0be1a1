//! Rows of a Parquet file by number: counting them, and which row groups hold some of them.
//!
//! The numbers are those of the file, whatever row groups are read. Where the file tells where its pages begin, only
//! the pages that hold wanted rows are fetched, otherwise the column chunks of their row groups.

use std::ops::Range;

use ::parquet::file::metadata::ParquetMetaData;
use arrow::array::RecordBatch;
use pushdown::Result;

use super::groups::GroupPart;
use super::selection::Rows;
use crate::output::record_batch;
use crate::positions::{Positions, with_positions};

/// The batch with the numbers of its rows, the first being `next`, which moves on.
pub(super) fn numbered(batch: &RecordBatch, next: &mut u64) -> Result<RecordBatch> {
    let mut positions = Positions::default();
    for _ in 0..batch.num_rows() {
        positions.push(*next..*next + 1);
        *next += 1;
    }
    let columns = batch.columns().iter().cloned().chain(positions.take()).collect();
    record_batch(&with_positions(batch.schema_ref()), columns, batch.num_rows())
}

/// The row groups that hold a row of `only` (ascending, apart), and which of their rows those are.
pub(super) fn holding(only: &[Range<u64>], metadata: &ParquetMetaData) -> Vec<GroupPart> {
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
            wanted.push(GroupPart { group, rows, is_first: true });
        }
        begin = end;
    }
    wanted
}
