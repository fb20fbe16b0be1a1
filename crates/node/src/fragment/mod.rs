//! The fragment route: a typed fragment over many splits, Arrow back (`docs/fragment-route.md`).
//!
//! A request is decoded and bound to what this node can run before anything is answered, so that what is wrong with
//! it is an error response. From then on the answer has begun: a split that fails says so in its own event, and only
//! an answer with its End event is complete.
//!
//! - [`Scanning`] takes the splits one by one, on the threads of scans;
//! - [`lookup`] finds their rows by the indexes that the request names;
//! - [`batches`] turns their rows into Arrow messages;
//! - [`stream`] merges them into one answer that says which split is complete;
//! - [`ranges`] answers with bytes as they are.

mod batches;
mod lookup;
mod ranges;
mod splits;
mod stream;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use pushdown::wire::{Failure, Request};
use pushdown::{Error, ErrorKind, Result, Split};
use pushdowndb_scan::Evaluator;

use crate::Limits;
use crate::admission::Requester;
use crate::counters::Counting;
use crate::record::RequestRecord;
use crate::scans::{Bill, Scans, Turn};
use crate::store::{Grant, Object, Store, StoreError};

use batches::BatchWriter;
use splits::Scanning;

/// The bytes of an answer.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Bytes> + Send + Sync>>;

/// What a request is answered with.
pub(crate) struct Desk {
    pub objects: Objects,
    pub requester: Requester,
    pub limits: Limits,
    pub counting: Arc<Counting>,
    pub scans: Arc<Scans>,
    pub record: Arc<RequestRecord>,
    pub turn: Turn,
}

/// The bucket that a request reads from, and the permission to.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub store: Arc<dyn Store>,
    pub bucket: String,
    /// Holds for as long as the bucket is the one that was authorised.
    pub grant: Grant,
}

/// Starts answering. The turn is given back when the answer ends or is dropped.
pub(crate) fn answer(request: Request, desk: Desk) -> Result<Body> {
    let longest = desk.limits.select_time;
    match request {
        Request::Fragment(request) => {
            let patience = if request.deadline == Duration::ZERO { longest } else { request.deadline.min(longest) };
            if let Some(predicate) = &request.fragment.predicate {
                Evaluator::predicate(predicate, &request.fragment.schema)?;
            }
            let writer = BatchWriter::new(&request)?;
            let desk = Desk { turn: desk.turn.within(patience), ..desk };
            let scanning = Scanning::new(*request, &desk)?;
            Ok(stream::start(desk, patience, move |out| stream::scan(out, scanning, writer)))
        }
        Request::Ranges(request) => Ok(stream::start(desk, longest, move |out| ranges::send(out, request))),
    }
}

impl Objects {
    /// Opens the object of a split, if it is still the one that was planned, to be read on the account of `bill`.
    async fn open(&self, split: &Split, bill: &Bill) -> Result<Object> {
        let Self { store, bucket, grant } = self;
        let place = || format!("s3://{bucket}/{}", split.key);
        let object = store.open(bucket, &split.key).await.map_err(|error| of_store(error).context(place()))?;
        grant.confirm(&**store, bucket).await.map_err(|error| of_store(error).context(place()))?;
        let same = split.etag.as_ref().is_none_or(|etag| bare(etag) == object.meta.etag);
        if same && object.meta.size == split.size {
            return Ok(Object { data: object.data.billed(bill.clone()), ..object });
        }
        Err(Error::new(ErrorKind::Conflict, format!("{}: the object was replaced", place())))
    }
}

/// An ETag as the store knows it.
fn bare(etag: &str) -> &str {
    let strong = etag.strip_prefix("W/").unwrap_or(etag);
    strong.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(strong)
}

/// What a store reports. Paths of the server are nobody's business but the log's.
fn of_store(error: StoreError) -> Error {
    if matches!(error, StoreError::Corrupt(_) | StoreError::Io { .. } | StoreError::Index(_)) {
        tracing::error!(%error, "the store failed");
        return Error::new(ErrorKind::Unavailable, "the store failed; the node's log says why");
    }
    error.into()
}

/// A failure as it is told to the peer.
fn failure(error: &Error) -> Failure {
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
