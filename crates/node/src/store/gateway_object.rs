//! An existing bucket or web server, served as one bucket through `object_store`.
//!
//! Reads are passed on as they come: HEAD, ranged GETs pinned to the ETag that was seen first, listings page by
//! page. Writes are received, checked and put together in a spool, which is a store of our own, and then sent on
//! whole ([`super::gateway_send`]): nothing that a client did not finish reaches the bucket behind.
//!
//! Keys are passed on as they are. Those that `object_store` cannot name are not served: with an empty, `.` or
//! `..` segment, a slash at either end, or control characters; zero-byte markers of folders, whose keys end
//! with a slash, are listed and not read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{Attribute, BackoffConfig, ClientOptions, GetOptions, GetResult, ObjectStore, RetryConfig};
use pushdown::Error;
use url::Url;

use super::gateway_read::UpstreamObject;
use super::gateway_send::Spool;
use super::{
    Algorithm, Attributes, Body, BucketMeta, BucketSettings, Completion, Condition, CopyRequest, ListPage, ListQuery,
    Object, ObjectData, ObjectMeta, PartRecord, PutOptions, Result, Staged, Store, StoreError, Tag, UploadKey,
    UploadPage, UploadQuery, UploadRecord,
};
use crate::{Gateway, Limits};

/// A bucket of someone else's. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ObjectGateway {
    pub(super) upstream: Arc<Upstream>,
    /// Unset, writes are refused.
    spool: Option<Arc<Spool>>,
}

/// What is behind a gateway.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub store: Arc<dyn ObjectStore>,
    /// The same, where it lists by pages.
    pub paged: Option<Paged>,
    /// Empty, or ending in a slash.
    pub prefix: String,
    pub bucket: String,
    pub limits: Limits,
}

/// A store that lists by pages.
#[derive(Clone)]
pub(crate) struct Paged(pub Arc<dyn PaginatedListStore>);

impl std::fmt::Debug for Paged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Paged")
    }
}

impl ObjectGateway {
    /// Connects to nothing yet. Blocks.
    pub fn open(gateway: &Gateway, limits: Limits) -> pushdown::Result<Self> {
        let upstream = upstream(gateway, limits)?;
        let spool = match gateway.read_only {
            true => None,
            false => Some(Arc::new(Spool::open(gateway.spool.as_deref(), &upstream)?)),
        };
        let upstream = Arc::new(upstream);
        tracing::info!(behind = %upstream.store, bucket = upstream.bucket, read_only = spool.is_none(), "a gateway");
        Ok(Self { upstream, spool })
    }

    fn spool(&self, bucket: &str) -> Result<&Arc<Spool>> {
        self.upstream.require(bucket)?;
        self.spool.as_ref().ok_or(StoreError::ReadOnly)
    }
}

fn upstream(gateway: &Gateway, limits: Limits) -> pushdown::Result<Upstream> {
    let url = &gateway.url;
    let refused = |error: object_store::Error| {
        Error::unsupported(format!("cannot serve {}", without_password(url))).with_source(error)
    };
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut path = url.path().trim_matches('/').to_owned();
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: limits.upstream_wait };
    let plain = gateway
        .endpoint
        .as_deref()
        .or(std::env::var("AWS_ENDPOINT_URL").ok().as_deref())
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    // How long an answer may take depends on who reads it; that it keeps coming is watched where it is read.
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(Duration::from_secs(5))
        .with_allow_http(plain || url.scheme() == "http");
    let (store, paged): (Arc<dyn ObjectStore>, _) = match url.scheme() {
        "s3" | "s3a" => {
            let mut builder =
                AmazonS3Builder::from_env().with_bucket_name(&host).with_client_options(client).with_retry(retry);
            if let Some(endpoint) = &gateway.endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            for (key, value) in &gateway.options {
                builder = builder.with_config(key.parse().map_err(refused)?, value);
            }
            let store = Arc::new(builder.build().map_err(refused)?);
            (Arc::clone(&store) as _, Some(Paged(store)))
        }
        "http" | "https" => {
            path = String::new();
            let mut builder = HttpBuilder::new().with_url(url.as_str()).with_client_options(client).with_retry(retry);
            for (key, value) in &gateway.options {
                builder = builder.with_config(key.parse().map_err(refused)?, value);
            }
            (Arc::new(builder.build().map_err(refused)?), None)
        }
        _ => {
            let (store, below) =
                object_store::parse_url_opts(url, gateway.options.iter().map(|(key, value)| (key, value.clone())))
                    .map_err(refused)?;
            path = below.to_string();
            (Arc::from(store), None)
        }
    };
    let bucket = gateway.bucket.clone().unwrap_or_else(|| super::gateway::bucket_name_of(&host));
    if !s3s::path::check_bucket_name(&bucket) {
        return Err(Error::invalid(format!("'{bucket}' is no bucket name; choose one with --bucket")));
    }
    let prefix = if path.is_empty() { path } else { format!("{path}/") };
    Ok(Upstream { store, paged, prefix, bucket, limits })
}

fn without_password(url: &Url) -> String {
    let mut url = url.clone();
    drop(url.set_password(None));
    url.to_string()
}

impl Upstream {
    pub fn require(&self, bucket: &str) -> Result<()> {
        if bucket == self.bucket { Ok(()) } else { Err(StoreError::NoSuchBucket(bucket.to_owned())) }
    }

    /// What a key is called behind the gateway, if it can be.
    pub fn path(&self, key: &str) -> Option<Path> {
        let full = format!("{}{key}", self.prefix);
        Path::parse(&full).ok().filter(|path| path.as_ref() == full && !key.is_empty())
    }

    /// The same for a read: what cannot be named is not there.
    pub fn path_to_read(&self, key: &str) -> Result<Path> {
        self.path(key).ok_or_else(|| StoreError::NoSuchKey(key.to_owned()))
    }

    pub async fn look(&self, bucket: &str, key: &str) -> Result<(ObjectMeta, UpstreamObject)> {
        self.require(bucket)?;
        let path = self.path_to_read(key)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let seen = self.store.get_opts(&path, options).await.map_err(|error| failed(error, key))?;
        let object = UpstreamObject::new(self, format!("s3://{bucket}/{key}"), path, &seen.meta);
        Ok((meta(&seen), object))
    }
}

/// What is known of an object.
fn meta(seen: &GetResult) -> ObjectMeta {
    let mut attributes = Attributes::default();
    for (name, value) in &seen.attributes {
        let value = Some(value.as_ref().to_owned());
        match name {
            Attribute::ContentType => attributes.content_type = value,
            Attribute::ContentEncoding => attributes.content_encoding = value,
            Attribute::ContentDisposition => attributes.content_disposition = value,
            Attribute::ContentLanguage => attributes.content_language = value,
            Attribute::CacheControl => attributes.cache_control = value,
            Attribute::Metadata(name) => drop(attributes.user.insert(name.to_string(), value.unwrap_or_default())),
            _ => {}
        }
    }
    ObjectMeta { attributes, ..listed(&seen.meta) }
}

/// What a listing says of an object.
pub(super) fn listed(seen: &object_store::ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        size: seen.size,
        etag: etag(seen),
        modified_ms: u64::try_from(seen.last_modified.timestamp_millis()).unwrap_or(0),
        ..ObjectMeta::default()
    }
}

/// The ETag as our clients see it: without quotes and weakness. A server that has none gets one from size and
/// time, with a dash as in ETags that are no digest.
pub(super) fn etag(seen: &object_store::ObjectMeta) -> String {
    match &seen.e_tag {
        Some(etag) => etag.trim_start_matches("W/").trim_matches('"').to_owned(),
        None => format!("{:x}-{:x}", seen.size, seen.last_modified.timestamp_millis()),
    }
}

/// What the server behind says, as a store says it. What it says of itself is for the log.
pub(super) fn failed(error: object_store::Error, key: &str) -> StoreError {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => StoreError::NoSuchKey(key.to_owned()),
        E::Precondition { .. } | E::NotModified { .. } => StoreError::Precondition("If-Match"),
        E::AlreadyExists { .. } => StoreError::Precondition("If-None-Match"),
        E::NotImplemented { .. } | E::NotSupported { .. } | E::InvalidPath { .. } => {
            tracing::warn!(%error, key, "the server behind the gateway cannot do this");
            StoreError::Unsupported("the server behind this gateway cannot do this".to_owned())
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
            tracing::warn!(%error, key, "the server behind the gateway refused");
            StoreError::UpstreamDenied
        }
        error => {
            tracing::warn!(%error, key, "the server behind the gateway failed");
            StoreError::Upstream
        }
    }
}

#[async_trait]
impl Store for ObjectGateway {
    async fn buckets(&self) -> Result<Vec<BucketMeta>> {
        Ok(vec![self.bucket(&self.upstream.bucket).await?])
    }

    async fn bucket(&self, bucket: &str) -> Result<BucketMeta> {
        self.upstream.require(bucket)?;
        // When it was made is not asked for.
        Ok(BucketMeta { name: bucket.to_owned(), ..BucketMeta::default() })
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta> {
        Ok(self.upstream.look(bucket, key).await?.0)
    }

    async fn open(&self, bucket: &str, key: &str) -> Result<Object> {
        let (meta, object) = self.upstream.look(bucket, key).await?;
        Ok(Object { meta, data: ObjectData::distant(Arc::new(object)) })
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage> {
        self.upstream.require(bucket)?;
        self.upstream.list(query).await
    }

    fn is_idle(&self) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.store.is_idle())
    }

    async fn create_bucket(&self, bucket: &str, _settings: BucketSettings) -> Result<()> {
        match self.spool(bucket) {
            Ok(_) => Err(StoreError::BucketExists(bucket.to_owned())),
            Err(StoreError::NoSuchBucket(_)) => {
                Err(StoreError::Unsupported("a gateway has the one bucket that is behind it".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.spool(bucket)?;
        Err(StoreError::Unsupported("the bucket behind a gateway is not deleted through it".to_owned()))
    }

    async fn stage(&self, body: Body, checksum: Option<Algorithm>) -> Result<Staged> {
        self.spool(&self.upstream.bucket)?.store.stage(body, checksum).await
    }

    async fn put(&self, bucket: &str, key: &str, staged: Staged, options: PutOptions) -> Result<ObjectMeta> {
        self.spool(bucket)?.put(&self.upstream, key, staged, options).await
    }

    /// The bytes come and go once: a server's own copy would not take other attributes.
    async fn copy(&self, request: CopyRequest) -> Result<ObjectMeta> {
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
        spool.put(&self.upstream, &request.key, staged, options).await
    }

    async fn delete(&self, bucket: &str, keys: Vec<(String, Condition)>) -> Result<Vec<Result<()>>> {
        self.spool(bucket)?;
        let deletions = keys.into_iter().map(|(key, condition)| self.upstream.delete(key, condition));
        Ok(futures::stream::iter(deletions).buffered(8).collect().await)
    }

    async fn create_upload(&self, bucket: &str, key: &str, upload: UploadRecord) -> Result<String> {
        let spool = self.spool(bucket)?;
        self.upstream.path_to_write(key)?;
        spool.store.create_upload(bucket, key, upload).await
    }

    async fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<UploadRecord> {
        self.spool(bucket)?.store.upload(bucket, key, id).await
    }

    async fn put_part(&self, at: UploadKey, number: u32, staged: Staged) -> Result<PartRecord> {
        self.spool(&at.bucket)?.store.put_part(at, number, staged).await
    }

    async fn parts(&self, at: UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        self.spool(&at.bucket)?.store.parts(at, after, limit).await
    }

    async fn complete(&self, at: UploadKey, completion: Completion) -> Result<ObjectMeta> {
        self.spool(&at.bucket)?.complete(&self.upstream, at, completion).await
    }

    async fn abort(&self, at: UploadKey) -> Result<()> {
        self.spool(&at.bucket)?.store.abort(at).await
    }

    async fn uploads(&self, bucket: &str, query: UploadQuery) -> Result<UploadPage> {
        self.spool(bucket)?.store.uploads(bucket, query).await
    }

    async fn set_tags(&self, bucket: &str, _key: &str, _tags: Vec<Tag>) -> Result<()> {
        self.spool(bucket)?;
        Err(StoreError::Unsupported("tags are passed on with an upload only".to_owned()))
    }
}

/// Why a read is refused by a server that pins versions.
pub(super) fn changed(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_named_are_not_there() {
        let gateway = Gateway { read_only: true, ..Gateway::new(Url::parse("memory:///below/here").unwrap()) };
        let gateway = Gateway { bucket: Some("things".into()), ..gateway };
        let gateway = ObjectGateway::open(&gateway, Limits::default()).unwrap();
        let path = |key: &str| gateway.upstream.path(key).map(|path| path.to_string());
        assert_eq!(path("a/b c%20+ü").as_deref(), Some("below/here/a/b c%20+ü"));
        for key in ["", "/", "a/", "/a", "a//b", ".", "..", "../x", "a/../../x", "a/./b", "a\0", "a\n"] {
            assert_eq!(path(key), None, "{key:?}");
        }
        assert!(
            super::super::gateway_read::pinned(&object_store::ObjectMeta {
                location: Path::ROOT,
                last_modified: Default::default(),
                size: 0,
                e_tag: Some("W/\"weak\"".into()),
                version: None,
            })
            .if_match
            .is_none()
        );
    }
}
