//! Listings of a server behind a gateway.
//!
//! S3 lists keys in byte order. Most servers do, and then one page of the gateway takes about one
//! page of the server. Some do not (Azure with a hierarchical namespace walks folder by folder, S3
//! directory buckets use no order), and resuming there after a key would silently skip others. So
//! the order is checked: each page requests two entries more than it returns, so that every pair of
//! neighbors is seen in one response. Once a server was out of order, its listings are read
//! completely and sorted here. Common prefixes do not reveal the order of the keys below them, so
//! `abfss://` is always read completely.

use std::sync::atomic::Ordering;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::client::{Upstream, failed, listed};
use crate::store::listing::{self, Cursor};
use crate::store::{ListPage, ListQuery, Listed, ObjectMeta, Result, Start, StoreError};

/// Zero-byte objects that are checked concurrently.
const MAX_CONCURRENT_HEADS: usize = 16;

impl Upstream {
    /// Lists one page.
    pub async fn page(&self, query: ListQuery) -> Result<ListPage> {
        if query.limit == 0 {
            return Ok(ListPage::default());
        }
        let paged = self.connection.paged.as_ref().filter(|_| !self.unsorted.load(Ordering::Relaxed));
        let page = match paged {
            Some(paged) => self.list_pages(&**paged, &query).await?,
            None => None,
        };
        match page {
            Some(page) => Ok(page),
            // Earlier pages of this listing may lack keys.
            None if paged.is_some() && query.start != Start::Beginning => Err(StoreError::Upstream),
            None => self.list_whole(&query).await,
        }
    }

    /// Requests pages of about the requested size; returns `None` if they are not sorted.
    async fn list_pages(&self, paged: &dyn PaginatedListStore, query: &ListQuery) -> Result<Option<ListPage>> {
        let prefix = format!("{}{}", self.prefix, text(&query.prefix)?);
        let delimiter = text(&query.delimiter)?;
        // The last Unicode character sorts after all others.
        let offset = match &query.start {
            Start::Beginning => None,
            Start::AfterKey(key) => Some(format!("{}{}", self.prefix, text(key)?)),
            Start::AfterPrefix(prefix) => Some(format!("{}{}\u{10FFFF}", self.prefix, text(prefix)?)),
        };
        let mut page = ListPage::default();
        let mut token = None;
        let mut last = String::new();
        loop {
            let options = PaginatedListOptions {
                offset: offset.clone(),
                delimiter: (!delimiter.is_empty()).then(|| delimiter.to_owned().into()),
                // Two entries more than needed: one shows whether there are more, the other whether
                // a page that holds only a folder marker continues.
                max_keys: Some((query.limit - page.entries.len() + 2).min(1000)),
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let answer = paged.list_paginated((!prefix.is_empty()).then_some(&*prefix), options);
            let answer = tokio::time::timeout(self.limits.upstream_wait, answer).await;
            let answer = answer.map_err(|_| StoreError::Upstream)?.map_err(|error| failed(error, &prefix))?;
            // Skips empty objects, which may be folder markers without their slash.
            for object in answer.result.objects.iter().filter(|object| object.size > 0) {
                let key = object.location.as_ref();
                if key < last.as_str() {
                    tracing::warn!(key, last, "the server behind the gateway lists in an order of its own");
                    self.unsorted.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                key.clone_into(&mut last);
            }
            let mut entries = self.entries(answer.result, &prefix, delimiter).await?;
            entries.retain(|entry| {
                offset.as_ref().is_none_or(|offset| self.full(entry.name()) > offset.as_bytes().to_vec())
            });
            for entry in entries {
                if page.entries.len() == query.limit {
                    page.next = page.entries.last().map(after);
                    return Ok(Some(page));
                }
                page.entries.push(entry);
            }
            token = answer.page_token;
            if token.is_none() {
                return Ok(Some(page));
            }
        }
    }

    fn full(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), key].concat()
    }

    /// The entries of a page in the order of their keys.
    async fn entries(&self, answer: object_store::ListResult, prefix: &str, delimiter: &str) -> Result<Vec<Listed>> {
        let ours = |full: &str| full.strip_prefix(&self.prefix).map(|key| key.as_bytes().to_vec());
        let commons = answer.common_prefixes.into_iter().filter_map(|common| {
            // `object_store` strips the trailing slash.
            let mut common = common.to_string();
            if !common.ends_with(delimiter) {
                common.push('/');
            }
            ours(&common).map(Listed::Prefix)
        });
        let mut entries: Vec<Listed> = commons.collect();
        let looks = answer.objects.into_iter().map(|object| self.listed(object, prefix));
        let objects: Vec<_> = stream::iter(looks).buffered(MAX_CONCURRENT_HEADS).try_collect().await?;
        entries.extend(objects.into_iter().filter_map(|(key, meta)| Some(Listed::Object(ours(&key)?, Box::new(meta)))));
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(entries)
    }

    /// The key of an entry. `object_store` strips the slash of a folder marker, and only a HEAD
    /// distinguishes the marker from an empty object of that name.
    async fn listed(&self, object: object_store::ObjectMeta, prefix: &str) -> Result<(String, ObjectMeta)> {
        let mut key = object.location.to_string();
        if object.size == 0 {
            let missing = match key.starts_with(prefix) {
                false => true,
                true => matches!(
                    self.connection.store.head(&object.location).await,
                    Err(object_store::Error::NotFound { .. })
                ),
            };
            if missing {
                key.push('/');
            }
        }
        Ok((key, listed(&object)))
    }

    /// Reads the whole listing of an unordered server, up to a bound, and sorts it.
    async fn list_whole(&self, query: &ListQuery) -> Result<ListPage> {
        let limit = self.limits.directory_entries;
        let full = format!("{}{}", self.prefix, text(&query.prefix)?);
        let folder = full.rsplit_once('/').and_then(|(folder, _)| Path::parse(folder).ok());
        let mut lines = self.connection.store.list(folder.as_ref());
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

/// A cursor over sorted keys in memory.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::executor::block_on;
    use object_store::list::PaginatedListResult;
    use url::Url;

    use super::*;
    use crate::{Gateway, Limits};

    /// Serves pages of keys in a given order; tokens and offsets are keys.
    struct InOrder(Vec<&'static str>);

    #[async_trait::async_trait]
    impl PaginatedListStore for InOrder {
        async fn list_paginated(
            &self,
            _prefix: Option<&str>,
            options: PaginatedListOptions,
        ) -> object_store::Result<PaginatedListResult> {
            let after = options.page_token.or(options.offset);
            let at = |after: String| self.0.iter().position(|key| **key == after).map_or(0, |at| at + 1);
            let rest = &self.0[after.map_or(0, at)..];
            let page = &rest[..rest.len().min(options.max_keys.unwrap_or(1000))];
            let meta = |key: &&str| object_store::ObjectMeta {
                location: Path::from(*key),
                last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
                size: 1,
                e_tag: None,
                version: None,
            };
            let result =
                object_store::ListResult { common_prefixes: Vec::new(), objects: page.iter().map(meta).collect() };
            let page_token = page.last().filter(|_| page.len() < rest.len()).map(|key| (*key).to_owned());
            Ok(PaginatedListResult { result, page_token })
        }
    }

    fn upstream(keys: &[&'static str]) -> Upstream {
        let mut upstream = Upstream::open(&Gateway::new(Url::parse("memory:///").unwrap()), Limits::default()).unwrap();
        for key in keys {
            block_on(upstream.connection.store.put(&Path::from(*key), "x".into())).unwrap();
        }
        upstream.connection.paged = Some(Arc::new(InOrder(keys.to_vec())));
        upstream
    }

    /// All keys, page by page, as a client requests them.
    fn walk(upstream: &Upstream, limit: usize) -> Result<Vec<String>> {
        let mut query = ListQuery { limit, ..ListQuery::default() };
        let mut names = Vec::new();
        loop {
            let page = block_on(upstream.page(query.clone()))?;
            names.extend(page.entries.iter().map(|entry| String::from_utf8_lossy(entry.name()).into_owned()));
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(names),
            }
        }
    }

    #[tokio::test]
    async fn no_key_is_lost_whatever_the_order() {
        let sorted = ["a-b", "a/b", "b", "c", "d", "e"];
        for limit in 1..8 {
            let upstream = upstream(&sorted);
            assert_eq!(walk(&upstream, limit).unwrap(), sorted);
            assert!(!upstream.unsorted.load(Ordering::Relaxed));
        }
        let orders = [
            ["a/b", "a-b", "b", "c", "d", "e"],
            ["a-b", "a/b", "b", "e", "d", "c"],
            ["e", "d", "c", "b", "a/b", "a-b"],
        ];
        for order in orders {
            for limit in 1..8 {
                let upstream = upstream(&order);
                // A listing in progress fails when this is noticed; the next one is complete.
                let first = walk(&upstream, limit);
                assert!(first.is_err() || first.is_ok_and(|names| names == sorted), "{order:?} by {limit}");
                assert_eq!(walk(&upstream, limit).unwrap(), sorted, "{order:?} by {limit}");
            }
        }
    }
}
