//! Where objects live, behind one trait: [`LocalStore`] on our own layout, [`FolderGateway`] in front of an
//! existing folder.
//!
//! A store knows buckets, keys and bytes and nothing of HTTP. Every write is atomic: until the call returns
//! a reader sees the old object, afterwards and after any crash the new one. An object that was opened stays
//! readable as it was, whatever happens to its key.

mod data;
mod disk;
mod error;
mod files;
mod gateway;
mod index;
mod index_file;
mod listing;
mod local;
mod multipart;
mod stage;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use serde::{Deserialize, Serialize};

pub(crate) use data::ObjectData;
pub(crate) use error::{Result, StoreError};
pub(crate) use gateway::FolderGateway;
pub(crate) use listing::{ListPage, ListQuery, Listed, Start};
pub(crate) use local::LocalStore;
pub(crate) use multipart::{PartRecord, PartRef, UploadPage, UploadRecord};
pub(crate) use stage::Staged;

/// The bytes of an upload as they arrive.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// A checksum that a client may send with an upload and ask for with a download.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64nvme,
    Sha1,
    Sha256,
}

/// A checksum as it is written in headers: base64, and `-n` after it when it was made from n parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Checksum {
    pub algorithm: Algorithm,
    pub value: String,
}

/// The headers and metadata that a client stores with an object and gets back.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Attributes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// In RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user: BTreeMap<String, String>,
}

/// What is known of an object without reading it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ObjectMeta {
    pub size: u64,
    /// Without the quotes.
    pub etag: String,
    /// Milliseconds since 1970.
    pub modified_ms: u64,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// The sizes of the parts it was uploaded in; empty for a single PUT.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u64>,
}

/// A bucket.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct BucketMeta {
    pub name: String,
    pub created_ms: u64,
}

/// An object opened for reading.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub meta: ObjectMeta,
    pub data: ObjectData,
}

/// What must hold of the present object for a write to happen.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Condition {
    #[default]
    Always,
    /// If-None-Match: *
    Absent,
    /// If-Match, without quotes.
    Etag(String),
    /// If-Match: *
    Present,
}

impl Condition {
    /// Whether a write may go on, given the ETag of what is there.
    pub fn check(&self, key: &str, present: Option<&str>) -> Result<()> {
        match (self, present) {
            (Self::Always, _) | (Self::Absent, None) | (Self::Present, Some(_)) => Ok(()),
            (Self::Absent, Some(_)) => Err(StoreError::Precondition("If-None-Match")),
            (Self::Etag(wanted), Some(etag)) if wanted == etag => Ok(()),
            (Self::Etag(_), Some(_)) => Err(StoreError::Precondition("If-Match")),
            (Self::Etag(_) | Self::Present, None) => Err(StoreError::NoSuchKey(key.to_owned())),
        }
    }
}

/// What a write stores besides the bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutOptions {
    pub attributes: Attributes,
    pub checksum: Option<Checksum>,
    pub condition: Condition,
}

/// What a copy copies.
#[derive(Clone, Debug)]
pub(crate) struct CopyRequest {
    pub from_bucket: String,
    pub from_key: String,
    /// The version whose conditions were checked; another one is [`StoreError::Changed`].
    pub from_etag: String,
    pub bucket: String,
    pub key: String,
    /// Unset keeps those of the source.
    pub attributes: Option<Attributes>,
}

/// How an upload is completed.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    /// What the client says the parts are, in its order.
    pub parts: Vec<PartRef>,
    pub condition: Condition,
    /// The checksum of the whole object that the client sent.
    pub checksum: Option<Checksum>,
    /// The size that the client sent.
    pub size: Option<u64>,
}

/// A keyspace of objects. Methods that write have a default that refuses: a gateway only reads.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    async fn buckets(&self) -> Result<Vec<BucketMeta>>;
    async fn bucket(&self, bucket: &str) -> Result<BucketMeta>;
    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta>;
    async fn open(&self, bucket: &str, key: &str) -> Result<Object>;
    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage>;

    /// Whether no disk work of its own is under way.
    fn is_idle(&self) -> bool {
        true
    }
    async fn create_bucket(&self, _bucket: &str) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    async fn delete_bucket(&self, _bucket: &str) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    /// Takes in the bytes of a PUT or a part, not yet visible to anyone; dropping the result discards them.
    async fn stage(&self, _body: Body, _checksum: Option<Algorithm>) -> Result<Staged> {
        Err(StoreError::ReadOnly)
    }
    async fn put(&self, _bucket: &str, _key: &str, _staged: Staged, _options: PutOptions) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    async fn copy(&self, _request: CopyRequest) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    /// Deletes all of them in one step; a key that does not exist is no error. One answer per key.
    async fn delete(&self, _bucket: &str, _keys: Vec<(String, Condition)>) -> Result<Vec<Result<()>>> {
        Err(StoreError::ReadOnly)
    }
    async fn create_upload(&self, _bucket: &str, _key: &str, _upload: UploadRecord) -> Result<String> {
        Err(StoreError::ReadOnly)
    }
    async fn upload(&self, _bucket: &str, _key: &str, _id: &str) -> Result<UploadRecord> {
        Err(StoreError::ReadOnly)
    }
    async fn put_part(&self, _at: UploadKey, _number: u32, _staged: Staged) -> Result<PartRecord> {
        Err(StoreError::ReadOnly)
    }
    /// The parts after number `after`, at most `limit`, and whether there are more.
    async fn parts(&self, _at: UploadKey, _after: u32, _limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        Err(StoreError::ReadOnly)
    }
    async fn complete(&self, _at: UploadKey, _completion: Completion) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    async fn abort(&self, _at: UploadKey) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    /// The uploads of a bucket whose key starts with `prefix` and whose (key, id) is after `after`.
    async fn uploads(
        &self,
        _bucket: &str,
        _prefix: &str,
        _after: Option<(String, String)>,
        _limit: usize,
    ) -> Result<UploadPage> {
        Ok(UploadPage::default())
    }
}

/// Names an upload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UploadKey {
    pub bucket: String,
    pub key: String,
    pub id: String,
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The same instant as the standard library knows it.
pub(crate) fn system_time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}
