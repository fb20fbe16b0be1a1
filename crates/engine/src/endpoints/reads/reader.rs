//! The reader of an object.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use pushdowndb_contract::Result;
use pushdowndb_http::reads::{ReadLimit, in_order, whole};
use pushdowndb_scan::ObjectReader;

use super::COALESCE_GAP_BYTES;
use super::source::Source;

/// Number of parts that a long stream reads ahead from a server with high latency.
const PARTS_AHEAD: usize = 4;

/// Bytes that a server with high latency sends while another answer is awaited: 22 ms at 90 MB/s.
const BYTES_PER_REQUEST: u64 = 2 * 1024 * 1024;

/// A reader of one object in a store.
#[derive(Debug)]
pub(crate) struct StoreReader {
    pub(crate) source: Source,
    pub(crate) size: u64,
    /// The limit on reads in flight, if the server has high latency.
    pub(crate) far: Option<Arc<ReadLimit>>,
}

impl ObjectReader for StoreReader {
    fn location(&self) -> &str {
        &self.source.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn bytes_per_request(&self) -> u64 {
        if self.far.is_some() { BYTES_PER_REQUEST } else { 0 }
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        if range.is_empty() {
            return stream::empty().boxed();
        }
        if let Some(limit) = &self.far {
            return in_order(self.source.clone(), Arc::clone(limit), range, PARTS_AHEAD);
        }
        let reading = self.source.clone().reading(range);
        stream::try_unfold(
            reading,
            |mut reading| async move { Ok(reading.next().await?.map(|bytes| (bytes, reading))) },
        )
        .boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let (source, far) = (self.source.clone(), self.far.clone());
        async move {
            let read = |range| {
                let (source, far) = (&source, &far);
                async move {
                    match far {
                        Some(limit) => whole(source, limit, range).await,
                        None => source.clone().get_once(range).await,
                    }
                }
            };
            // Near ranges are joined: a gap below a round trip's worth of bytes is cheaper to read.
            object_store::coalesce_ranges(&ranges, read, COALESCE_GAP_BYTES).await
        }
        .boxed()
    }
}
