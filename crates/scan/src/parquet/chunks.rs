//! Reading the bytes of a Parquet file: the footer in one read, column chunks in few.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::parquet::arrow::arrow_reader::ArrowReaderOptions;
use ::parquet::arrow::async_reader::AsyncFileReader;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdown::{Error, ErrorKind, Result};

use super::depth::{LEVELS, is_too_deep};
use crate::{ObjectReader, ScanCounters};

/// Read at once from the end: the footers of most files fit.
const TAIL_BYTES: u64 = 64 * 1024;

/// Ranges with a gap of at most this between them are read as one.
const GAP_BYTES: u64 = 64 * 1024;

/// The footer of a Parquet object, if it has at most so many bytes.
pub async fn parquet_metadata(reader: &dyn ObjectReader, footer_bytes: u64) -> Result<ParquetMetaData> {
    let (location, size) = (reader.location(), reader.size());
    let corrupt = |message: String| Error::new(ErrorKind::Corrupt, format!("{location}: {message}"));
    if size == 0 {
        return Err(corrupt("is empty, so it is no Parquet file".into()));
    }
    let mut tail = TAIL_BYTES.min(size);
    loop {
        let bytes = reader.read_ranges(vec![size - tail..size]).await?.into_iter().next().unwrap_or_default();
        if is_too_deep(&bytes) {
            let message = format!("{location}: its columns are nested deeper than {LEVELS} levels");
            return Err(Error::new(ErrorKind::Limit, message).with_code("UnsupportedParquetType"));
        }
        let mut parser = ParquetMetaDataReader::new();
        match parser.try_parse_sized(&bytes, size).and_then(|()| parser.finish()) {
            Ok(metadata) => return Ok(metadata),
            Err(ParquetError::NeedMoreData(needed)) if tail < needed as u64 && needed as u64 <= size => {
                if needed as u64 > footer_bytes {
                    let message = format!("{location}: its footer has {needed} bytes, at most {footer_bytes} are read");
                    return Err(Error::new(ErrorKind::Limit, message).with_code("ParquetParsingError"));
                }
                tail = needed as u64;
            }
            Err(error) => {
                let why = if bytes.ends_with(b"PAR1") { "its footer cannot be read" } else { "it does not end as one" };
                return Err(corrupt(format!("is no complete Parquet file: {why}")).with_source(error));
            }
        }
    }
}

/// Column chunks for the Parquet reader, counted.
pub(crate) struct Chunks {
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) counters: Arc<ScanCounters>,
}

impl AsyncFileReader for Chunks {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move { Ok(self.get_byte_ranges(vec![range]).await?.into_iter().next().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let size = self.reader.size();
            if let Some(bad) = ranges.iter().find(|r| r.start > r.end || r.end > size) {
                return Err(ParquetError::General(format!("bytes {bad:?} lie outside the file of {size} bytes")));
            }
            let merged = merge(&ranges);
            let read: u64 = merged.iter().map(|r| r.end - r.start).sum();
            let pieces =
                self.reader.read_ranges(merged.clone()).await.map_err(|e| ParquetError::External(Box::new(e)))?;
            self.counters.bytes_scanned.fetch_add(read, Ordering::Relaxed);
            let within = |range: &Range<u64>| -> Option<Bytes> {
                let at = merged.partition_point(|m| m.end < range.end);
                let (whole, bytes) = (merged.get(at)?, pieces.get(at)?);
                let start = usize::try_from(range.start.checked_sub(whole.start)?).ok()?;
                let end = usize::try_from(range.end.checked_sub(whole.start)?).ok()?;
                (end <= bytes.len()).then(|| bytes.slice(start..end))
            };
            let short = || ParquetError::EOF("fewer bytes came than were asked for".into());
            ranges.iter().map(|range| within(range).ok_or_else(short)).collect()
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let metadata = Arc::clone(&self.metadata);
        async move { Ok(metadata) }.boxed()
    }
}

/// The ranges in order, those that nearly touch joined.
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP_BYTES) => last.end = last.end.max(range.end),
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
        let far = GAP_BYTES + 11;
        assert_eq!(merge(&[far..far + 5, 0..10, 5..8, far + 6..far + 7]), [0..10, far..far + 7]);
        assert_eq!(merge(&[]), []);
    }
}
