//! A bucket or web server behind a gateway, through `object_store`.
//!
//! Keys are passed on as they are. Those that `object_store` cannot name are not served: with an empty, `.` or
//! `..` segment, a slash at either end, or control characters; zero-byte markers of folders, whose keys end
//! with a slash, are listed and not read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{Attribute, GetOptions, GetResult, ObjectStore};

use super::Behind;
use super::connect::{Connection, Service, connect};
use super::read::UpstreamObject;
use crate::store::{
    Attributes, BucketMeta, Condition, ListPage, ListQuery, Object, ObjectData, ObjectMeta, PutOptions, Result,
    StoreError,
};
use crate::{Gateway, Limits};

/// What is behind a gateway.
pub(crate) struct Upstream {
    pub service: Service,
    pub store: Arc<dyn ObjectStore>,
    /// The same, where it lists by pages.
    pub paged: Option<Arc<dyn PaginatedListStore>>,
    /// Set once its listing was seen out of order.
    pub unsorted: AtomicBool,
    /// Empty, or ending in a slash.
    pub prefix: String,
    pub bucket: String,
    pub limits: Limits,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("service", &self.service).field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Connects to nothing yet. Blocks.
    pub fn open(gateway: &Gateway, limits: Limits) -> pushdown::Result<Self> {
        let Connection { service, store, paged, unsorted, name, mut prefix } = connect(gateway, &limits)?;
        let bucket = gateway.bucket.clone().unwrap_or_else(|| super::bucket_name(&name));
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self { service, store, paged, unsorted: AtomicBool::new(unsorted), prefix, bucket, limits })
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
}

/// What is known of an object.
fn meta(seen: &GetResult) -> ObjectMeta {
    let mut attributes = Attributes::default();
    for (name, value) in &seen.attributes {
        let value = value.as_ref().to_owned();
        match name {
            Attribute::ContentType => attributes.content_type = Some(value),
            Attribute::ContentEncoding => attributes.content_encoding = Some(value),
            Attribute::ContentDisposition => attributes.content_disposition = Some(value),
            Attribute::ContentLanguage => attributes.content_language = Some(value),
            Attribute::CacheControl => attributes.cache_control = Some(value),
            Attribute::Metadata(name) => drop(attributes.user.insert(name.to_string(), value)),
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
impl Behind for Upstream {
    fn name(&self) -> &str {
        &self.bucket
    }

    fn is_distant(&self) -> bool {
        true
    }

    async fn bucket(&self) -> Result<BucketMeta> {
        // When it was made is not asked for.
        Ok(BucketMeta { name: self.bucket.clone(), ..BucketMeta::default() })
    }

    async fn open(&self, key: &str) -> Result<Object> {
        let path = self.path_to_read(key)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let seen = self.store.get_opts(&path, options).await.map_err(|error| failed(error, key))?;
        let object = UpstreamObject::new(self, format!("s3://{}/{key}", self.bucket), path, &seen.meta);
        let is_pinned = object.is_pinned();
        Ok(Object { meta: meta(&seen), data: ObjectData::distant(Arc::new(object), is_pinned) })
    }

    async fn list(&self, query: ListQuery) -> Result<ListPage> {
        self.page(query).await
    }

    fn writable(&self, key: &str) -> Result<()> {
        self.path_to_write(key).map(drop)
    }

    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String> {
        self.send_object(key, object, options).await
    }

    async fn delete(&self, key: String, condition: Condition) -> Result<()> {
        self.delete_object(key, condition).await
    }
}

/// Why a read is refused by a server that pins versions.
pub(super) fn changed(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. })
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn keys_that_cannot_be_named_are_not_there() {
        let gateway = Gateway::new(Url::parse("memory:///below/here").unwrap());
        let upstream = Upstream::open(&gateway, Limits::default()).unwrap();
        let path = |key: &str| upstream.path(key).map(|path| path.to_string());
        assert_eq!(path("a/b c%20+ü").as_deref(), Some("below/here/a/b c%20+ü"));
        for key in ["", "/", "a/", "/a", "a//b", ".", "..", "../x", "a/../../x", "a/./b", "a\0", "a\n"] {
            assert_eq!(path(key), None, "{key:?}");
        }
    }
}
