//! Rows of a Parquet file by number: counting them, and reading some of them.
//!
//! The numbers are those of the file, whatever row groups are read. Where the file tells where its pages begin, only
//! the pages that hold wanted rows are fetched, otherwise the column chunks of their row groups.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::RowSelection;
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use arrow::array::RecordBatch;
use pushdown::Result;

use super::chunks::Chunks;
use crate::output::record_batch;
use crate::positions::{Positions, with_positions};
use crate::{ObjectReader, ScanCounters};

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

/// The metadata with the places of pages, where the file has them.
pub(super) async fn with_pages(
    metadata: Arc<ParquetMetaData>,
    reader: &Arc<dyn ObjectReader>,
    counters: &Arc<ScanCounters>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    let mut chunks =
        Chunks { reader: Arc::clone(reader), metadata: Arc::clone(&metadata), counters: Arc::clone(counters) };
    let mut pages = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::clone(&metadata))
        .with_offset_index_policy(PageIndexPolicy::Optional);
    pages.load_page_index(&mut chunks).await?;
    pages.finish().map(Arc::new)
}

/// Those of `groups` that hold a row of `only` (ascending, apart), and which of their rows those are.
pub(super) fn select(
    only: &[Range<u64>],
    metadata: &ParquetMetaData,
    groups: &[usize],
) -> (Vec<usize>, Option<RowSelection>) {
    let mut wanted_groups = Vec::new();
    let mut selected = Vec::new();
    // Rows of the file and of the groups picked so far.
    let (mut begin, mut picked) = (0u64, 0usize);
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).unwrap_or_default();
        let end = begin.saturating_add(rows);
        let from = only.partition_point(|range| range.end <= begin);
        let within: Vec<Range<u64>> = only
            .iter()
            .skip(from)
            .take_while(|range| range.start < end)
            .map(|range| range.start.max(begin) - begin..range.end.min(end) - begin)
            .collect();
        begin = end;
        if within.is_empty() || !groups.contains(&index) {
            continue;
        }
        let place = |row: u64| picked + usize::try_from(row).unwrap_or_default();
        selected.extend(within.into_iter().map(|range| place(range.start)..place(range.end)));
        wanted_groups.push(index);
        picked += usize::try_from(rows).unwrap_or_default();
    }
    (wanted_groups, Some(RowSelection::from_consecutive_ranges(selected.into_iter(), picked)))
}
