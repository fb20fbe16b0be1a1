//! The spool of a gateway, where uploads wait until they are sent.
//!
//! It is a local store, so multipart uploads survive a restart if its folder was configured, parts
//! are listed, verified and assembled as usual, and nothing with a wrong checksum is sent.
//! Completing an upload takes as long as sending it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pushdowndb_contract::Error;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::backend::Backend;
use crate::Limits;
use crate::store::{
    BucketSettings, Completion, Condition, Grant, ListQuery, Listed, LocalStore, ObjectMeta, PutOptions, Result,
    Staged, Start, Store, StoreError, UploadKey, now_ms,
};

/// How long an assembled upload that could not be sent is kept for a retry: a day.
const RETRY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;

/// Uploads that were received and not sent yet.
#[derive(Debug)]
pub(super) struct Spool {
    pub store: LocalStore,
    /// The temporary folder, if no folder was configured; it is removed with the gateway.
    temporary: Option<PathBuf>,
    bucket: String,
    sending: Semaphore,
    /// A lock for each key whose upload is being completed: the assembled object is stored under
    /// that key.
    completing: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Spool {
    /// Opens the spool in `dir`, or in a temporary folder. Blocks.
    pub fn open(dir: Option<&Path>, bucket: &str, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let temporary = match dir {
            Some(_) => None,
            None => Some(std::env::temp_dir().join(format!("pushdowndb-spool-{}", Uuid::new_v4().simple()))),
        };
        let sending = Semaphore::new(limits.upstream_sends);
        let store = LocalStore::open(dir.or(temporary.as_deref()).unwrap_or(Path::new(".")), limits)?;
        match futures::executor::block_on(store.create_bucket(bucket, BucketSettings::default(), Grant::node())) {
            Ok(()) | Err(StoreError::BucketExists(_)) => {}
            Err(error) => return Err(Error::from(error).context("cannot use the spool")),
        }
        let spool = Self { store, temporary, bucket: bucket.to_owned(), sending, completing: Mutex::default() };
        let swept = futures::executor::block_on(spool.sweep(now_ms().saturating_sub(RETRY_WINDOW_MS)));
        swept.map_err(|error| Error::from(error).context("cannot use the spool"))?;
        Ok(spool)
    }

    /// Removes uploads received before `before_ms` and never sent.
    async fn sweep(&self, before_ms: u64) -> Result<()> {
        let mut next = Some(Start::default());
        while let Some(start) = next {
            let query = ListQuery { start, limit: 1000, ..ListQuery::default() };
            let page = self.store.list(&self.bucket, query).await?;
            next = page.next;
            for entry in page.entries {
                if let Listed::Object(key, meta) = entry
                    && meta.modified_ms < before_ms
                    && let Ok(key) = String::from_utf8(key)
                {
                    self.discard(&key).await;
                }
            }
        }
        Ok(())
    }

    /// Stores a received upload in the spool, sends it, and removes it from the spool.
    pub async fn put(
        &self,
        backend: &dyn Backend,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        backend.check_writable(key)?;
        // Stored under a unique name, so that concurrent uploads of one key do not collide.
        let spooled = Uuid::new_v4().simple().to_string();
        let kept = PutOptions { checksum: options.checksum.clone(), ..PutOptions::default() };
        self.store.put(&self.bucket, &spooled, staged, kept, Grant::node()).await?;
        let sent = self.send(backend, key, &spooled, options, grant).await;
        // Discarded even after a failure, since the client still has the data.
        self.discard(&spooled).await;
        sent
    }

    /// Assembles the parts of an upload and sends the object. A retry sends it again.
    pub async fn complete(
        &self,
        backend: &dyn Backend,
        at: UploadKey,
        done: Completion,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        let key = at.key.clone();
        let turn = self.turn_of(&key);
        let _turn = turn.lock().await;
        // The condition is about the object in the backend. If it fails now, the upload stays as it
        // is.
        let condition = done.condition.clone();
        if condition != Condition::default() {
            let present = match backend.open(&key).await {
                Ok(object) => Some(object.meta),
                Err(StoreError::NoSuchKey(_)) => None,
                Err(error) => return Err(error),
            };
            condition.check(&key, present.as_ref())?;
        }
        let put_together = Completion { condition: Condition::default(), ..done };
        let kept = self.store.complete(at, put_together, Grant::node()).await?;
        let options = PutOptions { attributes: kept.attributes, tags: kept.tags, checksum: None, condition };
        let sent = self.send(backend, &key, &key, options, grant).await;
        // An upload that could not be sent is kept for a retry, unless its condition failed.
        if matches!(sent, Ok(_) | Err(StoreError::Precondition(_))) {
            self.discard(&key).await;
        }
        sent
    }

    fn turn_of(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.completing.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(key.to_owned(), Arc::downgrade(&turn));
        turn
    }

    async fn send(
        &self,
        backend: &dyn Backend,
        key: &str,
        spooled: &str,
        options: PutOptions,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        let object = self.store.open(&self.bucket, spooled).await?;
        let _turn = self.sending.acquire().await.map_err(|_| StoreError::Upstream)?;
        let (size, checksum) = (object.meta.size, object.meta.checksum.clone());
        grant.check_key()?;
        let etag = backend.send(key, object, &options).await?;
        let attributes = options.attributes;
        Ok(ObjectMeta { size, etag, modified_ms: now_ms(), attributes, checksum, ..ObjectMeta::default() })
    }

    async fn discard(&self, spooled: &str) {
        if let Err(error) =
            self.store.delete(&self.bucket, vec![(spooled.to_owned(), Condition::default())], Grant::node()).await
        {
            tracing::warn!(%error, spooled, "cannot clean up the spool");
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(dir) = &self.temporary {
            drop(std::fs::remove_dir_all(dir));
        }
    }
}
