//! Writing through a gateway: uploads are received in a spool and sent on whole.
//!
//! The spool is a store of our own, so uploads in parts survive a restart where its folder was given, their
//! parts are listed, checked and put together as everywhere, and what does not match its checksum goes nowhere.
//! An object is sent in one request if it is small, else in parts, which appear behind the gateway at once
//! when the last of them is there. Completing an upload therefore takes as long as sending it does.

use std::path::{Path as FilePath, PathBuf};

use futures::TryStreamExt;
use object_store::{
    Attribute, AttributeValue, ObjectStoreExt, PutMode, PutMultipartOptions, PutPayload, TagSet, UpdateVersion,
};
use pushdown::Error;
use pushdowndb_scan::ObjectReader;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::gateway_object::{Upstream, failed};
use super::{
    Attributes, BucketSettings, Completion, Condition, LocalStore, Match, Object, ObjectMeta, PutOptions, Result,
    Staged, Store, StoreError, Tag, UploadKey, now_ms,
};

/// Objects that were received and are not sent yet.
#[derive(Debug)]
pub(crate) struct Spool {
    pub store: LocalStore,
    /// Set where nobody named the folder: it is removed with the gateway.
    temporary: Option<PathBuf>,
    bucket: String,
    sending: Semaphore,
}

impl Spool {
    /// Opens the folder, or makes one among the system's temporary files. Blocks.
    pub fn open(dir: Option<&FilePath>, upstream: &Upstream) -> pushdown::Result<Self> {
        let temporary = match dir {
            Some(_) => None,
            None => Some(std::env::temp_dir().join(format!("pushdowndb-spool-{}", Uuid::new_v4().simple()))),
        };
        let dir = dir.or(temporary.as_deref()).unwrap_or(FilePath::new("."));
        let store = LocalStore::open(dir, upstream.limits.clone())?;
        match futures::executor::block_on(store.create_bucket(&upstream.bucket, BucketSettings::default())) {
            Ok(()) | Err(StoreError::BucketExists(_)) => {}
            Err(error) => return Err(Error::from(error).context("cannot use the spool")),
        }
        let sending = Semaphore::new(upstream.limits.upstream_sends);
        Ok(Self { store, temporary, bucket: upstream.bucket.clone(), sending })
    }

    /// Sends one upload.
    pub async fn put(&self, upstream: &Upstream, key: &str, staged: Staged, options: PutOptions) -> Result<ObjectMeta> {
        upstream.path_to_write(key)?;
        // Under a name of its own: two uploads of one key meet behind the gateway, not here.
        let spooled = format!("{}/{key}", Uuid::new_v4().simple());
        let spooled = spooled.get(..spooled.floor_char_boundary(1024)).unwrap_or_default();
        let PutOptions { attributes, tags, condition, checksum } = options;
        let kept = PutOptions { checksum, ..PutOptions::default() };
        self.store.put(&self.bucket, spooled, staged, kept).await?;
        let sent = self.send_spooled(upstream, key, spooled, &attributes, &tags, &condition).await;
        // Also when it could not be sent: the client has it still.
        self.discard(spooled).await;
        sent
    }

    /// Puts the parts together and sends them. A client that asks again has it sent again.
    pub async fn complete(&self, upstream: &Upstream, at: UploadKey, done: Completion) -> Result<ObjectMeta> {
        let key = at.key.clone();
        // The condition is on what is behind the gateway.
        let condition = done.condition.clone();
        let upload = self.store.upload(&self.bucket, &key, &at.id).await.ok();
        let put_together = Completion { condition: Condition::default(), ..done };
        let kept = self.store.complete(at, put_together).await?;
        let tags = upload.map(|upload| upload.tags).unwrap_or_else(|| kept.tags.clone());
        let sent = self.send_spooled(upstream, &key, &key, &kept.attributes, &tags, &condition).await?;
        self.discard(&key).await;
        Ok(sent)
    }

    async fn discard(&self, spooled: &str) {
        if let Err(error) = self.store.delete(&self.bucket, vec![(spooled.to_owned(), Condition::default())]).await {
            tracing::warn!(%error, spooled, "cannot clean up the spool");
        }
    }

    async fn send_spooled(
        &self,
        upstream: &Upstream,
        key: &str,
        spooled: &str,
        attributes: &Attributes,
        tags: &[Tag],
        condition: &Condition,
    ) -> Result<ObjectMeta> {
        let object = self.store.open(&self.bucket, spooled).await?;
        let _turn = self.sending.acquire().await.map_err(|_| StoreError::Upstream)?;
        let (size, checksum) = (object.meta.size, object.meta.checksum.clone());
        let etag = upstream.send(key, object, attributes, tags, condition).await?;
        Ok(ObjectMeta {
            size,
            etag,
            modified_ms: now_ms(),
            attributes: attributes.clone(),
            checksum,
            ..ObjectMeta::default()
        })
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(dir) = &self.temporary {
            drop(std::fs::remove_dir_all(dir));
        }
    }
}

impl Upstream {
    /// What a key is called behind the gateway.
    pub fn path_to_write(&self, key: &str) -> Result<object_store::path::Path> {
        self.path(key).ok_or_else(|| {
            StoreError::Unsupported(
                "a gateway writes no keys with empty, '.' or '..' segments, outer slashes or control characters"
                    .to_owned(),
            )
        })
    }

    /// Sends an object; gives its ETag there.
    async fn send(
        &self,
        key: &str,
        object: Object,
        attributes: &Attributes,
        tags: &[Tag],
        condition: &Condition,
    ) -> Result<String> {
        let path = self.path_to_write(key)?;
        let (mode, attributes, tags) = (mode(condition)?, sent_attributes(attributes)?, tag_set(tags));
        let size = object.meta.size;
        // Parts of equal size, at most 10,000 of them.
        let part = self.limits.upstream_part_bytes.max(size.div_ceil(10_000));
        let bytes = |range| {
            let blocks = object.data.stream(range);
            async move {
                let blocks: Vec<_> =
                    blocks.try_collect().await.map_err(|error| StoreError::Corrupt(error.to_string()))?;
                Ok::<_, StoreError>(PutPayload::from_iter(blocks))
            }
        };
        let context = |error| failed(error, key);
        let put = if size <= part {
            let options = object_store::PutOptions { mode, attributes, tags, ..Default::default() };
            self.store.put_opts(&path, bytes(0..size).await?, options).await.map_err(context)?
        } else if mode != PutMode::Overwrite {
            return Err(StoreError::Unsupported(format!("a gateway checks conditions of objects up to {part} bytes")));
        } else {
            let options = PutMultipartOptions { attributes, tags, ..Default::default() };
            let mut upload = self.store.put_multipart_opts(&path, options).await.map_err(context)?;
            let sent = async {
                let mut at = 0;
                while at < size {
                    let end = size.min(at + part);
                    upload.put_part(bytes(at..end).await?).await.map_err(context)?;
                    at = end;
                }
                upload.complete().await.map_err(context)
            };
            match sent.await {
                Ok(put) => put,
                Err(error) => {
                    drop(upload.abort().await);
                    return Err(error);
                }
            }
        };
        match put.e_tag {
            Some(etag) => Ok(etag.trim_matches('"').to_owned()),
            None => {
                let seen = self.store.head(&path).await.map_err(context)?;
                Ok(super::gateway_object::etag(&seen))
            }
        }
    }

    /// Deletes a key; one that cannot be named does not exist.
    pub async fn delete(&self, key: String, condition: Condition) -> Result<()> {
        if condition != Condition::default() {
            return Err(StoreError::Unsupported("a gateway deletes without conditions only".to_owned()));
        }
        let Some(path) = self.path(&key) else { return Ok(()) };
        match self.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error, &key)),
        }
    }
}

/// The conditions that servers behind a gateway check by themselves, so that no race is lost.
fn mode(condition: &Condition) -> Result<PutMode> {
    match condition {
        Condition { if_match: None, if_none_match: None, modified_s: None, size: None } => Ok(PutMode::Overwrite),
        Condition { if_match: None, if_none_match: Some(Match::Any), modified_s: None, size: None } => {
            Ok(PutMode::Create)
        }
        Condition { if_match: Some(Match::Etag(etag)), if_none_match: None, modified_s: None, size: None } => {
            Ok(PutMode::Update(UpdateVersion { e_tag: Some(format!("\"{etag}\"")), version: None }))
        }
        _ => Err(StoreError::Unsupported(
            "a gateway passes on If-None-Match: * and If-Match with an ETag, no other conditions".to_owned(),
        )),
    }
}

fn sent_attributes(attributes: &Attributes) -> Result<object_store::Attributes> {
    if attributes.expires.is_some() {
        return Err(StoreError::Unsupported("a gateway does not pass on the Expires header".to_owned()));
    }
    let known = [
        (Attribute::ContentType, &attributes.content_type),
        (Attribute::ContentEncoding, &attributes.content_encoding),
        (Attribute::ContentDisposition, &attributes.content_disposition),
        (Attribute::ContentLanguage, &attributes.content_language),
        (Attribute::CacheControl, &attributes.cache_control),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, AttributeValue::from(value.clone()?))));
    let own = attributes.user.iter();
    let own = own.map(|(name, value)| (Attribute::Metadata(name.clone().into()), AttributeValue::from(value.clone())));
    Ok(known.chain(own).collect())
}

fn tag_set(tags: &[Tag]) -> TagSet {
    let mut set = TagSet::default();
    for tag in tags {
        set.push(&tag.key, &tag.value);
    }
    set
}
