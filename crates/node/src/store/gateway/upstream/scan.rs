//! Reads of scans behind a gateway: in parts, several of which are in flight if the latency of the
//! server is high.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, try_join_all};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use pushdowndb_contract::{Error, Result};
use pushdowndb_http::reads::{MAX_PART_BYTES, RangeSource, ReadLimit, in_order, whole};
use pushdowndb_scan::{MemoryBudget, ObjectReader};
use tokio::task::JoinError;

use super::read::UpstreamObject;
use crate::store::RemoteObject;

/// Parts of a stream that are read ahead of the scan.
const PARTS_AHEAD: usize = 2;

/// The memory of a stream: the parts read ahead, and the one that is being scanned.
const STREAM_BYTES: usize = (PARTS_AHEAD + 1) * MAX_PART_BYTES as usize;

/// An object that is read by a scan, with the budget of the scan.
#[derive(Clone, Debug)]
pub(super) struct ScannedObject {
    pub object: UpstreamObject,
    pub memory: MemoryBudget,
}

impl ScannedObject {
    fn far(&self) -> Option<&Arc<ReadLimit>> {
        Some(&self.object.reads).filter(|reads| reads.is_far())
    }
}

impl RangeSource for UpstreamObject {
    type Error = Error;

    fn read(&self, range: Range<u64>) -> BoxFuture<'static, Result<Bytes>> {
        self.clone().read_whole(range).boxed()
    }

    fn ended(&self, cause: JoinError) -> Error {
        Error::internal(format!("{}: a read ended early", self.location())).with_source(cause)
    }
}

impl RemoteObject for UpstreamObject {
    fn for_scan(&self, memory: &MemoryBudget) -> Arc<dyn RemoteObject> {
        Arc::new(ScannedObject { object: self.clone(), memory: memory.clone() })
    }
}

impl RemoteObject for ScannedObject {
    fn for_scan(&self, memory: &MemoryBudget) -> Arc<dyn RemoteObject> {
        self.object.for_scan(memory)
    }
}

impl ObjectReader for ScannedObject {
    fn location(&self) -> &str {
        self.object.location()
    }

    fn size(&self) -> u64 {
        self.object.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        // Without memory for reading ahead, a stream waits for each response.
        let Some((limit, reserved)) = self.far().zip(self.memory.try_reserve(STREAM_BYTES).ok()) else {
            return self.object.stream(range);
        };
        let parts = in_order(self.object.clone(), Arc::clone(limit), range, PARTS_AHEAD);
        let held = move |part| {
            let _reserved = &reserved;
            part
        };
        parts.map_ok(held).boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let Some(limit) = self.far().cloned() else { return self.object.read_ranges(ranges) };
        // The scan has reserved memory for these ranges.
        let object = self.object.clone();
        async move { try_join_all(ranges.into_iter().map(|range| whole(&object, &limit, range))).await }.boxed()
    }
}
