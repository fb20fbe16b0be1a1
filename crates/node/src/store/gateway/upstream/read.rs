//! Reads of objects on a server behind a gateway: ranged GETs of one version.
//!
//! Responses are verified, since some servers ignore conditions. A read fails if the response has
//! another version, size or range than expected, or a byte too few or too many.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_http::reads::ReadLimit;
use pushdowndb_scan::ObjectReader;

use super::client::{Upstream, changed};

/// Ranges of one object that are fetched concurrently.
const MAX_CONCURRENT_RANGES: usize = 4;

/// One version of an object.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamObject {
    store: Arc<dyn ObjectStore>,
    location: String,
    path: Path,
    seen: object_store::ObjectMeta,
    pin: GetOptions,
    max_silence: Duration,
    /// The latency of the server as measured by reads, and the limit on concurrent reads of scans.
    pub(super) reads: Arc<ReadLimit>,
}

/// Options that pin reads to a version: by its ETag, or by its time if the ETag is missing or weak.
pub(super) fn pinned(seen: &object_store::ObjectMeta) -> GetOptions {
    match strong(seen) {
        Some(etag) => GetOptions { if_match: Some(etag.to_owned()), ..GetOptions::default() },
        None => GetOptions { if_unmodified_since: Some(seen.last_modified), ..GetOptions::default() },
    }
}

/// The ETag, if there is one and it is strong.
fn strong(seen: &object_store::ObjectMeta) -> Option<&str> {
    seen.e_tag.as_deref().filter(|etag| !etag.starts_with("W/"))
}

impl UpstreamObject {
    pub fn new(upstream: &Upstream, location: String, path: Path, seen: &object_store::ObjectMeta) -> Self {
        let (store, max_silence) = (Arc::clone(&upstream.connection.store), upstream.limits.upstream_wait);
        let reads = Arc::clone(&upstream.reads);
        Self { store, location, path, seen: seen.clone(), pin: pinned(seen), max_silence, reads }
    }

    /// Whether reads are pinned by an ETag. A time is ambiguous, since it has a resolution of
    /// seconds.
    pub fn is_pinned(&self) -> bool {
        strong(&self.seen).is_some()
    }

    /// Whether a response is of the pinned version.
    fn is_same(&self, answer: &object_store::ObjectMeta) -> bool {
        let same_time = || answer.last_modified == self.seen.last_modified;
        answer.size == self.seen.size
            && match (&self.seen.e_tag, &answer.e_tag) {
                (Some(seen), Some(answered)) => seen == answered,
                (None, None) => same_time(),
                _ => false,
            }
    }

    async fn get(
        self,
        range: Range<u64>,
    ) -> pushdowndb_contract::Result<BoxStream<'static, pushdowndb_contract::Result<Bytes>>> {
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let wanted = range.end - range.start;
        let options = GetOptions { range: Some(range.clone().into()), ..self.pin.clone() };
        let asked = Instant::now();
        let answer = tokio::time::timeout(self.max_silence, self.store.get_opts(&self.path, options)).await;
        self.reads.answered(asked.elapsed());
        let answer = answer.map_err(|_| self.silent())?.map_err(|error| self.error(error))?;
        if !self.is_same(&answer.meta) {
            return Err(self.replaced());
        }
        if answer.range != range {
            return Err(self.unavailable("the answer is another range than was asked for"));
        }
        let blocks = answer.into_stream();
        let state = (self, blocks, wanted);
        Ok(stream::try_unfold(state, |(object, mut blocks, wanted)| async move {
            let block = tokio::time::timeout(object.max_silence, blocks.try_next()).await;
            match block.map_err(|_| object.silent())?.map_err(|error| object.error(error))? {
                Some(block) => match wanted.checked_sub(block.len() as u64) {
                    Some(left) => Ok(Some((block, (object, blocks, left)))),
                    None => Err(object.unavailable("the answer is longer than what was asked for")),
                },
                None if wanted > 0 => Err(object.unavailable("the answer ended early")),
                None => Ok(None),
            }
        })
        .boxed())
    }

    /// Reads `range` whole.
    pub(super) async fn read_whole(self, range: Range<u64>) -> pushdowndb_contract::Result<Bytes> {
        let blocks: Vec<Bytes> = self.get(range).await?.try_collect().await?;
        Ok(match <[Bytes; 1]>::try_from(blocks) {
            Ok([block]) => block,
            Err(blocks) => Bytes::from(blocks.concat()),
        })
    }

    fn silent(&self) -> Error {
        self.unavailable(&format!("no answer for {} s", self.max_silence.as_secs()))
    }

    fn unavailable(&self, what: &str) -> Error {
        tracing::warn!(object = self.location, what, "the server behind the gateway failed");
        Error::new(ErrorKind::Unavailable, format!("{}: the server behind the gateway failed", self.location))
    }

    fn error(&self, error: object_store::Error) -> Error {
        if changed(&error) {
            return self.replaced();
        }
        self.unavailable(&error.to_string())
    }

    fn replaced(&self) -> Error {
        Error::new(ErrorKind::Conflict, format!("{}: the object was replaced meanwhile", self.location))
    }
}

impl ObjectReader for UpstreamObject {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.seen.size
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, pushdowndb_contract::Result<Bytes>> {
        self.clone().get(range).try_flatten_stream().boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdowndb_contract::Result<Vec<Bytes>>> {
        let object = self.clone();
        let reads = ranges.into_iter().map(move |range| object.clone().read_whole(range));
        stream::iter(reads.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_RANGES).try_collect().boxed()
    }
}
