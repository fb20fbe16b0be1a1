//! Reading objects behind a gateway: ranged GETs of the version that was seen first, and listings.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use pushdown::{Error, ErrorKind};
use pushdowndb_scan::ObjectReader;

use super::gateway_object::{Paged, Upstream, changed, failed, listed};
use super::listing::Cursor;
use super::{ListPage, ListQuery, Listed, ObjectMeta, Result, Start, StoreError, listing};

/// Ranges of one object that are fetched at once.
const RANGES_AT_ONCE: usize = 4;
/// Zero-byte objects that are looked at at once.
const LOOKS_AT_ONCE: usize = 16;

/// One version of an object.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamObject {
    store: Arc<dyn ObjectStore>,
    location: String,
    path: Path,
    size: u64,
    pin: GetOptions,
    patience: Duration,
}

/// What holds reads to the version that was seen: its ETag, or its time where the ETag is missing or weak.
pub(super) fn pinned(seen: &object_store::ObjectMeta) -> GetOptions {
    let strong = seen.e_tag.clone().filter(|etag| !etag.starts_with("W/"));
    match strong {
        Some(etag) => GetOptions { if_match: Some(etag), ..GetOptions::default() },
        None => GetOptions { if_unmodified_since: Some(seen.last_modified), ..GetOptions::default() },
    }
}

impl UpstreamObject {
    pub fn new(upstream: &Upstream, location: String, path: Path, seen: &object_store::ObjectMeta) -> Self {
        let (store, patience) = (Arc::clone(&upstream.store), upstream.limits.upstream_wait);
        Self { store, location, path, size: seen.size, pin: pinned(seen), patience }
    }

    async fn get(self, range: Range<u64>) -> pushdown::Result<BoxStream<'static, pushdown::Result<Bytes>>> {
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let wanted = range.end - range.start;
        let options = GetOptions { range: Some(range.into()), ..self.pin.clone() };
        let answer = tokio::time::timeout(self.patience, self.store.get_opts(&self.path, options)).await;
        let answer = answer.map_err(|_| self.silent())?.map_err(|error| self.error(error))?;
        let blocks = answer.into_stream();
        // A server that sends less than it promised is not believed to have ended well.
        let state = (self, blocks, wanted);
        Ok(stream::try_unfold(state, |(object, mut blocks, wanted)| async move {
            let block = tokio::time::timeout(object.patience, blocks.try_next()).await;
            match block.map_err(|_| object.silent())?.map_err(|error| object.error(error))? {
                Some(block) => {
                    let left = wanted.saturating_sub(block.len() as u64);
                    Ok(Some((block, (object, blocks, left))))
                }
                None if wanted > 0 => Err(object.unavailable("the answer ended early")),
                None => Ok(None),
            }
        })
        .boxed())
    }

    fn silent(&self) -> Error {
        self.unavailable(&format!("no answer for {} s", self.patience.as_secs()))
    }

    fn unavailable(&self, what: &str) -> Error {
        tracing::warn!(object = self.location, what, "the server behind the gateway failed");
        Error::new(ErrorKind::Unavailable, format!("{}: the server behind the gateway failed", self.location))
    }

    fn error(&self, error: object_store::Error) -> Error {
        if changed(&error) {
            return Error::new(ErrorKind::Conflict, format!("{}: the object was replaced meanwhile", self.location));
        }
        self.unavailable(&error.to_string())
    }
}

impl ObjectReader for UpstreamObject {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, pushdown::Result<Bytes>> {
        self.clone().get(range).try_flatten_stream().boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdown::Result<Vec<Bytes>>> {
        let object = self.clone();
        let reads = ranges.into_iter().map(move |range| {
            let object = object.clone();
            async move {
                let blocks: Vec<Bytes> = object.get(range).await?.try_collect().await?;
                Ok(match <[Bytes; 1]>::try_from(blocks) {
                    Ok([block]) => block,
                    Err(blocks) => Bytes::from(blocks.concat()),
                })
            }
        });
        stream::iter(reads.collect::<Vec<_>>()).buffered(RANGES_AT_ONCE).try_collect().boxed()
    }
}

impl Upstream {
    /// One page of a listing.
    pub async fn list(&self, query: ListQuery) -> Result<ListPage> {
        if query.limit == 0 {
            return Ok(ListPage::default());
        }
        match &self.paged {
            Some(paged) => self.list_pages(paged, &query).await,
            None => self.list_whole(&query).await,
        }
    }

    /// Asks for one page of about the size that is wanted.
    async fn list_pages(&self, paged: &Paged, query: &ListQuery) -> Result<ListPage> {
        let prefix = format!("{}{}", self.prefix, text(&query.prefix)?);
        let delimiter = text(&query.delimiter)?;
        // Nothing sorts after the last character there is.
        let offset = match &query.start {
            Start::Beginning => None,
            Start::AfterKey(key) => Some(format!("{}{}", self.prefix, text(key)?)),
            Start::AfterPrefix(prefix) => Some(format!("{}{}\u{10FFFF}", self.prefix, text(prefix)?)),
        };
        let mut page = ListPage::default();
        let mut token = None;
        loop {
            let options = PaginatedListOptions {
                offset: offset.clone(),
                delimiter: (!delimiter.is_empty()).then(|| delimiter.to_owned().into()),
                // One more shows that there is more; another, that a page of nothing but a marker goes on.
                max_keys: Some((query.limit - page.entries.len() + 2).min(1000)),
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let answer = paged.0.list_paginated((!prefix.is_empty()).then_some(&*prefix), options);
            let answer = tokio::time::timeout(self.limits.upstream_wait, answer).await;
            let answer = answer.map_err(|_| StoreError::Upstream)?.map_err(|error| failed(error, &prefix))?;
            let mut entries = self.entries(answer.result, &prefix, delimiter).await?;
            entries.retain(|entry| {
                offset.as_ref().is_none_or(|offset| self.full(entry.name()) > offset.as_bytes().to_vec())
            });
            for entry in entries {
                if page.entries.len() == query.limit {
                    page.next = page.entries.last().map(after);
                    return Ok(page);
                }
                page.entries.push(entry);
            }
            token = answer.page_token;
            if token.is_none() {
                return Ok(page);
            }
        }
    }

    fn full(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), key].concat()
    }

    /// The lines of a page in the order of their keys.
    async fn entries(&self, answer: object_store::ListResult, prefix: &str, delimiter: &str) -> Result<Vec<Listed>> {
        let ours = |full: &str| full.strip_prefix(&self.prefix).map(|key| key.as_bytes().to_vec());
        let commons = answer.common_prefixes.into_iter().filter_map(|common| {
            // A slash at the end is lost on the way.
            let mut common = common.to_string();
            if !common.ends_with(delimiter) {
                common.push('/');
            }
            ours(&common).map(Listed::Prefix)
        });
        let mut entries: Vec<Listed> = commons.collect();
        let looks = answer.objects.into_iter().map(|object| self.listed(object, prefix));
        let objects: Vec<_> = stream::iter(looks).buffered(LOOKS_AT_ONCE).try_collect().await?;
        entries.extend(objects.into_iter().filter_map(|(key, meta)| Some(Listed::Object(ours(&key)?, Box::new(meta)))));
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(entries)
    }

    /// A line of a listing under its own name: the marker of a folder has lost its slash on the way, and only
    /// a look tells it from an empty object of that name.
    async fn listed(&self, object: object_store::ObjectMeta, prefix: &str) -> Result<(String, ObjectMeta)> {
        let mut key = object.location.to_string();
        if object.size == 0 {
            let missing = match key.starts_with(prefix) {
                false => true,
                true => matches!(self.store.head(&object.location).await, Err(object_store::Error::NotFound { .. })),
            };
            if missing {
                key.push('/');
            }
        }
        Ok((key, listed(&object)))
    }

    /// For servers that list a folder at once, in no certain order: a bounded number of keys, sorted here.
    async fn list_whole(&self, query: &ListQuery) -> Result<ListPage> {
        let limit = self.limits.directory_entries;
        let full = format!("{}{}", self.prefix, text(&query.prefix)?);
        let folder = full.rsplit_once('/').and_then(|(folder, _)| Path::parse(folder).ok());
        let mut lines = self.store.list(folder.as_ref());
        let mut keys = Vec::new();
        while let Some(object) = tokio::time::timeout(self.limits.upstream_wait, lines.try_next())
            .await
            .map_err(|_| StoreError::Upstream)?
            .map_err(|error| failed(error, &full))?
        {
            let Some(key) = object.location.as_ref().strip_prefix(&self.prefix) else { continue };
            if keys.len() == limit {
                return Err(StoreError::TooMany { what: "keys to sort", limit });
            }
            keys.push((key.as_bytes().to_vec(), listed(&object)));
        }
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        listing::list(&mut Sorted { keys, at: 0 }, query)
    }
}

impl Listed {
    fn name(&self) -> &[u8] {
        match self {
            Self::Object(key, _) => key,
            Self::Prefix(prefix) => prefix,
        }
    }
}

fn after(last: &Listed) -> Start {
    match last {
        Listed::Object(key, _) => Start::AfterKey(key.clone()),
        Listed::Prefix(prefix) => Start::AfterPrefix(prefix.clone()),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| StoreError::InvalidRequest("keys are UTF-8".to_owned()))
}

/// Keys that are in memory.
struct Sorted {
    keys: Vec<(Vec<u8>, ObjectMeta)>,
    at: usize,
}

impl Cursor for Sorted {
    fn seek(&mut self, at: &[u8]) -> Result<()> {
        self.at = self.keys.partition_point(|(key, _)| key.as_slice() < at);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
        self.at += 1;
        Ok(self.keys.get(self.at - 1).cloned())
    }
}
