//! Uploads on their way through a gateway.
//!
//! The spool is a store of our own, so uploads in parts survive a restart where its folder was given, their
//! parts are listed, checked and put together as everywhere, and what does not match its checksum goes nowhere.
//! Completing an upload takes as long as sending it on does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pushdown::Error;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::Behind;
use crate::Limits;
use crate::store::{
    BucketSettings, Completion, Condition, Grant, ListQuery, Listed, LocalStore, ObjectMeta, PutOptions, Result,
    Staged, Start, Store, StoreError, UploadKey, now_ms,
};

/// For so long an upload that was put together and could not be sent waits for its client to ask again: a day.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Objects that were received and are not sent yet.
#[derive(Debug)]
pub(super) struct Spool {
    pub store: LocalStore,
    /// Set where nobody named the folder: it is removed with the gateway.
    temporary: Option<PathBuf>,
    bucket: String,
    sending: Semaphore,
    /// Whose turn it is to put an upload of a key together and to send it: it lies in the spool under that key.
    completing: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Spool {
    /// Opens the folder, or makes one among the system's temporary files. Blocks.
    pub fn open(dir: Option<&Path>, bucket: &str, limits: Limits) -> pushdown::Result<Self> {
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
        let swept = futures::executor::block_on(spool.sweep(now_ms().saturating_sub(KEPT_MS)));
        swept.map_err(|error| Error::from(error).context("cannot use the spool"))?;
        Ok(spool)
    }

    /// Removes what was received before `before_ms` and never sent: nobody asks for it again.
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

    /// Sends one upload on.
    pub async fn put(
        &self,
        behind: &dyn Behind,
        key: &str,
        staged: Staged,
        options: PutOptions,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        behind.writable(key)?;
        // Under a name of its own: two uploads of one key meet behind the gateway, not here.
        let spooled = Uuid::new_v4().simple().to_string();
        let kept = PutOptions { checksum: options.checksum.clone(), ..PutOptions::default() };
        self.store.put(&self.bucket, &spooled, staged, kept, Grant::node()).await?;
        let sent = self.send(behind, key, &spooled, options, grant).await;
        // Also when it could not be sent: the client has it still.
        self.discard(&spooled).await;
        sent
    }

    /// Puts the parts together and sends them on. A client that asks again has them sent again.
    pub async fn complete(
        &self,
        behind: &dyn Behind,
        at: UploadKey,
        done: Completion,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        let key = at.key.clone();
        let turn = self.turn_of(&key);
        let _turn = turn.lock().await;
        // The condition is on what is behind the gateway. One that fails now leaves the upload as it is.
        let condition = done.condition.clone();
        if condition != Condition::default() {
            let present = match behind.open(&key).await {
                Ok(object) => Some(object.meta),
                Err(StoreError::NoSuchKey(_)) => None,
                Err(error) => return Err(error),
            };
            condition.check(&key, present.as_ref())?;
        }
        let put_together = Completion { condition: Condition::default(), ..done };
        let kept = self.store.complete(at, put_together, Grant::node()).await?;
        let options = PutOptions { attributes: kept.attributes, tags: kept.tags, checksum: None, condition };
        let sent = self.send(behind, &key, &key, options, grant).await;
        // What could not be sent is kept for a client that asks again, unless that can never be.
        if matches!(sent, Ok(_) | Err(StoreError::Precondition(_))) {
            self.discard(&key).await;
        }
        sent
    }

    fn turn_of(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.completing.lock().unwrap_or_else(PoisonError::into_inner);
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
        behind: &dyn Behind,
        key: &str,
        spooled: &str,
        options: PutOptions,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        let object = self.store.open(&self.bucket, spooled).await?;
        let _turn = self.sending.acquire().await.map_err(|_| StoreError::Upstream)?;
        let (size, checksum) = (object.meta.size, object.meta.checksum.clone());
        grant.check_key()?;
        let etag = behind.send(key, object, &options).await?;
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
