//! An object store that counts requests and bytes, in the same way for all contestants.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Maximum keys in a delete request and in a page of a LIST, as in S3.
const MAX_KEYS: usize = 1000;

/// Numbers of requests and bytes of a client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Requests {
    pub puts: u64,
    pub gets: u64,
    pub deletes: u64,
    pub lists: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
}

/// The counters behind [`Requests`].
#[derive(Debug, Default)]
struct Counters {
    puts: AtomicU64,
    gets: AtomicU64,
    deletes: AtomicU64,
    lists: AtomicU64,
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
}

/// The store `inner` with counters, which clones share. Retries are not counted.
#[derive(Clone, Debug)]
pub struct CountedStore {
    inner: Arc<dyn ObjectStore>,
    counters: Arc<Counters>,
}

impl CountedStore {
    /// Counts requests to `inner` from now on.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// The counts so far.
    pub fn requests(&self) -> Requests {
        let c = &*self.counters;
        Requests {
            puts: c.puts.load(Relaxed),
            gets: c.gets.load(Relaxed),
            deletes: c.deletes.load(Relaxed),
            lists: c.lists.load(Relaxed),
            written_bytes: c.written_bytes.load(Relaxed),
            read_bytes: c.read_bytes.load(Relaxed),
        }
    }
}

impl fmt::Display for CountedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (counted)", self.inner)
    }
}

#[async_trait]
impl ObjectStore for CountedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.counters.puts.fetch_add(1, Relaxed);
        self.counters.written_bytes.fetch_add(payload.content_length() as u64, Relaxed);
        self.inner.put_opts(location, payload, options).await
    }

    /// Always fails: no contestant uses multipart uploads, and their parts would not be counted.
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let operation = "an upload in parts".to_owned();
        Err(Error::NotImplemented { operation, implementer: self.to_string() })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.counters.gets.fetch_add(1, Relaxed);
        let has_content = !options.head;
        let result = self.inner.get_opts(location, options).await?;
        if has_content {
            self.counters.read_bytes.fetch_add(result.range.end - result.range.start, Relaxed);
        }
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let counters = Arc::clone(&self.counters);
        let counted = locations.enumerate().map(move |(index, location)| {
            if index % MAX_KEYS == 0 {
                counters.deletes.fetch_add(1, Relaxed);
            }
            location
        });
        self.inner.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counters.lists.fetch_add(1, Relaxed);
        let counters = Arc::clone(&self.counters);
        let counted = self.inner.list(prefix).enumerate().map(move |(index, object)| {
            if index > 0 && index % MAX_KEYS == 0 {
                counters.lists.fetch_add(1, Relaxed);
            }
            object
        });
        counted.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.counters.lists.fetch_add(1, Relaxed);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.counters.puts.fetch_add(1, Relaxed);
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use futures::{TryStreamExt, stream};
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_as_s3_does() {
        let store = CountedStore::new(Arc::new(InMemory::new()));
        let keys: Vec<Path> = (0..1001).map(|number| Path::from(format!("a/{number}"))).collect();
        for key in &keys {
            store.put(key, "four".into()).await.unwrap();
        }
        store.get(&keys[0]).await.unwrap().bytes().await.unwrap();
        store.get_range(&keys[0], 1..3).await.unwrap();
        store.head(&keys[0]).await.unwrap();
        assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 1001);
        let deleted = store.delete_stream(stream::iter(keys.into_iter().map(Ok)).boxed());
        assert_eq!(deleted.try_collect::<Vec<_>>().await.unwrap().len(), 1001);
        assert_eq!(store.list(None).count().await, 0);
        let expected = Requests { puts: 1001, gets: 3, deletes: 2, lists: 3, written_bytes: 4004, read_bytes: 6 };
        assert_eq!(store.requests(), expected);
    }
}
