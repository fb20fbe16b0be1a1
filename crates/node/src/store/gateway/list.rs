//! Listing a server behind a gateway.

use futures::{StreamExt, TryStreamExt, stream};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::bucket::{Paged, Upstream, failed, listed};
use crate::store::listing::{self, Cursor};
use crate::store::{ListPage, ListQuery, Listed, ObjectMeta, Result, Start, StoreError};

/// Zero-byte objects that are looked at at once.
const LOOKS_AT_ONCE: usize = 16;

impl Upstream {
    /// One page of a listing.
    pub async fn page(&self, query: ListQuery) -> Result<ListPage> {
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
