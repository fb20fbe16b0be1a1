//! Several stores as one object store, in which the number of a store precedes the keys of its
//! objects: `1/t/a.csv`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::catalog::stores::{number_and_key, numbered};

/// The stores, by number.
#[derive(Debug)]
pub(super) struct NumberedStores(pub(super) Vec<Arc<dyn ObjectStore>>);

impl NumberedStores {
    /// The number of the store of `path`, the store, and the key in it.
    fn of(&self, path: &Path) -> Result<(usize, &Arc<dyn ObjectStore>, Path)> {
        let found = number_and_key(path).and_then(|(number, key)| Some((number, self.0.get(number)?, key)));
        found.ok_or_else(|| failed(format!("'{path}' is in none of the table's {} stores", self.0.len())))
    }

    fn of_prefix(&self, prefix: Option<&Path>) -> Result<(usize, &Arc<dyn ObjectStore>, Option<Path>)> {
        let prefix = prefix.ok_or_else(|| failed("several stores are listed one by one"))?;
        let (number, store, key) = self.of(prefix)?;
        Ok((number, store, (!key.is_root()).then_some(key)))
    }
}

fn failed(what: impl Into<String>) -> Error {
    Error::Generic { store: "several stores", source: what.into().into() }
}

/// Returns the path, among several stores, of the object `key` in store number `store`.
fn path(store: usize, key: &Path) -> Result<Path> {
    numbered(store, key).map_err(|error| failed(error.to_string()))
}

fn outside(store: usize, meta: ObjectMeta) -> Result<ObjectMeta> {
    Ok(ObjectMeta { location: path(store, &meta.location)?, ..meta })
}

impl fmt::Display for NumberedStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stores", self.0.len())
    }
}

#[async_trait]
impl ObjectStore for NumberedStores {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (_, store, key) = self.of(location)?;
        store.put_opts(&key, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (_, store, key) = self.of(location)?;
        store.put_multipart_opts(&key, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (number, store, key) = self.of(location)?;
        let found = store.get_opts(&key, options).await?;
        Ok(GetResult { meta: outside(number, found.meta)?, ..found })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let all = Self(self.0.clone());
        locations
            .and_then(move |location| {
                let found = all.of(&location).map(|(_, store, key)| (Arc::clone(store), key));
                async move {
                    let (store, key) = found?;
                    store.delete(&key).await.map(|()| location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.of_prefix(prefix) {
            Ok((number, store, prefix)) => {
                let found = store.list(prefix.as_ref());
                found.and_then(move |meta| std::future::ready(outside(number, meta))).boxed()
            }
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (number, store, prefix) = self.of_prefix(prefix)?;
        let found = store.list_with_delimiter(prefix.as_ref()).await?;
        Ok(ListResult {
            common_prefixes: found.common_prefixes.iter().map(|key| path(number, key)).collect::<Result<_>>()?,
            objects: found.objects.into_iter().map(|meta| outside(number, meta)).collect::<Result<_>>()?,
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let ((number, store, from), (other, _, to)) = (self.of(from)?, self.of(to)?);
        if number != other {
            return Err(failed("objects are not copied from one store to another"));
        }
        store.copy_opts(&from, &to, options).await
    }
}
