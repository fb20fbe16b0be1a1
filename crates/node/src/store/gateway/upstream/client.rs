//! The client of a server behind a gateway: keys, metadata and errors.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object_store::path::Path;
use object_store::{Attribute, GetResult};
use pushdowndb_http::reads::ReadLimit;

use super::connect::{Connection, connect};
use crate::store::gateway::backend::bucket_name;
use crate::store::{Attributes, ObjectMeta, Result, StoreError};
use crate::{Gateway, Limits};

/// The server behind a gateway.
pub(crate) struct Upstream {
    pub connection: Connection,
    /// Whether a listing was out of order.
    pub unsorted: AtomicBool,
    /// The prefix of all keys on the server: empty, or with a slash at the end.
    pub prefix: String,
    pub bucket: String,
    pub limits: Limits,
    /// The latency of the server as measured by reads, and the limit on concurrent reads of scans.
    pub reads: Arc<ReadLimit>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("service", &self.connection.service)
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Creates the client, without connecting. Blocks.
    pub fn open(gateway: &Gateway, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let connection = connect(gateway, &limits)?;
        let bucket = gateway.bucket.clone().unwrap_or_else(|| bucket_name(&connection.name));
        let unsorted = AtomicBool::new(connection.unsorted);
        let prefix = match connection.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Self { connection, unsorted, prefix, bucket, limits, reads: Arc::default() })
    }

    /// The path of a key on the server; `None` if `object_store` cannot express it.
    pub fn path(&self, key: &str) -> Option<Path> {
        let full = format!("{}{key}", self.prefix);
        Path::parse(&full).ok().filter(|path| path.as_ref() == full && !key.is_empty())
    }

    /// The path for a read; a key that cannot be expressed does not exist.
    pub fn path_to_read(&self, key: &str) -> Result<Path> {
        self.path(key).ok_or_else(|| StoreError::NoSuchKey(key.to_owned()))
    }
}

/// Converts the metadata of a response.
pub(super) fn meta(seen: &GetResult) -> ObjectMeta {
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

/// Converts the metadata of a listing entry.
pub(crate) fn listed(seen: &object_store::ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        size: seen.size,
        etag: etag(seen),
        modified_ms: u64::try_from(seen.last_modified.timestamp_millis()).unwrap_or(0),
        ..ObjectMeta::default()
    }
}

/// The ETag without quotes and weak prefix. A missing one is derived from size and time, with a
/// dash as in ETags that are not digests.
pub(crate) fn etag(seen: &object_store::ObjectMeta) -> String {
    match &seen.e_tag {
        Some(etag) => etag.trim_start_matches("W/").trim_matches('"').to_owned(),
        None => format!("{:x}-{:x}", seen.size, seen.last_modified.timestamp_millis()),
    }
}

/// Converts an error of the server; its details go to the log only.
pub(crate) fn failed(error: object_store::Error, key: &str) -> StoreError {
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

/// Whether a server refused a read because the version changed.
pub(crate) fn changed(error: &object_store::Error) -> bool {
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
