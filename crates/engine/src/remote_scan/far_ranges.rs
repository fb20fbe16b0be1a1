//! Plain reads of an object in a node of our own: several ranges far apart come in one request of the fragment route
//! (PushdownDB, Section X, suggestion 1). The pages of Parquet columns that hold the rows wanted lie like that.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pushdown::{Result, Split};
use pushdowndb_scan::ObjectReader;
use tracing::warn;

use crate::backends::FragmentClient;

/// Ranges with at most so much between them are one request anyway.
const NEAR_BYTES: u64 = 1024 * 1024;

/// Of more bytes the requests are a small part of the cost, and plain reads of them run side by side.
const FEW_BYTES: u64 = 8 * 1024 * 1024;

/// An object whose ranges come together where they are far apart and small; plainly otherwise, and where that fails.
#[derive(Debug)]
pub(super) struct FarRanges {
    pub(super) reader: Arc<dyn ObjectReader>,
    pub(super) client: FragmentClient,
    pub(super) object: Split,
    /// So many bytes may come together for each request that this saves.
    pub(super) bytes_a_request: u64,
}

impl ObjectReader for FarRanges {
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
        if !are_far_and_few(&ranges, self.bytes_a_request) {
            return self.reader.read_ranges(ranges);
        }
        let (reader, client, object) = (Arc::clone(&self.reader), self.client.clone(), self.object.clone());
        async move {
            match client.ranges(&object, &ranges, reader.location()).await {
                Ok(pieces) => Ok(pieces),
                Err(error) => {
                    // Reading plainly tells the same story, also that the object was replaced.
                    warn!(%error, "reading ranges plainly");
                    reader.read_ranges(ranges).await
                }
            }
        }
        .boxed()
    }
}

fn are_far_and_few(ranges: &[Range<u64>], bytes_a_request: u64) -> bool {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let bytes: u64 = sorted.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let is_gap = |pair: &&[&Range<u64>]| match pair {
        [a, b] => b.start.saturating_sub(a.end) > NEAR_BYTES,
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
        let far = NEAR_BYTES + 20;
        let are_far_and_few = |ranges: &[Range<u64>]| are_far_and_few(ranges, u64::MAX);
        assert!(are_far_and_few(&[far..far + 5, 0..10]));
        assert!(!are_far_and_few(&[0..10, 20..30]));
        assert!(!are_far_and_few(&[0..10, far..far + FEW_BYTES]));
        assert!(!are_far_and_few(&[]));
    }

    #[test]
    fn bytes_come_together_for_the_requests_that_they_save() {
        let ranges = [0..600, 2 * NEAR_BYTES..2 * NEAR_BYTES + 600, 4 * NEAR_BYTES..4 * NEAR_BYTES + 800];
        assert!(are_far_and_few(&ranges, 1000));
        assert!(!are_far_and_few(&ranges, 999));
    }
}
