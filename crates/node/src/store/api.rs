//! The interface of every store: the [`Store`] trait, and what its methods take and return.

use std::fmt;

use async_trait::async_trait;

use super::condition::Condition;
use super::disk::stage::{Body, Staged};
use super::error::Result;
use super::grant::Grant;
use super::listing::{ListPage, ListQuery};
use super::meta::{Algorithm, Attributes, BucketMeta, BucketSettings, Checksum, ObjectMeta, Tag};
use super::object::data::ObjectData;
use super::upload::{Completion, PartRecord, UploadKey, UploadPage, UploadQuery, UploadRecord};

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

/// A change of the settings of a bucket.
pub(crate) type SettingsChange = Box<dyn FnOnce(&mut BucketSettings) + Send>;

/// The source and the target of a copy.
#[derive(Clone, Debug)]
pub(crate) struct CopyRequest {
    pub from_bucket: String,
    pub from_key: String,
    /// The version whose conditions were checked; any other one fails with
    /// [`StoreError::Changed`](super::StoreError::Changed).
    pub from_etag: String,
    /// The permission to read the source, checked again when the copy is committed.
    pub source: Grant,
    pub bucket: String,
    pub key: String,
    /// The new attributes; `None` keeps those of the source.
    pub attributes: Option<Attributes>,
    /// The new tags; `None` keeps those of the source.
    pub tags: Option<Vec<Tag>>,
    /// The condition on the target.
    pub condition: Condition,
}

/// A key space of objects. Methods that change it check their grant in the step that makes the
/// change visible.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    async fn buckets(&self) -> Result<Vec<BucketMeta>>;
    async fn bucket(&self, bucket: &str) -> Result<BucketMeta>;
    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta>;
    async fn open(&self, bucket: &str, key: &str) -> Result<Object>;
    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage>;

    /// Whether the bytes come from another server.
    fn is_remote(&self) -> bool;

    /// Whether no disk work is in progress.
    fn is_idle(&self) -> bool;
    /// Whether writes are refused until a restart.
    fn has_stopped(&self) -> bool;
    /// Gauges of the store: name, help, value. Called often, so it must not iterate over objects.
    fn figures(&self) -> Vec<(&'static str, &'static str, u64)>;
    /// Counters since the store was opened: name, help, value.
    fn totals(&self) -> Vec<(&'static str, &'static str, u64)>;
    async fn create_bucket(&self, bucket: &str, settings: BucketSettings, grant: Grant) -> Result<()>;
    async fn change_bucket(&self, bucket: &str, change: SettingsChange, grant: Grant) -> Result<()>;
    async fn delete_bucket(&self, bucket: &str, grant: Grant) -> Result<()>;
    /// Receives the bytes of a PUT or a part, not yet visible; dropping the result discards them.
    async fn stage(&self, body: Body, checksum: Option<Algorithm>) -> Result<Staged>;
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: Grant,
    ) -> Result<ObjectMeta>;
    async fn copy(&self, request: CopyRequest, grant: Grant) -> Result<ObjectMeta>;
    /// Deletes keys in one step; a missing key is no error. Returns one result per key.
    async fn delete(&self, bucket: &str, keys: Vec<(String, Condition)>, grant: Grant) -> Result<Vec<Result<()>>>;
    async fn create_upload(&self, bucket: &str, key: &str, upload: UploadRecord, grant: Grant) -> Result<String>;
    async fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<UploadRecord>;
    async fn put_part(&self, at: UploadKey, number: u32, staged: Staged, grant: Grant) -> Result<PartRecord>;
    /// Returns at most `limit` parts after number `after`, and whether there are more.
    async fn parts(&self, at: UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)>;
    async fn complete(&self, at: UploadKey, completion: Completion, grant: Grant) -> Result<ObjectMeta>;
    async fn abort(&self, at: UploadKey, grant: Grant) -> Result<()>;
    /// Replaces the tags of an object.
    async fn set_tags(&self, bucket: &str, key: &str, tags: Vec<Tag>, grant: Grant) -> Result<()>;
    async fn uploads(&self, bucket: &str, query: UploadQuery) -> Result<UploadPage>;
}

impl Grant {
    /// Checks, after reading from `bucket`, that it is the bucket that was authorized.
    pub async fn confirm(&self, store: &dyn Store, bucket: &str) -> Result<()> {
        if self.is_bound_to_bucket() { self.check(&store.bucket(bucket).await?) } else { self.check_key() }
    }
}
