//! Several stores as one for writing: the hash of an object's path decides which store gets it. The
//! path is the same in every store.
//!
//! Listings show the objects of all stores. An object that was there before may lie in any of them,
//! so reads try all stores, and deletions go to all.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// The stores.
#[derive(Clone, Debug)]
pub(super) struct DealtStores(pub(super) Vec<Arc<dyn ObjectStore>>);

impl DealtStores {
    /// Returns the store that a new object goes to.
    fn of(&self, path: &Path) -> Result<&Arc<dyn ObjectStore>> {
        let mut hasher = DefaultHasher::new();
        path.as_ref().hash(&mut hasher);
        // The remainder is below the number of stores, so it fits in `usize`.
        let place = (hasher.finish() % self.0.len().max(1) as u64) as usize;
        self.0.get(place).ok_or_else(|| failed("there is no store"))
    }
}

fn failed(what: &'static str) -> Error {
    Error::Generic { store: "several stores", source: what.into() }
}

/// Deletes an object in all stores. Succeeds even if none of them has it.
async fn delete_everywhere(stores: DealtStores, path: Path) -> Result<Path> {
    for store in &stores.0 {
        match store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}

impl fmt::Display for DealtStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stores", self.0.len())
    }
}

#[async_trait]
impl ObjectStore for DealtStores {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.of(location)?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.of(location)?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let home = self.of(location)?;
        let mut found = home.get_opts(location, options.clone()).await;
        for store in self.0.iter().filter(|store| !Arc::ptr_eq(store, home)) {
            if !matches!(found, Err(Error::NotFound { .. })) {
                break;
            }
            found = store.get_opts(location, options.clone()).await;
        }
        found
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let stores = self.clone();
        locations.and_then(move |location| delete_everywhere(stores.clone(), location)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let all: Vec<_> = self.0.iter().map(|store| store.list(prefix)).collect();
        stream::iter(all).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut all = ListResult { common_prefixes: vec![], objects: vec![] };
        for store in &self.0 {
            let found = store.list_with_delimiter(prefix).await?;
            all.common_prefixes.extend(found.common_prefixes);
            all.objects.extend(found.objects);
        }
        all.common_prefixes.sort_unstable();
        all.common_prefixes.dedup();
        Ok(all)
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(failed("objects are not copied from one store to another"))
    }
}
