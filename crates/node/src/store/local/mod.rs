//! The store on local disks, in a folder of its own layout.
//!
//! ```text
//! DIR/VERSION            marks a store, and its format
//!     index.redb         what exists (see `index`)
//!     data/<xx>/<id>     stored bytes, written once
//!     tmp/               arriving bytes
//!     credentials.json   generated credentials
//! ```
//!
//! A write is durable when it is acknowledged:
//!
//! 1. the bytes are written to a file under `tmp/`, verified against every digest of the client,
//!    and synced;
//! 2. the file is renamed into `data/`, and that folder is synced;
//! 3. the index commits the new record and syncs, which makes the object visible;
//! 4. the files of the replaced object are removed in the background.
//!
//! A crash or a power loss at any point leaves the old object or the new one, and unreferenced
//! files (see `sweep`). Removing objects, and changing tags or bucket settings, consists of step 3
//! alone. There is one copy: if the disk fails, its objects are lost.

pub(crate) mod check;
mod checksum_backfill;
mod scrub;
pub(crate) mod state;
mod sweep;
mod version_file;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use futures::TryStreamExt;
use pushdowndb_contract::Error;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::disk::data_files::DataFiles;
use super::disk::fail_stop::FailStopDisk;
use super::disk::{Disk, LocalDisk, stage};
use super::hex::hex;
use super::index::Index;
use super::index::record::ObjectRecord;
use super::object::data::ReadContext;
use super::{
    Algorithm, Body, BucketMeta, BucketSettings, Completion, Condition, CopyRequest, Grant, ListPage, ListQuery, Match,
    Object, ObjectMeta, PartRecord, PutOptions, Result, SettingsChange, Staged, Store, StoreError, Tag, UploadKey,
    UploadPage, UploadQuery, UploadRecord, listing, now_ms,
};
use crate::Limits;
use checksum_backfill::ETAG_MISMATCH;
use scrub::Scrubber;
use state::LocalState;

/// A store on local disks. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LocalStore {
    shared: Arc<LocalState>,
    /// Stops when the last clone is dropped.
    _scrub: Arc<Scrubber>,
}

impl LocalStore {
    /// Opens the store in `dir`, or creates one in an empty folder. Blocks.
    pub fn open(dir: &Path, limits: Limits) -> pushdowndb_contract::Result<Self> {
        Self::open_on(Arc::new(LocalDisk), dir, limits)
    }

    /// Opens a store whose changes go through `disk`.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let place = |error: Error| error.context(format!("cannot open the store {}", dir.display()));
        let bytes_a_second = limits.scrub_bytes;
        let mut store = Self::assemble(disk, dir, limits)?;
        store.recover().map_err(|error| place(Error::from(error)))?;
        let scrub = Scrubber::start(&store.shared, bytes_a_second).map_err(|error| place(Error::from(error)))?;
        store._scrub = Arc::new(scrub);
        Ok(store)
    }

    /// Opens a store without recovery and background work.
    pub(super) fn open_read_only(dir: &Path, limits: Limits) -> pushdowndb_contract::Result<Self> {
        Self::assemble(Arc::new(LocalDisk), dir, limits)
    }

    pub(super) fn shared(&self) -> &LocalState {
        &self.shared
    }

    fn assemble(disk: Arc<dyn Disk>, dir: &Path, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let place = |error: Error| error.context(format!("cannot open the store {}", dir.display()));
        let trusted = Arc::new(FailStopDisk::new(disk));
        let disk: Arc<dyn Disk> = Arc::clone(&trusted) as _;
        version_file::check(&disk, dir).map_err(place)?;
        let io = |error: io::Error| place(Error::invalid("the folder cannot be used").with_source(error));
        let files = Arc::new(DataFiles::open(dir, Arc::clone(&disk)).map_err(io)?);
        let key_bytes = files.disk_bytes().map_or(u64::MAX, |bytes| bytes / 2);
        let index = Index::open(&dir.join("index.redb"), &trusted, key_bytes).map_err(|error| {
            place(match error {
                StoreError::Index(inner) if matches!(*inner, redb::Error::DatabaseAlreadyOpen) => {
                    Error::invalid("another node has it open; stop that one first")
                }
                other => Error::from(other),
            })
        })?;
        Ok(Self {
            shared: Arc::new(LocalState {
                disk: trusted,
                index: Arc::new(index),
                files,
                reading: ReadContext::new(&limits),
                scrubbed: Arc::default(),
                limits,
                expired_ms: AtomicU64::new(0),
            }),
            _scrub: Arc::new(Scrubber::none()),
        })
    }

    /// Removes expired uploads, and files that a crash left behind.
    fn recover(&self) -> Result<()> {
        self.despite_damage(self.shared.expire_uploads())?;
        let drafts = self.shared.files.remove_drafts()?;
        let objects = self.shared.index.objects()?;
        tracing::info!(objects, drafts, "store opened");
        self.shared.files.track_placed();
        let swept = sweep::start(&self.shared.index, &self.shared.files, objects);
        if swept.is_err() {
            self.shared.files.stop_tracking();
        }
        self.despite_damage(swept)
    }

    /// Logs an error about a damaged record instead of returning it, so that the store can be
    /// served; leftover files are then kept.
    fn despite_damage(&self, done: Result<()>) -> Result<()> {
        match done {
            Err(StoreError::Corrupt(what)) => {
                tracing::error!(what, "the index holds a damaged record; leftovers are kept");
                Ok(())
            }
            done => done,
        }
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(StoreError::task)?
    }
}

#[async_trait]
impl Store for LocalStore {
    fn is_remote(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn has_stopped(&self) -> bool {
        self.shared.disk.has_failed() || self.shared.index.is_damaged()
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        let shared = &self.shared;
        let stopped = "1 once the disk failed to keep a write: none is accepted before a restart.";
        let mut figures = vec![("store_stopped", stopped, u64::from(self.has_stopped()))];
        if let Ok([buckets, objects, uploads]) = shared.index.counts() {
            figures.push(("store_buckets", "Buckets of the store.", buckets));
            figures.push(("store_objects", "Objects of the store.", objects));
            figures.push(("store_uploads", "Uploads in parts that are under way.", uploads));
        }
        let last_pass = shared.scrubbed.last_pass_s.load(Relaxed);
        let pass = "When the scrub last came to the end, in seconds since 1970; 0 if never.";
        figures.push(("scrub_last_pass_seconds", pass, last_pass));
        if let Some(free) = shared.files.free_bytes() {
            figures.push(("store_free_bytes", "Bytes that are free on the disk of the store.", free));
        }
        figures
    }

    fn totals(&self) -> Vec<(&'static str, &'static str, u64)> {
        let (damaged, reads) = self.shared.reading.verifier().counts();
        let scrubbed = self.shared.scrubbed.bytes.load(Relaxed);
        vec![
            ("scrubbed_bytes", "Bytes that were read behind the store's back to find damage", scrubbed),
            ("objects_damaged", "Data files that were found damaged, by reads and by the scrub", damaged),
            ("damaged_reads", "Reads that failed because what they read is damaged", reads),
        ]
    }

    async fn buckets(&self) -> Result<Vec<BucketMeta>> {
        self.blocking(|shared| shared.index.buckets()).await
    }

    async fn bucket(&self, bucket: &str) -> Result<BucketMeta> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| shared.index.bucket(&bucket)).await
    }

    async fn head(&self, bucket: &str, key: &str) -> Result<ObjectMeta> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| Ok(shared.index.object(&bucket, &key)?.meta)).await
    }

    async fn open(&self, bucket: &str, key: &str) -> Result<Object> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| {
            // A miss means that the object was replaced between two steps, which rarely repeats.
            for _ in 0..16 {
                let record = shared.index.object(&bucket, &key)?;
                if record.damaged {
                    return Err(shared.damaged(&bucket, &key, &record, ETAG_MISMATCH));
                }
                if let Some(data) = shared.data(&bucket, &key, &record, &shared.reading)? {
                    return Ok(Object { meta: record.meta, data });
                }
            }
            let record = shared.index.object(&bucket, &key)?;
            Err(shared.damaged(&bucket, &key, &record, "its data file is missing"))
        })
        .await
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> Result<ListPage> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| listing::list(&mut shared.index.cursor(&bucket)?, &query)).await
    }

    async fn create_bucket(&self, bucket: &str, settings: BucketSettings, grant: Grant) -> Result<()> {
        let meta = BucketMeta { name: bucket.to_owned(), created_ms: now_ms(), settings };
        self.blocking(move |shared| shared.index.create_bucket(&meta, shared.limits.buckets, &grant)).await
    }

    async fn change_bucket(&self, bucket: &str, change: SettingsChange, grant: Grant) -> Result<()> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| shared.index.change_bucket(&bucket, change, &grant)).await
    }

    async fn delete_bucket(&self, bucket: &str, grant: Grant) -> Result<()> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| {
            let freed = shared.index.delete_bucket(&bucket, &grant)?;
            shared.files.remove(&freed);
            Ok(())
        })
        .await
    }

    async fn stage(&self, body: Body, checksum: Option<Algorithm>) -> Result<Staged> {
        stage::stage(&self.shared.files, &self.shared.limits, body, checksum).await
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: Grant,
    ) -> Result<ObjectMeta> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| {
            let meta = ObjectMeta {
                size: staged.size,
                etag: hex(&staged.md5),
                modified_ms: now_ms(),
                attributes: options.attributes,
                checksum: options.checksum,
                parts: Vec::new(),
                tags: options.tags,
            };
            let segments = vec![shared.commit_draft(staged)?];
            let record = ObjectRecord { meta, segments, upload: None, writer: None, damaged: false };
            shared.commit(&bucket, &key, record, &options.condition, &grant)
        })
        .await
    }

    async fn copy(&self, request: CopyRequest, grant: Grant) -> Result<ObjectMeta> {
        let source = self.open(&request.from_bucket, &request.from_key).await?;
        if source.meta.etag != request.from_etag {
            return Err(StoreError::Changed(request.from_key));
        }
        // Reads and verifies the source first, so that damaged bytes are not copied.
        for range in source.data.unverified() {
            let blocks = source.data.blocks(range);
            blocks.try_for_each(|_| async { Ok(()) }).await.map_err(StoreError::io("cannot read the source"))?;
        }
        self.blocking(move |shared| {
            let mut record = shared.index.object(&request.from_bucket, &request.from_key)?;
            // Checked after the source was found, so that the source is in the bucket that was
            // authorized.
            request.source.check(&shared.index.bucket(&request.from_bucket)?)?;
            let changed = || StoreError::Changed(request.from_key.clone());
            if (record.meta.etag.as_str(), record.meta.modified_ms) != (&source.meta.etag, source.meta.modified_ms) {
                return Err(changed());
            }
            // A copy onto itself changes only attributes and tags.
            let in_place = (&request.from_bucket, &request.from_key) == (&request.bucket, &request.key);
            record.segments = shared.link_all(&record.segments).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => changed(),
                _ => StoreError::io("cannot copy the object")(error),
            })?;
            record.meta.modified_ms = now_ms();
            record.upload = None;
            if let Some(attributes) = request.attributes {
                record.meta.attributes = attributes;
            }
            if let Some(tags) = request.tags {
                record.meta.tags = tags;
            }
            // A copy of an object onto itself must not restore bytes that were replaced meanwhile.
            let condition = match in_place && request.condition == Condition::default() {
                true => Condition { if_match: Some(Match::Etag(request.from_etag)), ..Condition::default() },
                false => request.condition,
            };
            shared.commit(&request.bucket, &request.key, record, &condition, &grant)
        })
        .await
    }

    async fn delete(&self, bucket: &str, keys: Vec<(String, Condition)>, grant: Grant) -> Result<Vec<Result<()>>> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| {
            let (freed, answers) = shared.index.delete(&bucket, &keys, &grant)?;
            shared.files.remove(&freed);
            Ok(answers)
        })
        .await
    }

    async fn create_upload(&self, bucket: &str, key: &str, upload: UploadRecord, grant: Grant) -> Result<String> {
        let at = UploadKey { bucket: bucket.to_owned(), key: key.to_owned(), id: Uuid::new_v4().simple().to_string() };
        self.blocking(move |shared| {
            shared.expire_uploads()?;
            shared.index.create_upload(&at, upload, shared.limits.uploads, &grant)?;
            Ok(at.id)
        })
        .await
    }

    async fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<UploadRecord> {
        let at = UploadKey { bucket: bucket.to_owned(), key: key.to_owned(), id: id.to_owned() };
        self.blocking(move |shared| shared.index.upload(&at)).await
    }

    async fn put_part(&self, at: UploadKey, number: u32, staged: Staged, grant: Grant) -> Result<PartRecord> {
        self.blocking(move |shared| {
            let (etag, checksum) = (hex(&staged.md5), staged.checksum.clone());
            let writer = grant.account().and_then(|account| account.writer().map(str::to_owned));
            let part =
                PartRecord { segment: shared.commit_draft(staged)?, etag, modified_ms: now_ms(), checksum, writer };
            match shared.index.put_part(&at, number, &part, &grant) {
                Ok(freed) => shared.files.remove(&freed),
                Err(error) => {
                    shared.undo(&error, &[part.segment], || {
                        let (now, _) = shared.index.parts(&at, number.saturating_sub(1), 1)?;
                        Ok(now.iter().any(|(_, now)| now.segment == part.segment))
                    });
                    return Err(error);
                }
            }
            Ok(part)
        })
        .await
    }

    async fn parts(&self, at: UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        self.blocking(move |shared| shared.index.parts(&at, after, limit)).await
    }

    async fn complete(&self, at: UploadKey, completion: Completion, grant: Grant) -> Result<ObjectMeta> {
        self.blocking(move |shared| {
            let (meta, freed) = shared.index.complete(&at, &completion, &shared.limits, &grant)?;
            shared.files.remove(&freed);
            Ok(meta)
        })
        .await
    }

    async fn abort(&self, at: UploadKey, grant: Grant) -> Result<()> {
        self.blocking(move |shared| {
            let freed = shared.index.abort(&at, &grant)?;
            shared.files.remove(&freed);
            Ok(())
        })
        .await
    }

    async fn set_tags(&self, bucket: &str, key: &str, tags: Vec<Tag>, grant: Grant) -> Result<()> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| shared.index.set_tags(&bucket, &key, tags, &grant)).await
    }

    async fn uploads(&self, bucket: &str, query: UploadQuery) -> Result<UploadPage> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| shared.index.uploads(&bucket, &query)).await
    }
}

#[cfg(test)]
mod tests;
