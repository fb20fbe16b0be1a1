//! The store on local disks, in a folder of its own layout.
//!
//! ```text
//! DIR/VERSION            says that this is a store, and of which format
//!     index.redb         what exists (see `index`)
//!     data/<xx>/<id>     bytes that exist, written once
//!     tmp/               bytes that are arriving
//!     credentials.json   who may use it
//! ```
//!
//! When a write is answered, it is on the disk:
//!
//! 1. the bytes are written to a file under `tmp/`, checked against every digest the client sent, and synced;
//! 2. the file is renamed into `data/`, and that folder is synced;
//! 3. the index commits the new record and syncs: this makes the object visible, and is what is acknowledged;
//! 4. the files of the object it replaced are removed, which nothing waits for.
//!
//! A crash or a loss of power at any point leaves the old object or the new one, and files that nothing names
//! (see `sweep`). Removing objects, tags and settings of buckets is step 3 alone. There is one copy: a disk that
//! dies takes its objects with it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use futures::TryStreamExt;
use pushdown::Error;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::adopt::NOT_THE_ETAG;
use super::data::Reading;
use super::disk::{Disk, LocalDisk};
use super::files::{Files, Segment};
use super::index::{Index, ObjectRecord};
use super::multipart::hex;
use super::scrub::{Scrub, ScrubFigures};
use super::stage::Draft;
use super::sums::to_bytes;
use super::trusted_disk::TrustedDisk;
use super::{
    Algorithm, Body, BucketMeta, BucketSettings, Completion, Condition, CopyRequest, Grant, ListPage, ListQuery, Match,
    Object, ObjectMeta, PartRecord, PutOptions, Result, SettingsChange, Staged, Store, StoreError, Tag, UploadKey,
    UploadPage, UploadQuery, UploadRecord, listing, mark, now_ms, stage, sweep,
};
use crate::Limits;

/// How often forgotten uploads are looked for.
const EXPIRY_MS: u64 = 60_000;

/// A store on local disks. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LocalStore {
    shared: Arc<Shared>,
    /// Ends after the last clone let go of what it reads.
    _scrub: Arc<Scrub>,
}

#[derive(Debug)]
pub(super) struct Shared {
    disk: Arc<TrustedDisk>,
    pub index: Arc<Index>,
    pub files: Arc<Files>,
    limits: Limits,
    pub reading: Reading,
    pub scrubbed: Arc<ScrubFigures>,
    /// When forgotten uploads were last looked for.
    expired_ms: AtomicU64,
}

impl LocalStore {
    /// Opens the store in `dir`, or makes one where there is nothing yet. Blocks.
    pub fn open(dir: &Path, limits: Limits) -> pushdown::Result<Self> {
        Self::open_on(Arc::new(LocalDisk), dir, limits)
    }

    /// The same, with changes done by this disk.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, limits: Limits) -> pushdown::Result<Self> {
        let place = |error: Error| error.context(format!("cannot open the store {}", dir.display()));
        let bytes_a_second = limits.scrub_bytes;
        let mut store = Self::assemble(disk, dir, limits)?;
        store.recover().map_err(|error| place(Error::from(error)))?;
        let scrub = Scrub::start(&store.shared, bytes_a_second).map_err(|error| place(Error::from(error)))?;
        store._scrub = Arc::new(scrub);
        Ok(store)
    }

    /// Opens it as it is: nothing is tidied up, nothing goes on behind its back.
    pub(super) fn open_to_look(dir: &Path, limits: Limits) -> pushdown::Result<Self> {
        Self::assemble(Arc::new(LocalDisk), dir, limits)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn assemble(disk: Arc<dyn Disk>, dir: &Path, limits: Limits) -> pushdown::Result<Self> {
        let place = |error: Error| error.context(format!("cannot open the store {}", dir.display()));
        let trusted = Arc::new(TrustedDisk::new(disk));
        let disk: Arc<dyn Disk> = Arc::clone(&trusted) as _;
        mark::check(&disk, dir).map_err(place)?;
        let io = |error: io::Error| place(Error::invalid("the folder cannot be used").with_source(error));
        let files = Arc::new(Files::open(dir, Arc::clone(&disk)).map_err(io)?);
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
            shared: Arc::new(Shared {
                disk: trusted,
                index: Arc::new(index),
                files,
                reading: Reading::new(&limits),
                scrubbed: Arc::default(),
                limits,
                expired_ms: AtomicU64::new(0),
            }),
            _scrub: Arc::new(Scrub::none()),
        })
    }

    /// Drops uploads that were forgotten and files that a crash left behind.
    fn recover(&self) -> Result<()> {
        self.despite_damage(self.shared.expire_uploads())?;
        let drafts = self.shared.files.remove_drafts()?;
        let objects = self.shared.index.objects()?;
        tracing::info!(objects, drafts, "store opened");
        self.shared.files.remember_placed();
        let swept = sweep::start(&self.shared.index, &self.shared.files, objects);
        if swept.is_err() {
            self.shared.files.forget_placed();
        }
        self.despite_damage(swept)
    }

    /// A single record that cannot be read keeps no other from being served; but nothing is tidied up by what is left.
    fn despite_damage(&self, done: Result<()>) -> Result<()> {
        match done {
            Err(StoreError::Corrupt(what)) => {
                tracing::error!(what, "the index holds a damaged record; leftovers are kept");
                Ok(())
            }
            done => done,
        }
    }

    /// Runs disk work off the async threads.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Shared) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(StoreError::task)?
    }
}

impl Shared {
    fn commit(
        &self,
        bucket: &str,
        key: &str,
        mut record: ObjectRecord,
        condition: &Condition,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        record.writer = grant.account().map(|account| account.key);
        match self.index.put(bucket, key, &record, condition, grant) {
            Ok(freed) => {
                self.files.remove(&freed);
                Ok(record.meta)
            }
            Err(error) => {
                self.undo(&error, &record.segments, || {
                    self.index.object(bucket, key).map(|now| now.segments == record.segments)
                });
                Err(error)
            }
        }
    }

    /// Removes the files of a write that failed, unless the index names them all the same: a commit that
    /// failed may still have reached the disk. Where even that cannot be told, the next start's sweep can.
    fn undo(&self, error: &StoreError, segments: &[Segment], is_named: impl FnOnce() -> Result<bool>) {
        let named = match error {
            error if !error.is_uncertain() => false,
            _ => match is_named() {
                Ok(named) => named,
                Err(error) => error.is_uncertain(),
            },
        };
        if !named {
            self.files.remove(segments);
        }
    }

    fn expire_uploads(&self) -> Result<()> {
        let now = now_ms();
        if now.saturating_sub(self.expired_ms.swap(now, Relaxed)) < EXPIRY_MS {
            return Ok(());
        }
        let lifetime = self.limits.upload_lifetime.as_millis() as u64;
        self.files.remove(&self.index.expire_uploads(now.saturating_sub(lifetime))?);
        Ok(())
    }

    /// The bytes of these segments under names of their own, without reading them where the disk allows it.
    fn links(&self, segments: &[Segment]) -> io::Result<Vec<Segment>> {
        let mut links = Vec::with_capacity(segments.len());
        for segment in segments {
            let link = self.files.link(*segment).or_else(|error| match error.kind() {
                io::ErrorKind::TooManyLinks | io::ErrorKind::Unsupported => self.files.copy(*segment),
                _ => Err(error),
            });
            match link {
                Ok(link) => links.push(link),
                Err(error) => {
                    self.files.remove(&links);
                    return Err(error);
                }
            }
        }
        Ok(links)
    }

    fn keep(&self, staged: Staged) -> Result<Segment> {
        let Draft { file, size, sums } = staged.take()?;
        let kept = || {
            // Behind the bytes and synced with them.
            if let Some((_, all)) = sums.as_ref().filter(|(_, all)| all.len() > 1) {
                file.write(size, &to_bytes(all))?;
            }
            self.files.keep(&file, size, sums.as_ref().map(|(sums, _)| *sums))
        };
        kept().map_err(|error| {
            drop(file.remove());
            StoreError::io("cannot keep the upload")(error)
        })
    }
}

#[async_trait]
impl Store for LocalStore {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn has_stopped(&self) -> bool {
        self.shared.disk.has_lost() || self.shared.index.is_damaged()
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
            // Each miss means that the object was replaced between two steps of ours; that ends soon.
            for _ in 0..16 {
                let record = shared.index.object(&bucket, &key)?;
                if record.damaged {
                    return Err(shared.damaged(&bucket, &key, &record, NOT_THE_ETAG));
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
            let segments = vec![shared.keep(staged)?];
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
        // Rotten bytes stay where they are.
        for range in source.data.unverified() {
            let blocks = source.data.blocks(range);
            blocks.try_for_each(|_| async { Ok(()) }).await.map_err(StoreError::io("cannot read the source"))?;
        }
        self.blocking(move |shared| {
            let mut record = shared.index.object(&request.from_bucket, &request.from_key)?;
            // After the source was found: what was found is in the bucket that was authorised.
            request.source.check(&shared.index.bucket(&request.from_bucket)?)?;
            let changed = || StoreError::Changed(request.from_key.clone());
            if (record.meta.etag.as_str(), record.meta.modified_ms) != (&source.meta.etag, source.meta.modified_ms) {
                return Err(changed());
            }
            // Onto itself only what is said of the bytes changes.
            let in_place = (&request.from_bucket, &request.from_key) == (&request.bucket, &request.key);
            record.segments = shared.links(&record.segments).map_err(|error| match error.kind() {
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
            // A copy onto itself that was overtaken must not bring old bytes back.
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
            let writer = grant.account().map(|account| account.key);
            let part = PartRecord { segment: shared.keep(staged)?, etag, modified_ms: now_ms(), checksum, writer };
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
