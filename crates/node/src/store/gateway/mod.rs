//! A folder ([`folder`]), bucket or web server ([`upstream`]) that exists already, served as one
//! bucket.
//!
//! Reads are forwarded. Writes are received and verified in a spool ([`spool`]), which is a local
//! store, and then sent as a whole: no incomplete upload reaches the backend.

mod backend;
mod folder;
mod spool;
mod upstream;

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use pushdowndb_contract::Error;

use super::{
    Algorithm, Body, BucketMeta, BucketSettings, Completion, Condition, CopyRequest, Grant, ListPage, ListQuery,
    Object, ObjectMeta, PartRecord, PutOptions, Result, SettingsChange, Staged, Store, StoreError, Tag, UploadKey,
    UploadPage, UploadQuery, UploadRecord,
};
use crate::{Gateway, Limits};
use backend::Backend;
use folder::Folder;
use spool::Spool;
use upstream::Upstream;

/// A gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct GatewayStore {
    backend: Arc<dyn Backend>,
    /// The spool for writes; `None` if writes are refused.
    spool: Option<Arc<Spool>>,
}

impl GatewayStore {
    /// Opens a gateway, without connecting. Blocks.
    pub fn open(gateway: &Gateway, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let url = &gateway.url;
        let backend: Arc<dyn Backend> = if url.scheme() == "file" {
            let dir = url
                .to_file_path()
                .map_err(|()| Error::invalid(format!("{url} names no folder of this machine; write file:///path")))?;
            Arc::new(Folder::open(&dir, gateway.bucket.as_deref(), limits.clone())?)
        } else {
            Arc::new(Upstream::open(gateway, limits.clone())?)
        };
        if !s3s::path::check_bucket_name(backend.name()) {
            let message = format!("'{}' is no bucket name; choose one with --bucket", backend.name());
            return Err(Error::invalid(message));
        }
        let spool = match gateway.read_only {
            true => None,
            false => Some(Arc::new(Spool::open(gateway.spool.as_deref(), backend.name(), limits)?)),
        };
        tracing::info!(bucket = backend.name(), read_only = spool.is_none(), "a gateway");
        Ok(Self { backend, spool })
    }

    fn require(&self, bucket: &str) -> Result<()> {
        if bucket == self.backend.name() { Ok(()) } else { Err(StoreError::NoSuchBucket(bucket.to_owned())) }
    }

    fn spool(&self, bucket: &str) -> Result<&Arc<Spool>> {
        self.require(bucket)?;
        self.spool.as_ref().ok_or(StoreError::ReadOnly)
    }
}

#[async_trait]
impl Store for GatewayStore {
    fn is_remote(&self) -> bool {
        self.backend.is_remote()
    }

    async fn buckets(&self) -> Result<Vec<BucketMeta>> {
        Ok(vec![self.backend.bucket().await?])
    }

    async fn bucket(&self, bucket: &str) -> Result<BucketMeta> {
        self.require(bucket)?;
        self.backend.bucket().await
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta> {
        Ok(self.open(bucket, key).await?.meta)
    }

    async fn open(&self, bucket: &str, key: &str) -> Result<Object> {
        self.require(bucket)?;
        self.backend.open(key).await
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage> {
        self.require(bucket)?;
        self.backend.list(query).await
    }

    fn is_idle(&self) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.store.is_idle())
    }

    fn has_stopped(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.store.has_stopped())
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.spool.as_ref().map(|spool| spool.store.figures()).unwrap_or_default()
    }

    fn totals(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }

    async fn create_bucket(&self, bucket: &str, _settings: BucketSettings, _grant: Grant) -> Result<()> {
        match self.spool(bucket) {
            Ok(_) => Err(StoreError::BucketExists(bucket.to_owned())),
            Err(StoreError::NoSuchBucket(_)) if self.spool.is_some() => {
                Err(StoreError::Unsupported("a gateway has the one bucket that is behind it".to_owned()))
            }
            Err(_) => Err(StoreError::ReadOnly),
        }
    }

    async fn change_bucket(&self, _bucket: &str, _change: SettingsChange, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }

    async fn delete_bucket(&self, bucket: &str, _grant: Grant) -> Result<()> {
        self.spool(bucket)?;
        Err(StoreError::Unsupported("the bucket behind a gateway is not deleted through it".to_owned()))
    }

    async fn stage(&self, body: Body, checksum: Option<Algorithm>) -> Result<Staged> {
        self.spool(self.backend.name())?.store.stage(body, checksum).await
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: Grant,
    ) -> Result<ObjectMeta> {
        self.spool(bucket)?.put(&*self.backend, key, staged, options, &grant).await
    }

    /// Copies by reading and sending: a server-side copy would not accept new attributes.
    async fn copy(&self, request: CopyRequest, grant: Grant) -> Result<ObjectMeta> {
        let spool = self.spool(&request.bucket)?;
        let from = self.open(&request.from_bucket, &request.from_key).await?;
        if from.meta.etag != request.from_etag {
            return Err(StoreError::Changed(request.from_key));
        }
        let bytes = from.data.blocks(0..from.meta.size);
        let body = bytes.map(|block| block.map_err(StoreError::io("cannot read the source of a copy")));
        let staged = spool.store.stage(Box::pin(body), None).await?;
        let options = PutOptions {
            attributes: request.attributes.unwrap_or(from.meta.attributes),
            tags: request.tags.unwrap_or_default(),
            condition: request.condition,
            checksum: None,
        };
        spool.put(&*self.backend, &request.key, staged, options, &grant).await
    }

    async fn delete(&self, bucket: &str, keys: Vec<(String, Condition)>, grant: Grant) -> Result<Vec<Result<()>>> {
        self.spool(bucket)?;
        grant.check_key()?;
        let deletions = keys.into_iter().map(|(key, condition)| self.backend.delete(key, condition));
        Ok(futures::stream::iter(deletions).buffered(8).collect().await)
    }

    async fn create_upload(&self, bucket: &str, key: &str, upload: UploadRecord, grant: Grant) -> Result<String> {
        let spool = self.spool(bucket)?;
        self.backend.check_writable(key)?;
        grant.check_key()?;
        spool.store.create_upload(bucket, key, upload, grant.accounted()).await
    }

    async fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<UploadRecord> {
        self.spool(bucket)?.store.upload(bucket, key, id).await
    }

    async fn put_part(&self, at: UploadKey, number: u32, staged: Staged, grant: Grant) -> Result<PartRecord> {
        grant.check_key()?;
        self.spool(&at.bucket)?.store.put_part(at, number, staged, grant.accounted()).await
    }

    async fn parts(&self, at: UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        self.spool(&at.bucket)?.store.parts(at, after, limit).await
    }

    async fn complete(&self, at: UploadKey, completion: Completion, grant: Grant) -> Result<ObjectMeta> {
        self.spool(&at.bucket)?.complete(&*self.backend, at, completion, &grant).await
    }

    async fn abort(&self, at: UploadKey, grant: Grant) -> Result<()> {
        grant.check_key()?;
        self.spool(&at.bucket)?.store.abort(at, grant.accounted()).await
    }

    async fn uploads(&self, bucket: &str, query: UploadQuery) -> Result<UploadPage> {
        self.spool(bucket)?.store.uploads(bucket, query).await
    }

    async fn set_tags(&self, bucket: &str, _key: &str, _tags: Vec<Tag>, _grant: Grant) -> Result<()> {
        self.spool(bucket)?;
        Err(StoreError::Unsupported("tags are passed on with an upload only".to_owned()))
    }
}
