//! What exists already, served as one bucket: a folder ([`folder`]) or a bucket or web server ([`bucket`]).
//!
//! Reads are passed on. Writes are received, checked and put together in a spool ([`spool`]), which is a store of
//! our own, and then sent on whole: nothing that a client did not finish reaches what is behind.

mod beneath;
mod bucket;
mod connect;
mod folder;
mod list;
mod place;
mod read;
mod send;
mod spool;
mod walk;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use pushdown::Error;

use super::{
    Algorithm, Body, BucketMeta, BucketSettings, Completion, Condition, CopyRequest, Grant, ListPage, ListQuery,
    Object, ObjectMeta, PartRecord, PutOptions, Result, Staged, Store, StoreError, Tag, UploadKey, UploadPage,
    UploadQuery, UploadRecord,
};
use crate::{Gateway, Limits};
use spool::Spool;

/// What is behind a gateway: one bucket of someone else's.
#[async_trait]
trait Behind: fmt::Debug + Send + Sync + 'static {
    /// Its name here.
    fn name(&self) -> &str;
    /// Whether it is another server.
    fn is_distant(&self) -> bool;
    async fn bucket(&self) -> Result<BucketMeta>;
    async fn open(&self, key: &str) -> Result<Object>;
    async fn list(&self, query: ListQuery) -> Result<ListPage>;
    /// Whether there can be an object of this key.
    fn writable(&self, key: &str) -> Result<()>;
    /// Makes an object visible, whole or not at all; gives its ETag there.
    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String>;
    /// Removes a key; one that is not there is no error.
    async fn delete(&self, key: String, condition: Condition) -> Result<()>;
}

/// A gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct GatewayStore {
    behind: Arc<dyn Behind>,
    /// Unset, writes are refused.
    spool: Option<Arc<Spool>>,
}

impl GatewayStore {
    /// Connects to nothing yet. Blocks.
    pub fn open(gateway: &Gateway, limits: Limits) -> pushdown::Result<Self> {
        let url = &gateway.url;
        let behind: Arc<dyn Behind> = if url.scheme() == "file" {
            let dir = url
                .to_file_path()
                .map_err(|()| Error::invalid(format!("{url} names no folder of this machine; write file:///path")))?;
            Arc::new(folder::Folder::open(&dir, gateway.bucket.as_deref(), limits.clone())?)
        } else {
            Arc::new(bucket::Upstream::open(gateway, limits.clone())?)
        };
        if !s3s::path::check_bucket_name(behind.name()) {
            let message = format!("'{}' is no bucket name; choose one with --bucket", behind.name());
            return Err(Error::invalid(message));
        }
        let spool = match gateway.read_only {
            true => None,
            false => Some(Arc::new(Spool::open(gateway.spool.as_deref(), behind.name(), limits)?)),
        };
        tracing::info!(bucket = behind.name(), read_only = spool.is_none(), "a gateway");
        Ok(Self { behind, spool })
    }

    fn require(&self, bucket: &str) -> Result<()> {
        if bucket == self.behind.name() { Ok(()) } else { Err(StoreError::NoSuchBucket(bucket.to_owned())) }
    }

    fn spool(&self, bucket: &str) -> Result<&Arc<Spool>> {
        self.require(bucket)?;
        self.spool.as_ref().ok_or(StoreError::ReadOnly)
    }
}

#[async_trait]
impl Store for GatewayStore {
    fn is_distant(&self) -> bool {
        self.behind.is_distant()
    }

    async fn buckets(&self) -> Result<Vec<BucketMeta>> {
        Ok(vec![self.behind.bucket().await?])
    }

    async fn bucket(&self, bucket: &str) -> Result<BucketMeta> {
        self.require(bucket)?;
        self.behind.bucket().await
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta> {
        Ok(self.open(bucket, key).await?.meta)
    }

    async fn open(&self, bucket: &str, key: &str) -> Result<Object> {
        self.require(bucket)?;
        self.behind.open(key).await
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage> {
        self.require(bucket)?;
        self.behind.list(query).await
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

    async fn create_bucket(&self, bucket: &str, _settings: BucketSettings, _grant: Grant) -> Result<()> {
        match self.spool(bucket) {
            Ok(_) => Err(StoreError::BucketExists(bucket.to_owned())),
            Err(StoreError::NoSuchBucket(_)) if self.spool.is_some() => {
                Err(StoreError::Unsupported("a gateway has the one bucket that is behind it".to_owned()))
            }
            Err(_) => Err(StoreError::ReadOnly),
        }
    }

    async fn delete_bucket(&self, bucket: &str, _grant: Grant) -> Result<()> {
        self.spool(bucket)?;
        Err(StoreError::Unsupported("the bucket behind a gateway is not deleted through it".to_owned()))
    }

    async fn stage(&self, body: Body, checksum: Option<Algorithm>) -> Result<Staged> {
        self.spool(self.behind.name())?.store.stage(body, checksum).await
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: Grant,
    ) -> Result<ObjectMeta> {
        self.spool(bucket)?.put(&*self.behind, key, staged, options, &grant).await
    }

    /// The bytes come and go once: a server's own copy would not take other attributes.
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
        spool.put(&*self.behind, &request.key, staged, options, &grant).await
    }

    async fn delete(&self, bucket: &str, keys: Vec<(String, Condition)>, grant: Grant) -> Result<Vec<Result<()>>> {
        self.spool(bucket)?;
        grant.check_key()?;
        let deletions = keys.into_iter().map(|(key, condition)| self.behind.delete(key, condition));
        Ok(futures::stream::iter(deletions).buffered(8).collect().await)
    }

    async fn create_upload(&self, bucket: &str, key: &str, upload: UploadRecord, grant: Grant) -> Result<String> {
        let spool = self.spool(bucket)?;
        self.behind.writable(key)?;
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
        self.spool(&at.bucket)?.complete(&*self.behind, at, completion, &grant).await
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

/// A bucket's name made from that of a folder or a host: lower case, digits and dashes, 3 to 63 of them.
fn bucket_name(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.to_lowercase().chars().map(fit).take(63).collect();
    if s3s::path::check_bucket_name(&name) {
        return name;
    }
    let name = name.replace('.', "-");
    let name = name.trim_matches('-');
    if name.len() < 3 || name.starts_with("xn--") {
        format!("folder-{name}").trim_end_matches('-').to_owned()
    } else {
        name.to_owned()
    }
}
