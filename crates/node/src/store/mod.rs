//! Where objects live, behind one trait: [`LocalStore`] on our own layout, [`GatewayStore`] in front of what
//! exists already.
//!
//! A store knows buckets, keys and bytes and nothing of HTTP. Every write is atomic: until the call returns
//! a reader sees the old object, afterwards and after any crash the new one. An object that was opened stays
//! readable as it was, whatever happens to its key.

mod adopt;
mod check;
mod checked;
mod condition;
mod convert;
mod data;
mod disk;
mod error;
mod files;
mod gateway;
mod grant;
mod index;
mod index_file;
mod listing;
mod local;
mod mark;
mod meta;
mod multipart;
mod open_object;
mod pages;
mod record;
mod scrub;
#[cfg(test)]
mod simulation;
mod stage;
mod sums;
mod sweep;
mod trusted_disk;
mod uploads;
mod usage;
mod verifier;
mod walk;
mod witness;

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

pub use check::{CheckProgress, CheckReport, check};
pub(crate) use condition::{Condition, Match};
pub(crate) use data::ObjectData;
pub(crate) use error::{Result, StoreError};
pub(crate) use gateway::GatewayStore;
pub(crate) use grant::{Account, Authority, Grant, Quota};
pub(crate) use listing::{ListPage, ListQuery, Listed, Start};
pub(crate) use local::LocalStore;
pub(crate) use meta::{
    Algorithm, Attributes, BucketMeta, BucketSettings, Checksum, CorsRule, ObjectMeta, PartMeta, PublicAccessBlock, Tag,
};
pub(crate) use multipart::PartRef;
pub(crate) use stage::{Hasher, Staged};
pub(crate) use uploads::{PartRecord, UploadPage, UploadQuery, UploadRecord};

/// The bytes of an upload as they arrive.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// An object opened for reading.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub meta: ObjectMeta,
    pub data: ObjectData,
}

/// What a write stores besides the bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutOptions {
    pub attributes: Attributes,
    pub checksum: Option<Checksum>,
    pub tags: Vec<Tag>,
    pub condition: Condition,
}

/// A change of what is set on a bucket.
pub(crate) type SettingsChange = Box<dyn FnOnce(&mut BucketSettings) + Send>;

/// What a copy copies.
#[derive(Clone, Debug)]
pub(crate) struct CopyRequest {
    pub from_bucket: String,
    pub from_key: String,
    /// The version whose conditions were checked; another one is [`StoreError::Changed`].
    pub from_etag: String,
    /// The permission to read the source, where the bucket may have changed hands.
    pub source: Grant,
    pub bucket: String,
    pub key: String,
    /// Unset keeps those of the source.
    pub attributes: Option<Attributes>,
    /// Unset keeps those of the source.
    pub tags: Option<Vec<Tag>>,
    /// What must hold of the target.
    pub condition: Condition,
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

/// A keyspace of objects. Methods that write have a default that refuses: a gateway only reads. They check their grant in the
/// step that makes the change visible.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    async fn buckets(&self) -> Result<Vec<BucketMeta>>;
    async fn bucket(&self, bucket: &str) -> Result<BucketMeta>;
    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta>;
    async fn open(&self, bucket: &str, key: &str) -> Result<Object>;
    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage>;

    /// Whether its bytes come from another server.
    fn is_distant(&self) -> bool {
        false
    }

    /// Whether no disk work of its own is under way.
    fn is_idle(&self) -> bool {
        true
    }
    /// Whether writes are refused until the node is started again.
    fn has_stopped(&self) -> bool {
        false
    }
    /// What the store measures of itself: name, meaning, value. Asked for often, so nothing is counted for it.
    fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
    /// What it has counted since it was opened: name, meaning, value.
    fn totals(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
    async fn create_bucket(&self, _bucket: &str, _settings: BucketSettings, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    async fn change_bucket(&self, _bucket: &str, _change: SettingsChange, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    async fn delete_bucket(&self, _bucket: &str, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    /// Takes in the bytes of a PUT or a part, not yet visible to anyone; dropping the result discards them.
    async fn stage(&self, _body: Body, _checksum: Option<Algorithm>) -> Result<Staged> {
        Err(StoreError::ReadOnly)
    }
    async fn put(
        &self,
        _bucket: &str,
        _key: &str,
        _staged: Staged,
        _options: PutOptions,
        _grant: Grant,
    ) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    async fn copy(&self, _request: CopyRequest, _grant: Grant) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    /// Deletes all of them in one step; a key that does not exist is no error. One answer per key.
    async fn delete(&self, _bucket: &str, _keys: Vec<(String, Condition)>, _grant: Grant) -> Result<Vec<Result<()>>> {
        Err(StoreError::ReadOnly)
    }
    async fn create_upload(&self, _bucket: &str, _key: &str, _upload: UploadRecord, _grant: Grant) -> Result<String> {
        Err(StoreError::ReadOnly)
    }
    async fn upload(&self, _bucket: &str, _key: &str, _id: &str) -> Result<UploadRecord> {
        Err(StoreError::ReadOnly)
    }
    async fn put_part(&self, _at: UploadKey, _number: u32, _staged: Staged, _grant: Grant) -> Result<PartRecord> {
        Err(StoreError::ReadOnly)
    }
    /// The parts after number `after`, at most `limit`, and whether there are more.
    async fn parts(&self, _at: UploadKey, _after: u32, _limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        Err(StoreError::ReadOnly)
    }
    async fn complete(&self, _at: UploadKey, _completion: Completion, _grant: Grant) -> Result<ObjectMeta> {
        Err(StoreError::ReadOnly)
    }
    async fn abort(&self, _at: UploadKey, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    /// Replaces the tags of an object.
    async fn set_tags(&self, _bucket: &str, _key: &str, _tags: Vec<Tag>, _grant: Grant) -> Result<()> {
        Err(StoreError::ReadOnly)
    }
    async fn uploads(&self, _bucket: &str, _query: UploadQuery) -> Result<UploadPage> {
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
