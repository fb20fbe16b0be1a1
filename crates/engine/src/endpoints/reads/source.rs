//! GET requests for ranges of one version of an object, with retries.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_http::reads::RangeSource;
use tokio::task::JoinError;

use crate::endpoints::Retry;
use crate::error::from_object_store;
use crate::without_ranges;

/// One version of an object in a store.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    pub(crate) location: String,
    /// Sent as If-Match, and compared with the ETag of the answer.
    pub(crate) etag: Option<String>,
    pub(crate) retry: Retry,
    /// Timeout for a connection on which nothing arrives.
    pub(crate) idle_timeout: Duration,
}

impl Source {
    async fn open(&self, range: Range<u64>) -> Result<BoxStream<'static, object_store::Result<Bytes>>> {
        let options = GetOptions { if_match: self.etag.clone(), ..GetOptions::default() };
        let opened = without_ranges::get(self.store.as_ref(), &self.path, range, options);
        let opened = tokio::time::timeout(self.idle_timeout, opened).await;
        let (opened, cut) = opened.map_err(|_| self.silent())?.map_err(|e| self.failed(e))?;
        // A server that ignores If-Match answers with the present version.
        if let (Some(wanted), Some(sent)) = (&self.etag, &opened.meta.e_tag)
            && bare(wanted) != bare(sent)
        {
            return Err(self.replaced());
        }
        Ok(without_ranges::bytes((opened, cut)))
    }

    /// Reads `range` whole.
    pub(super) async fn get_once(self, range: Range<u64>) -> Result<Bytes> {
        let mut reading = self.reading(range.clone());
        let mut whole = bytes::BytesMut::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
        while let Some(piece) = reading.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Returns a read of `range` that yields pieces as they arrive.
    pub(super) fn reading(self, range: Range<u64>) -> Reading {
        Reading { source: self, at: range.start, end: range.end, body: None, failures: 0 }
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

impl RangeSource for Source {
    type Error = Error;

    fn read(&self, range: Range<u64>) -> BoxFuture<'static, Result<Bytes>> {
        self.clone().get_once(range).boxed()
    }

    fn ended(&self, cause: JoinError) -> Error {
        Error::internal(format!("{}: a read ended early", self.location)).with_source(cause)
    }
}

/// Returns an ETag without quotes and weakness mark, which listings and answers write differently.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

/// A read that continues where it was interrupted, so that a retry neither repeats a byte nor mixes
/// two versions.
pub(super) struct Reading {
    source: Source,
    at: u64,
    end: u64,
    body: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    failures: usize,
}

impl Reading {
    /// Returns the next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
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
