//! The stores of a query for DataFusion's own readers and writers (COPY), and the cleanup of
//! writes.
//!
//! A multipart upload that is neither completed nor aborted is in no listing, and costs money until
//! it is found. So an upload that is dropped, because the query failed or was cancelled, is
//! aborted.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::FutureExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::Error;
use pushdowndb_cost::Meter;
use tokio::runtime::Handle;
use url::Url;

use super::{Backends, query_meters};
use crate::error::{from_object_store_ref, to_datafusion};

/// Timeout for the cleanup of uploads, and the interval at which it is checked.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Counts the uploads that are neither completed nor aborted. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenUploads(Arc<AtomicUsize>);

impl OpenUploads {
    /// Waits until there are none, at most for [`SETTLE_TIMEOUT`]. The store expires those that are
    /// left.
    pub(crate) async fn settle(&self) {
        let since = Instant::now();
        while self.0.load(Relaxed) > 0 && since.elapsed() < SETTLE_TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Wraps a store. Uploads that are dropped are aborted; failures and complete objects are
    /// recorded in `writes`.
    pub(crate) fn watch(&self, store: Arc<dyn ObjectStore>, writes: &Writes) -> Arc<dyn ObjectStore> {
        Arc::new(Tidy { store, open: self.clone(), writes: writes.clone() })
    }
}

/// The writes of a query: the last failure, and the complete objects. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    failed: Option<Error>,
    finished: Vec<Path>,
}

impl Writes {
    /// Takes the last failure; `None` after that.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.written().failed.take()
    }

    /// Takes the paths of the objects that were written.
    pub(crate) fn finished(&self) -> Vec<Path> {
        std::mem::take(&mut self.written().finished)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock()
    }

    fn note<T>(&self, written: Result<T>) -> Result<T> {
        if let Err(error) = &written {
            self.written().failed = Some(from_object_store_ref(error));
        }
        written
    }

    fn note_whole(&self, written: Result<PutResult>, location: &Path) -> Result<PutResult> {
        let written = self.note(written)?;
        self.written().finished.push(location.clone());
        Ok(written)
    }
}

/// The stores of one query, as a registry for DataFusion.
#[derive(Debug)]
pub(crate) struct QueryStores {
    pub(crate) backends: Arc<Backends>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) uploads: OpenUploads,
    pub(crate) writes: Writes,
}

impl ObjectStoreRegistry for QueryStores {
    fn register_store(&self, _url: &Url, _store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> datafusion::common::Result<Arc<dyn ObjectStore>> {
        let store = self.backends.backend(url).and_then(|backend| backend.store(&query_meters(&self.meter)));
        store.map(|store| self.uploads.watch(store, &self.writes)).map_err(to_datafusion)
    }
}

#[derive(Debug)]
struct Tidy {
    store: Arc<dyn ObjectStore>,
    open: OpenUploads,
    writes: Writes,
}

impl fmt::Display for Tidy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Tidy {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.writes.note_whole(self.store.put_opts(location, payload, options).await, location)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (store, location) = (Arc::clone(&self.store), location.clone());
        let (open, writes) = (self.open.clone(), self.writes.clone());
        open.0.fetch_add(1, Relaxed);
        // Run on a task, so that the upload is counted until it ends, even if the caller stops
        // waiting before it has begun.
        let begun = tokio::spawn(async move {
            match writes.note(store.put_multipart_opts(&location, options).await) {
                Ok(upload) => Ok(TidyUpload { upload: Some(upload), location, open, writes }),
                Err(error) => {
                    open.0.fetch_sub(1, Relaxed);
                    Err(error)
                }
            }
        });
        let begun = begun.await.map_err(|error| object_store::Error::JoinError { source: error })?;
        begun.map(|upload| Box::new(upload) as Box<dyn MultipartUpload>)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

/// A multipart upload, which is aborted if it is dropped before it is completed or aborted.
#[derive(Debug)]
struct TidyUpload {
    upload: Option<Box<dyn MultipartUpload>>,
    location: Path,
    open: OpenUploads,
    writes: Writes,
}

fn over() -> object_store::Error {
    object_store::Error::Generic { store: "upload", source: "it was completed or aborted already".into() }
}

#[async_trait]
impl MultipartUpload for TidyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match &mut self.upload {
            Some(upload) => {
                let (part, writes) = (upload.put_part(data), self.writes.clone());
                async move { writes.note(part.await) }.boxed()
            }
            None => async { Err(over()) }.boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.upload.as_mut().ok_or_else(over)?.complete().await;
        let completed = self.writes.note_whole(completed, &self.location)?;
        self.upload = None;
        self.open.0.fetch_sub(1, Relaxed);
        Ok(completed)
    }

    async fn abort(&mut self) -> Result<()> {
        match self.upload.take() {
            Some(mut upload) => {
                let aborted = upload.abort().await;
                self.open.0.fetch_sub(1, Relaxed);
                aborted
            }
            None => Ok(()),
        }
    }
}

impl Drop for TidyUpload {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        let open = self.open.clone();
        let aborting = async move {
            if let Err(error) = upload.abort().await {
                tracing::debug!(%error, "an upload could not be aborted");
            }
            open.0.fetch_sub(1, Relaxed);
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(aborting)),
            Err(_) => drop(self.open.0.fetch_sub(1, Relaxed)),
        }
    }
}
