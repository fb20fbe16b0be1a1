//! An object store that counts requests and fails on demand.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// An object store that counts requests, and works unless a test makes it fail.
#[derive(Debug)]
pub(super) struct TestStore {
    pub inner: Arc<dyn ObjectStore>,
    pub puts: AtomicU64,
    pub gets: AtomicU64,
    pub lists: AtomicU64,
    pub deletes: AtomicU64,
    /// Keys in the order in which they were put.
    pub put_keys: Mutex<Vec<String>>,
    pub deleted_keys: Mutex<Vec<String>>,
    /// Puts of keys with this suffix are refused.
    pub refused: Mutex<Option<&'static str>>,
    pub refuses_deletes: AtomicBool,
    /// A semaphore that puts of parts wait for.
    pub gate: Semaphore,
    /// The number of puts in flight, and its maximum.
    under_way: AtomicUsize,
    pub most_under_way: AtomicUsize,
}

impl TestStore {
    pub(super) fn new() -> Arc<Self> {
        Self::over(Arc::new(InMemory::new()))
    }

    pub(super) fn over(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            put_keys: Mutex::default(),
            deleted_keys: Mutex::default(),
            refused: Mutex::default(),
            refuses_deletes: AtomicBool::new(false),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
        })
    }

    /// Blocks puts of parts until [`open`](Self::open) is called.
    pub(super) fn close(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(super) fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    /// Returns the number of puts, gets, lists and deletions so far.
    pub(super) fn requests(&self) -> [u64; 4] {
        [&self.puts, &self.gets, &self.lists, &self.deletes].map(|count| count.load(SeqCst))
    }
}

fn refused() -> Error {
    Error::Generic { store: "test", source: "the store refuses".into() }
}

impl fmt::Display for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for TestStore {
    async fn put_opts(&self, key: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.puts.fetch_add(1, SeqCst);
        self.put_keys.lock().push(key.to_string());
        if self.refused.lock().is_some_and(|ending| key.as_ref().ends_with(ending)) {
            return Err(refused());
        }
        let under_way = self.under_way.fetch_add(1, SeqCst) + 1;
        self.most_under_way.fetch_max(under_way, SeqCst);
        if !key.as_ref().ends_with(".meta") {
            drop(self.gate.acquire().await.unwrap());
        }
        let result = self.inner.put_opts(key, payload, options).await;
        self.under_way.fetch_sub(1, SeqCst);
        result
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        panic!("parts are put whole")
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, SeqCst);
        self.inner.get_opts(key, options).await
    }

    async fn get_ranges(&self, _: &Path, _: &[Range<u64>]) -> Result<Vec<Bytes>> {
        panic!("parts are got whole")
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.deletes.fetch_add(1, SeqCst);
        if self.refuses_deletes.load(SeqCst) {
            return futures::stream::iter([Err(refused())]).boxed();
        }
        // Real stores also collect the keys before they send a request.
        let keys = futures::executor::block_on(keys.try_collect::<Vec<_>>()).unwrap();
        assert!(keys.len() <= 1000);
        self.deleted_keys.lock().extend(keys.iter().map(Path::to_string));
        self.inner.delete_stream(futures::stream::iter(keys.into_iter().map(Ok)).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.lists.fetch_add(1, SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied")
    }
}
