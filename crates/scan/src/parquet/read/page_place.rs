//! Locations of pages and column chunks.

use std::ops::Range;

use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;

/// The location of a data page, from the page index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PagePlace {
    /// The range of its bytes, including its header.
    pub(crate) bytes: Range<u64>,
    /// The range of its rows, counted from the first row of the row group.
    pub(crate) rows: Range<usize>,
}

pub(crate) fn chunk_range(chunk: &ColumnChunkMetaData) -> Result<Range<u64>> {
    let data = chunk.data_page_offset();
    let start = match chunk.dictionary_page_offset() {
        Some(dictionary) if dictionary > 0 && dictionary < data => dictionary,
        _ => data,
    };
    let start = u64::try_from(start).ok();
    let bytes = u64::try_from(chunk.compressed_size()).ok();
    let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    start.zip(end).map(|(start, end)| start..end).ok_or_else(|| ParquetError::General("a broken column chunk".into()))
}
