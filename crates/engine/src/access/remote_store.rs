//! An object store that checks each call against a policy.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use pushdowndb_contract::{Error, ErrorKind};

use super::rules::{Mode, StoreAccess};

/// A bucket or a web server whose calls are checked against the policy.
#[derive(Debug)]
pub(super) struct CheckedStore {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) access: StoreAccess,
}

impl CheckedStore {
    fn check(&self, mode: Mode, path: &Path) -> Result<()> {
        self.access.check(mode, path).map_err(to_object_store)
    }

    fn check_list(&self, prefix: Option<&Path>) -> Result<()> {
        self.check(Mode::Read, prefix.unwrap_or(&Path::default()))
    }
}

/// Wraps an error as one of `object_store`; [`crate::error::from_object_store`] unwraps it.
pub(super) fn to_object_store(error: Error) -> object_store::Error {
    match error.kind() {
        ErrorKind::NotFound => object_store::Error::NotFound { path: String::new(), source: Box::new(error) },
        _ => object_store::Error::Generic { store: "access policy", source: Box::new(error) },
    }
}

impl fmt::Display for CheckedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for CheckedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.check(Mode::Write, location)?;
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check(Mode::Write, location)?;
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(Mode::Read, location)?;
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(Mode::Read, location)?;
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let access = self.access.clone();
        let checked = locations.and_then(move |location| {
            std::future::ready(access.check(Mode::Write, &location).map_err(to_object_store).map(|()| location))
        });
        self.store.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check_list(prefix) {
            Ok(()) => self.store.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check_list(prefix) {
            Ok(()) => self.store.list_with_offset(prefix, offset),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check_list(prefix)?;
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.check(Mode::Read, from)?;
        self.check(Mode::Write, to)?;
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.check(Mode::Read, from)?;
        self.check(Mode::Write, from)?;
        self.check(Mode::Write, to)?;
        self.store.rename_opts(from, to, options).await
    }
}
