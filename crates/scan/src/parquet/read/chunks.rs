//! Fetching column chunks, or only their needed pages, in few reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::parquet::arrow::async_reader::MetadataFetch;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::parquet::errors::external;
use crate::parquet::meta::cache::{Index, KnownFooter};
use crate::parquet::read::chunk_bytes::{ChunkBytes, Stored};
use crate::parquet::read::page_memory::PageMemory;
use crate::parquet::read::page_place::{PagePlace, chunk_range};
use crate::parquet::read::pages::Pages;
use crate::parquet::read::selection::Rows;

/// The maximum gap between ranges that are read as one, in bytes.
const MAX_GAP_BYTES: u64 = 64 * 1024;

/// The bytes in memory per byte of a page index while it is parsed.
const INDEX_EXPANSION: usize = 6;

/// The fetched columns of a row group.
#[derive(Debug)]
pub(crate) struct Fetched {
    group: usize,
    chunks: Vec<(usize, ChunkBytes, Option<Vec<PagePlace>>)>,
}

impl Fetched {
    /// Caches pages of this column that are decompressed from now on, up to `most` bytes.
    pub(crate) fn keep_pages(&self, leaf: usize, most: usize) {
        self.chunks.iter().filter(|(own, ..)| *own == leaf).for_each(|(_, bytes, _)| bytes.keep_pages(most));
    }

    /// Returns whether this column was fetched.
    pub(crate) fn holds(&self, leaf: usize) -> bool {
        self.chunks.iter().any(|(own, ..)| *own == leaf)
    }

    /// Adds the columns of `other`.
    pub(crate) fn join(&mut self, other: Self) {
        self.chunks.extend(other.chunks);
    }
}

/// The maximum size and number of cached ranges that are copied at once, since to read them page by
/// page would take one or two reads per page. For larger ranges, many columns, or many separate
/// pages, that is not done.
const MAX_SHORT_BYTES: usize = 256 * 1024;
const MAX_SHORT_RANGES: usize = 16;

/// Reads the column chunks of a file, and counts the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) counters: Arc<ScanCounters>,
    pub(crate) page_bytes: u64,
    /// The memory into which pages are read and decompressed.
    pub(crate) memory: PageMemory,
    /// True if the last fetch had to wait.
    pub(crate) are_waited_for: Arc<AtomicBool>,
}

impl Chunks {
    /// Returns the bytes of each range. Ranges that are close together are read as one.
    pub(crate) async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let merged = self.merged(ranges)?;
        let pieces = match merged.is_empty() {
            true => Vec::new(),
            false => self.read_merged(&merged).await?,
        };
        count(&self.counters, &merged);
        ranges.iter().map(|range| within(range, &merged, &pieces)).collect()
    }

    /// Like [`Self::read`], for merged ranges. Their memory is reserved as long as any of the bytes
    /// are held.
    async fn read_merged(&self, merged: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let length = |range: &Range<u64>| usize::try_from(range.end - range.start).map_err(external);
        let reserved = merged.iter().map(|range| self.memory.reserve(length(range)?)).collect::<Result<Vec<_>>>()?;
        let pieces = self.reader.read_ranges(merged.to_vec()).await.map_err(external)?;
        Ok(pieces.into_iter().zip(reserved).map(|(bytes, reserved)| reserved.hold(bytes)).collect())
    }

    /// Returns the ranges in order, with close ones merged, or an error if one is not within the
    /// file.
    fn merged(&self, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let size = self.reader.size();
        match ranges.iter().find(|r| r.start > r.end || r.end > size) {
            Some(bad) => Err(ParquetError::General(format!("bytes {bad:?} lie outside the file of {size} bytes"))),
            None => Ok(merge(ranges)),
        }
    }

    /// Returns the bytes of each range, or a function that reads them if they are cached. Counts
    /// the bytes in either case.
    async fn stored(&self, ranges: &[Range<u64>], counters: &ScanCounters) -> Result<Vec<Stored>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let merged = self.merged(ranges)?;
        count(counters, &merged);
        let at_hand = self.reader.at_hand(&merged);
        self.are_waited_for.store(at_hand.is_none(), Ordering::Relaxed);
        let Some(read) = at_hand else {
            let pieces = self.read_merged(&merged).await?;
            return ranges.iter().map(|range| within(range, &merged, &pieces).map(Stored::Fetched)).collect();
        };
        let mut at_once = 0;
        let stored = |range: &Range<u64>| {
            let length = range.end - range.start;
            let short =
                usize::try_from(length).ok().filter(|length| *length <= MAX_SHORT_BYTES && at_once < MAX_SHORT_RANGES);
            let Some(short) = short else { return Ok(Stored::AtHand { length, read: Arc::clone(&read) }) };
            at_once += 1;
            let mut room = self.memory.room(short, range.start)?;
            read(range.start, room.as_mut()).map_err(external)?;
            Ok(Stored::Fetched(room.freeze()))
        };
        ranges.iter().map(stored).collect()
    }

    /// Fetches these columns (leaves of the schema) of a row group: whole chunks, or only the pages
    /// that contain `rows`. The bytes are counted in `counters`.
    pub(crate) async fn fetch(
        &self,
        group: usize,
        leaves: &[usize],
        rows: &Rows,
        counters: &ScanCounters,
    ) -> Result<Fetched> {
        let mut ranges = Vec::new();
        let mut wanted = Vec::new();
        for leaf in leaves {
            let places = self.places(group, *leaf)?;
            let own = chunk_ranges(self.chunk(group, *leaf)?, places.as_deref(), rows)?;
            wanted.push((*leaf, places, own.len()));
            ranges.extend(own);
        }
        let mut stored = self.stored(&ranges, counters).await?.into_iter().zip(&ranges);
        let mut all = Vec::with_capacity(wanted.len());
        for (leaf, places, count) in wanted {
            let pieces = stored.by_ref().take(count).map(|(stored, range)| (range.start, stored)).collect();
            all.push((leaf, ChunkBytes::new(pieces), places));
        }
        Ok(Fetched { group, chunks: all })
    }

    pub(crate) fn pages(&self, of: &Fetched, leaf: usize) -> Result<Pages> {
        let own = of.chunks.iter().find(|(own, ..)| *own == leaf);
        let (_, bytes, places) = own.ok_or_else(|| ParquetError::General("a column that was not fetched".into()))?;
        Pages::new(self.chunk(of.group, leaf)?, bytes.clone(), places.clone(), self.page_bytes, self.memory.clone())
    }

    /// Reads the page locations of all column chunks, and the bounds of their values if `bounds` is
    /// true. Does nothing if the file has no page index. If `known` is given, its cache is used.
    pub(crate) async fn load_places(&mut self, bounds: bool, known: Option<&KnownFooter>) -> Result<()> {
        let index = if bounds { Index::Bounds } else { Index::Places };
        self.metadata = match known {
            Some(known) => known.indexed(&*self.reader, index, self.indexed(bounds)).await?,
            None => self.indexed(bounds).await?,
        };
        Ok(())
    }

    async fn indexed(&self, bounds: bool) -> Result<Arc<ParquetMetaData>> {
        let wanted = if bounds { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let mut index = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::clone(&self.metadata))
            .with_column_index_policy(wanted)
            .with_offset_index_policy(PageIndexPolicy::Optional);
        index.load_page_index(self).await?;
        Ok(Arc::new(index.finish()?))
    }

    pub(crate) fn chunk(&self, group: usize, leaf: usize) -> Result<&ColumnChunkMetaData> {
        let group = self.metadata.row_groups().get(group);
        let chunk = group.and_then(|group| group.columns().get(leaf));
        chunk.ok_or_else(|| ParquetError::General("a row group without one of its columns".into()))
    }

    /// Returns the locations of the data pages of a column chunk; `None` if they were not read.
    pub(crate) fn places(&self, group: usize, leaf: usize) -> Result<Option<Vec<PagePlace>>> {
        let index = self.metadata.offset_index().and_then(|all| all.get(group)?.get(leaf));
        let rows = self.metadata.row_groups().get(group).map(|group| group.num_rows());
        let (Some(index), Some(rows)) = (index, rows) else { return Ok(None) };
        let locations = index.page_locations();
        if locations.is_empty() {
            return Ok(None);
        }
        let whole = chunk_range(self.chunk(group, leaf)?)?;
        let ends = locations.iter().skip(1).map(|next| next.first_row_index).chain([rows]);
        let mut before = whole.start;
        let place = |(page, end): (&::parquet::file::page_index::offset_index::PageLocation, i64)| {
            let start = u64::try_from(page.offset).ok()?;
            let bytes = start..start.checked_add(u64::try_from(page.compressed_page_size).ok()?)?;
            let rows = usize::try_from(page.first_row_index).ok()?..usize::try_from(end).ok()?;
            let follows = before <= bytes.start && bytes.end <= whole.end && rows.start <= rows.end;
            before = bytes.end;
            follows.then_some(PagePlace { bytes, rows })
        };
        let places: Option<Vec<PagePlace>> = locations.iter().zip(ends).map(place).collect();
        match places {
            Some(places) if places.first().is_some_and(|first| first.rows.start == 0) => Ok(Some(places)),
            _ => Err(ParquetError::General("its index of pages contradicts itself".into())),
        }
    }
}

impl MetadataFetch for &Chunks {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(external)?;
            let decoded = self.memory.reserve(length.saturating_mul(INDEX_EXPANSION))?;
            Ok(decoded.hold(self.read(&[range]).await?.into_iter().next().unwrap_or_default()))
        }
        .boxed()
    }
}

/// Returns the ranges of a column chunk to read for these rows: the whole chunk, or the dictionary
/// and the pages that contain the rows.
fn chunk_ranges(chunk: &ColumnChunkMetaData, places: Option<&[PagePlace]>, rows: &Rows) -> Result<Vec<Range<u64>>> {
    let whole = chunk_range(chunk)?;
    let Some(places) = places else { return Ok(vec![whole]) };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let first = places.first().map_or(whole.end, |first| first.bytes.start);
    if whole.start < first {
        ranges.push(whole.start..first);
    }
    for place in places.iter().filter(|place| rows.touch(&place.rows)) {
        match ranges.last_mut() {
            Some(last) if last.end == place.bytes.start => last.end = place.bytes.end,
            _ => ranges.push(place.bytes.clone()),
        }
    }
    Ok(ranges)
}

fn count(counters: &ScanCounters, merged: &[Range<u64>]) {
    let read = merged.iter().map(|r| r.end - r.start).sum();
    counters.bytes_scanned.fetch_add(read, Ordering::Relaxed);
}

/// Returns the bytes of a range from the pieces that were read for the merged ranges.
fn within(range: &Range<u64>, merged: &[Range<u64>], pieces: &[Bytes]) -> Result<Bytes> {
    let at = merged.partition_point(|m| m.end < range.end);
    let bytes = || -> Option<Bytes> {
        let (whole, bytes) = (merged.get(at)?, pieces.get(at)?);
        let start = usize::try_from(range.start.checked_sub(whole.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(whole.start)?).ok()?;
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    };
    bytes().ok_or_else(|| ParquetError::EOF("fewer bytes came than were asked for".into()))
}

/// Returns the ranges in order, with close ones merged.
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MAX_GAP_BYTES) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_as_one() {
        let far = MAX_GAP_BYTES + 11;
        assert_eq!(merge(&[far..far + 5, 0..10, 5..8, far + 6..far + 7]), [0..10, far..far + 7]);
        assert_eq!(merge(&[]), []);
    }
}
