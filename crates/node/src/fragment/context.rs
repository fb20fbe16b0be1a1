//! The context of a fragment request, and opening its objects.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use pushdowndb_contract::wire::Failure;
use pushdowndb_contract::{Error, ErrorKind, Result, Split};
use pushdowndb_scan::MemoryBudget;

use crate::Limits;
use crate::admission::Requester;
use crate::scans::{CpuAccount, ScanPermit, ScanScheduler};
use crate::store::{Grant, Object, Store, StoreError};
use crate::telemetry::{LiveCounters, RequestRecord};

/// The bytes of a response.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Bytes> + Send + Sync>>;

/// What a request needs to be answered.
pub(crate) struct RequestContext {
    pub objects: Objects,
    pub requester: Requester,
    pub limits: Limits,
    pub counting: Arc<LiveCounters>,
    pub scans: Arc<ScanScheduler>,
    pub record: Arc<RequestRecord>,
    pub permit: ScanPermit,
}

/// The bucket of a request, and the permission to read it.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub store: Arc<dyn Store>,
    pub bucket: String,
    /// Valid as long as the bucket is the one that was authorized.
    pub grant: Grant,
}

impl Objects {
    /// Opens the object of `split` if it still has the planned version, for a scan that draws from
    /// `memory`; reading it is charged to `account`.
    pub async fn open(&self, split: &Split, account: &CpuAccount, memory: &MemoryBudget) -> Result<Object> {
        let Self { store, bucket, grant } = self;
        let place = || format!("s3://{bucket}/{}", split.key);
        let object = store.open(bucket, &split.key).await.map_err(|error| of_store(error).context(place()))?;
        grant.confirm(&**store, bucket).await.map_err(|error| of_store(error).context(place()))?;
        let same = split.etag.as_ref().is_none_or(|etag| bare(etag) == object.meta.etag);
        if same && object.meta.size == split.size {
            return Ok(Object { data: object.data.for_scan(account.meter().clone(), memory), ..object });
        }
        Err(Error::new(ErrorKind::Conflict, format!("{}: the object was replaced", place())))
    }
}

/// Strips quotes and the weak prefix from an ETag.
fn bare(etag: &str) -> &str {
    let strong = etag.strip_prefix("W/").unwrap_or(etag);
    strong.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(strong)
}

/// Converts a store error; paths of the server go to the log only.
fn of_store(error: StoreError) -> Error {
    if matches!(error, StoreError::Corrupt(_) | StoreError::Io { .. } | StoreError::Index(_)) {
        tracing::error!(%error, "the store failed");
        return Error::new(ErrorKind::Unavailable, "the store failed; the node's log says why");
    }
    error.into()
}

/// Converts an error to a failure event.
pub(super) fn failure(error: &Error) -> Failure {
    if error.kind() == ErrorKind::Internal {
        tracing::error!(%error, "a fragment failed");
    }
    Failure { kind: error.kind(), message: crate::select::printable(&error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_compared_without_their_quotes() {
        assert_eq!(["\"a-1\"", "a-1", "W/\"a-1\""].map(bare), ["a-1"; 3]);
        assert_eq!(bare("\""), "\"");
    }
}
