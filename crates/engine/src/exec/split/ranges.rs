//! Readers of many ranges at once: pages of Parquet columns, and records found by an index.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use pushdowndb_contract::limits::FRAGMENT_RANGE_BYTES;
use pushdowndb_contract::{Result, Split};
use pushdowndb_scan::ObjectReader;

use crate::endpoints::{COALESCE_GAP_BYTES, FragmentClient};
use crate::exec::partition_scan::FallBacks;

/// Maximum total bytes of ranges read in one request; for more bytes, parallel plain reads cost
/// little more.
const MAX_TOGETHER_BYTES: u64 = 8 * 1024 * 1024;

/// Reader of an object on a node. It reads several ranges in one request of the fragment route
/// (PushdownDB, Section X, suggestion 1), or by plain reads if that fails.
#[derive(Debug)]
pub(crate) struct RangesTogether {
    /// Reader for plain reads.
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) client: FragmentClient,
    pub(crate) object: Split,
    /// Maximum bytes of a joint request for each plain read that it saves; `None` always sends a
    /// joint request.
    pub(crate) bytes_per_request: Option<u64>,
    pub(crate) fall_backs: FallBacks,
}

impl ObjectReader for RangesTogether {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn bytes_per_request(&self) -> u64 {
        self.reader.bytes_per_request()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.reader.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let is_too_long = |range: &Range<u64>| range.end.saturating_sub(range.start) > FRAGMENT_RANGE_BYTES;
        if ranges.iter().any(is_too_long)
            || self.bytes_per_request.is_some_and(|bytes| !are_far_and_few(&ranges, bytes))
        {
            return self.reader.read_ranges(ranges);
        }
        let (reader, client, object) = (Arc::clone(&self.reader), self.client.clone(), self.object.clone());
        let fall_backs = self.fall_backs.clone();
        async move {
            match client.ranges(&object, &ranges, reader.location()).await {
                Ok(pieces) => Ok(pieces),
                Err(error) => {
                    // Plain reads return the bytes, or the error, also for a replaced object.
                    fall_backs.record(&error);
                    reader.read_ranges(ranges).await
                }
            }
        }
        .boxed()
    }
}

/// Reader of an object whose ranges are joined already. It reads them one by one, `at_once` at a
/// time.
#[derive(Debug)]
pub(crate) struct RangesApart {
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) at_once: usize,
}

impl ObjectReader for RangesApart {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn bytes_per_request(&self) -> u64 {
        self.reader.bytes_per_request()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.reader.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let (reader, at_once) = (Arc::clone(&self.reader), self.at_once);
        async move {
            let one = move |range| reader.read_ranges(vec![range]);
            let all = stream::iter(ranges).map(one).buffered(at_once);
            all.map_ok(|pieces| pieces.into_iter().next().unwrap_or_default()).try_collect().await
        }
        .boxed()
    }
}

fn are_far_and_few(ranges: &[Range<u64>], bytes_per_request: u64) -> bool {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let bytes: u64 = sorted.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let is_gap = |pair: &&[&Range<u64>]| match pair {
        [a, b] => b.start.saturating_sub(a.end) > COALESCE_GAP_BYTES,
        _ => false,
    };
    let saved = sorted.windows(2).filter(is_gap).count() as u64;
    saved > 0 && bytes <= MAX_TOGETHER_BYTES.min(saved.saturating_mul(bytes_per_request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_ranges_far_apart_come_together() {
        let far = COALESCE_GAP_BYTES + 20;
        let are_far_and_few = |ranges: &[Range<u64>]| are_far_and_few(ranges, u64::MAX);
        assert!(are_far_and_few(&[far..far + 5, 0..10]));
        assert!(!are_far_and_few(&[0..10, 20..30]));
        assert!(!are_far_and_few(&[0..10, far..far + MAX_TOGETHER_BYTES]));
        assert!(!are_far_and_few(&[]));
    }

    #[test]
    fn joined_ranges_are_limited_by_saved_requests() {
        let ranges = [
            0..600,
            2 * COALESCE_GAP_BYTES..2 * COALESCE_GAP_BYTES + 600,
            4 * COALESCE_GAP_BYTES..4 * COALESCE_GAP_BYTES + 800,
        ];
        assert!(are_far_and_few(&ranges, 1000));
        assert!(!are_far_and_few(&ranges, 999));
    }
}
