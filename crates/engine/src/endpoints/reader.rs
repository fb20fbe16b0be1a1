//! Plain reads: an object of any store as `scan` reads it, pinned to the ETag it had at planning.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_scan::ObjectReader;

use super::Retry;
use crate::error::from_object_store;

/// One object of a store. An interrupted read continues where it stopped, with If-Match, so that a
/// retry neither repeats a byte nor mixes two versions.
#[derive(Debug)]
pub(crate) struct StoreReader {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    pub(crate) location: String,
    pub(crate) size: u64,
    pub(crate) etag: Option<String>,
    pub(crate) retry: Retry,
    pub(crate) idle_timeout: Duration,
}

impl StoreReader {
    fn source(&self) -> Source {
        Source {
            store: Arc::clone(&self.store),
            path: self.path.clone(),
            location: self.location.clone(),
            etag: self.etag.clone(),
            retry: self.retry,
            idle_timeout: self.idle_timeout,
        }
    }
}

impl ObjectReader for StoreReader {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        if range.is_empty() {
            return stream::empty().boxed();
        }
        let state = Reading { source: self.source(), at: range.start, end: range.end, body: None, failures: 0 };
        stream::try_unfold(state, |mut state| async move { Ok(state.next().await?.map(|bytes| (bytes, state))) })
            .boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let source = self.source();
        async move {
            // Joins near ranges: a gap below a round trip's worth of bytes is cheaper to read.
            object_store::coalesce_ranges(&ranges, |range| source.get_once(range), COALESCE_GAP_BYTES).await
        }
        .boxed()
    }
}

/// The largest gap that is read rather than skipped: at 1 Gb/s and 8 ms, a round trip costs as
/// much.
pub(crate) const COALESCE_GAP_BYTES: u64 = 1024 * 1024;

#[derive(Clone, Debug)]
struct Source {
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: String,
    etag: Option<String>,
    retry: Retry,
    idle_timeout: Duration,
}

impl Source {
    async fn open(&self, range: Range<u64>) -> Result<BoxStream<'static, object_store::Result<Bytes>>> {
        let options =
            GetOptions { range: Some(GetRange::Bounded(range)), if_match: self.etag.clone(), ..GetOptions::default() };
        let opened = tokio::time::timeout(self.idle_timeout, self.store.get_opts(&self.path, options)).await;
        let opened = opened.map_err(|_| self.silent())?.map_err(|e| self.failed(e))?;
        // A server that ignores If-Match answers with the present version.
        if let (Some(wanted), Some(sent)) = (&self.etag, &opened.meta.e_tag)
            && bare(wanted) != bare(sent)
        {
            return Err(self.replaced());
        }
        Ok(opened.into_stream())
    }

    async fn get_once(&self, range: Range<u64>) -> Result<Bytes> {
        let mut reading = Reading { source: self.clone(), at: range.start, end: range.end, body: None, failures: 0 };
        let mut whole = bytes::BytesMut::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
        while let Some(piece) = reading.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    fn silent(&self) -> Error {
        let seconds = self.idle_timeout.as_secs();
        Error::new(ErrorKind::Unavailable, format!("{}: no answer for {seconds} s", self.location))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        let error = from_object_store(error);
        if error.kind() == ErrorKind::Conflict {
            return self.replaced();
        }
        error.context(&self.location)
    }

    fn replaced(&self) -> Error {
        let message = format!("{} was replaced while the query ran; run the query again", self.location);
        Error::new(ErrorKind::Conflict, message)
    }
}

/// An ETag without quotes and weakness, which listings and answers write differently.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

struct Reading {
    source: Source,
    at: u64,
    end: u64,
    body: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    failures: usize,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.at >= self.end {
                return Ok(None);
            }
            match self.piece().await {
                Ok(piece) => {
                    self.at += piece.len() as u64;
                    self.failures = 0;
                    return Ok(Some(piece));
                }
                Err(error) => {
                    self.body = None;
                    self.failures += 1;
                    self.source.retry.pause(self.failures, error).await?;
                }
            }
        }
    }

    async fn piece(&mut self) -> Result<Bytes> {
        if self.body.is_none() {
            self.body = Some(self.source.open(self.at..self.end).await?);
        }
        let Some(body) = self.body.as_mut() else { return Err(Error::internal("a body that was just opened")) };
        match tokio::time::timeout(self.source.idle_timeout, body.next()).await {
            Err(_) => Err(self.source.silent()),
            Ok(Some(Ok(piece))) if self.at + piece.len() as u64 > self.end => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: the body goes on behind byte {}", self.source.location, self.end),
            )),
            Ok(Some(piece)) => piece.map_err(|e| self.source.failed(e)),
            Ok(None) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{}: the body ended at byte {} of {}", self.source.location, self.at, self.end),
            )),
        }
    }
}
