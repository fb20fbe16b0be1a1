//! Readers of objects that take many ranges at a time: the pages of Parquet columns that hold the rows wanted, and records
//! that an index found.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use pushdown::limits::FRAGMENT_RANGE_BYTES;
use pushdown::{Result, Split};
use pushdowndb_scan::ObjectReader;

use super::run::FallBacks;
use crate::backends::{COALESCE_GAP_BYTES, FragmentClient};

/// Of more bytes the requests are a small part of the cost, and plain reads of them run side by side.
const FEW_BYTES: u64 = 8 * 1024 * 1024;

/// An object in a node of our own: several ranges come in one request of the fragment route (PushdownDB, Section X,
/// suggestion 1), and plainly where that fails.
#[derive(Debug)]
pub(super) struct RangesTogether {
    /// Who reads plainly.
    pub(super) reader: Arc<dyn ObjectReader>,
    pub(super) client: FragmentClient,
    pub(super) object: Split,
    /// So many bytes may come together for each request that this saves, if the ranges are far apart; `None` is always.
    pub(super) bytes_a_request: Option<u64>,
    /// Where it is told that the route failed.
    pub(super) told: FallBacks,
}

impl ObjectReader for RangesTogether {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.reader.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let is_too_long = |range: &Range<u64>| range.end.saturating_sub(range.start) > FRAGMENT_RANGE_BYTES;
        if ranges.iter().any(is_too_long) || self.bytes_a_request.is_some_and(|bytes| !are_far_and_few(&ranges, bytes))
        {
            return self.reader.read_ranges(ranges);
        }
        let (reader, client, object) = (Arc::clone(&self.reader), self.client.clone(), self.object.clone());
        let told = self.told.clone();
        async move {
            match client.ranges(&object, &ranges, reader.location()).await {
                Ok(pieces) => Ok(pieces),
                Err(error) => {
                    // Reading plainly tells the same story, also that the object was replaced.
                    told.tell(&error);
                    reader.read_ranges(ranges).await
                }
            }
        }
        .boxed()
    }
}

/// An object whose ranges are read one by one, some at a time: what is near was joined already.
#[derive(Debug)]
pub(super) struct RangesApart {
    pub(super) reader: Arc<dyn ObjectReader>,
    pub(super) at_once: usize,
}

impl ObjectReader for RangesApart {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
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

fn are_far_and_few(ranges: &[Range<u64>], bytes_a_request: u64) -> bool {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let bytes: u64 = sorted.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let is_gap = |pair: &&[&Range<u64>]| match pair {
        [a, b] => b.start.saturating_sub(a.end) > COALESCE_GAP_BYTES,
        _ => false,
    };
    let saved = sorted.windows(2).filter(is_gap).count() as u64;
    saved > 0 && bytes <= FEW_BYTES.min(saved.saturating_mul(bytes_a_request))
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
        assert!(!are_far_and_few(&[0..10, far..far + FEW_BYTES]));
        assert!(!are_far_and_few(&[]));
    }

    #[test]
    fn bytes_come_together_for_the_requests_that_they_save() {
        let ranges = [
            0..600,
            2 * COALESCE_GAP_BYTES..2 * COALESCE_GAP_BYTES + 600,
            4 * COALESCE_GAP_BYTES..4 * COALESCE_GAP_BYTES + 800,
        ];
        assert!(are_far_and_few(&ranges, 1000));
        assert!(!are_far_and_few(&ranges, 999));
    }
}
