//! Writing into a folder. Its objects are listed before, and deleted after the write succeeded if
//! `overwrite` was given. A write that fails or is cancelled leaves the folder as it was.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

use super::existing::Existing;
use super::partitions;
use crate::catalog::{TableLocation, held};
use crate::context::QueryContext;
use crate::endpoints::writes::Writes;
use crate::error::{from_object_store, to_datafusion};

/// Maximum number of requests in flight that check objects before they are deleted.
const MAX_CONCURRENT_CHECKS: usize = 16;

/// Returns the objects of the format `extension` in the folder of `config`, to be deleted once the
/// new ones are written. Fails if there are any and neither `append` nor `overwrite` was given.
pub(super) async fn look(
    state: &dyn Session,
    config: &FileSinkConfig,
    extension: &str,
    existing: Existing,
) -> Result<Vec<ObjectMeta>> {
    if existing == Existing::Append {
        return Ok(vec![]);
    }
    let query = query(state.config().get_extension::<QueryContext>())?;
    let location = TableLocation::parse(&config.original_url, query.backends.access())?;
    let store = state.runtime_env().object_store(&config.object_store_url).map_err(crate::error::from_datafusion)?;
    let found = held(store.as_ref(), &location, extension).await.map_err(|error| match error.kind() {
        ErrorKind::Denied => error.context("COPY looks whether the folder holds objects, unless OPTIONS (append true)"),
        _ => error,
    })?;
    match (existing, found.first()) {
        (Existing::Refuse, Some(first)) => Err(Error::invalid(format!(
            "{location}: holds {} objects already, such as {}: say APPEND, or OPTIONS (append true), to write beside \
             them, and OVERWRITE, or OPTIONS (overwrite true), to replace them",
            found.len(),
            location.address(&first.location),
        ))),
        _ => Ok(found),
    }
}

fn query(context: Option<Arc<QueryContext>>) -> Result<Arc<QueryContext>> {
    context.ok_or_else(|| Error::internal("a write outside of a query"))
}

/// Writes objects into a folder.
pub(super) struct FolderSink {
    write: DataSinkExec,
    config: FileSinkConfig,
    /// The objects to delete at the end.
    before: Vec<ObjectMeta>,
}

impl FolderSink {
    /// Creates a sink that writes like `write` into the folder of `config`, then deletes the
    /// objects `before`.
    pub(super) fn new(write: DataSinkExec, config: FileSinkConfig, before: Vec<ObjectMeta>) -> Self {
        Self { write, config, before }
    }

    /// Deletes the objects that were there before, except those whose ETag changed since.
    async fn replace(&self, store: &dyn ObjectStore) -> Result<()> {
        // Boxed, or the compiler cannot see that the futures are Send for every lifetime in them.
        let unchanged: Vec<_> = self.before.iter().map(|old| unchanged(store, old).boxed()).collect();
        let deleted = async {
            let unchanged: Vec<Option<Path>> =
                stream::iter(unchanged).buffered(MAX_CONCURRENT_CHECKS).try_collect().await?;
            delete(store, unchanged.into_iter().flatten().collect()).await
        };
        deleted.await.map_err(|error| {
            from_object_store(error)
                .context("all rows are written, but not all objects that were there before are deleted")
        })
    }
}

/// Returns the path of an object, if the object did not change.
async fn unchanged(store: &dyn ObjectStore, old: &ObjectMeta) -> object_store::Result<Option<Path>> {
    match store.head(&old.location).await {
        Ok(now) => {
            let is_same = match (&now.e_tag, &old.e_tag) {
                (Some(now), Some(old)) => now == old,
                _ => now.size == old.size && now.last_modified == old.last_modified,
            };
            Ok(is_same.then_some(now.location))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn delete(store: &dyn ObjectStore, paths: Vec<Path>) -> object_store::Result<()> {
    store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed()).try_for_each(async |_| Ok(())).await
}

impl fmt::Debug for FolderSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderSink").field("before", &self.before.len()).finish_non_exhaustive()
    }
}

impl DisplayAs for FolderSink {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write.sink().fmt_as(how, f)
    }
}

#[async_trait]
impl DataSink for FolderSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> DfResult<u64> {
        let query = query(context.session_config().get_extension::<QueryContext>()).map_err(to_datafusion)?;
        let store = context.runtime_env().object_store(&self.config.object_store_url)?;
        let unfinished = Unfinished { store: Arc::clone(&store), writes: Some(query.writes.clone()) };
        let rows = partitions::with_null_named(rows, &self.config)?;
        match self.write.sink().write_all(rows, context).await {
            Ok(count) => {
                unfinished.keep();
                self.replace(store.as_ref()).await.map_err(to_datafusion)?;
                Ok(count)
            }
            Err(error) => {
                if let Err(left) = unfinished.undo().await {
                    let left =
                        format!("objects that were written before are left, for they could not be deleted: {left}");
                    return Err(error.context(left));
                }
                Err(error)
            }
        }
    }
}

/// The objects of a running write, which are deleted if it fails or is cancelled.
struct Unfinished {
    store: Arc<dyn ObjectStore>,
    writes: Option<Writes>,
}

impl Unfinished {
    fn keep(mut self) {
        self.writes = None;
    }

    async fn undo(mut self) -> object_store::Result<()> {
        match self.writes.take() {
            Some(writes) => delete(self.store.as_ref(), writes.finished()).await,
            None => Ok(()),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let (Some(writes), Ok(runtime)) = (self.writes.take(), Handle::try_current()) else { return };
        let store = Arc::clone(&self.store);
        drop(runtime.spawn(async move {
            if let Err(error) = delete(store.as_ref(), writes.finished()).await {
                tracing::debug!(%error, "objects of a write that was given up are left");
            }
        }));
    }
}
