//! Sends objects to a server behind a gateway.
//!
//! A small object is sent in one request, a large one in parts, which become visible together.

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, ObjectStoreExt, PutMode, PutMultipartOptions, PutPayload, TagSet, UpdateVersion,
};
use pushdowndb_scan::ObjectReader;

use super::client::{Upstream, etag, failed};
use super::connect::Service;
use crate::store::{Attributes, Condition, Match, Object, PutOptions, Result, StoreError, Tag};

impl Upstream {
    /// The path of a key for a write.
    pub fn path_to_write(&self, key: &str) -> Result<Path> {
        self.path(key).ok_or_else(|| {
            StoreError::Unsupported(
                "a gateway writes no keys with empty, '.' or '..' segments, outer slashes or control characters"
                    .to_owned(),
            )
        })
    }

    /// Sends an object, in one request or in parts. Returns its ETag on the server.
    pub async fn send_object(&self, key: &str, object: Object, sent: &PutOptions) -> Result<String> {
        let path = self.path_to_write(key)?;
        self.connection.service.takes(sent)?;
        let mode = self.pinned(&path, key, mode(&sent.condition)?).await?;
        let (attributes, tags) = (sent_attributes(&sent.attributes)?, tag_set(&sent.tags));
        let size = object.meta.size;
        // The part size: parts are equal in size, and there are at most 10,000.
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
            self.connection.store.put_opts(&path, bytes(0..size).await?, options).await.map_err(context)?
        } else if mode != PutMode::Overwrite {
            return Err(StoreError::Unsupported(format!("a gateway checks conditions of objects up to {part} bytes")));
        } else {
            let options = PutMultipartOptions { attributes, tags, ..Default::default() };
            let mut upload = self.connection.store.put_multipart_opts(&path, options).await.map_err(context)?;
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
                let seen = self.connection.store.head(&path).await.map_err(context)?;
                Ok(etag(&seen))
            }
        }
    }

    /// Converts `mode` to one that the service checks itself: Google compares generations instead
    /// of ETags.
    async fn pinned(&self, path: &Path, key: &str, mode: PutMode) -> Result<PutMode> {
        match mode {
            PutMode::Update(wanted) if self.connection.service == Service::Google => {
                let seen = self.connection.store.head(path).await.map_err(|error| failed(error, key))?;
                let same = wanted.e_tag.is_some_and(|wanted| wanted.trim_matches('"') == etag(&seen));
                match seen.version {
                    Some(version) if same => {
                        Ok(PutMode::Update(UpdateVersion { e_tag: seen.e_tag, version: Some(version) }))
                    }
                    _ => Err(StoreError::Precondition("If-Match")),
                }
            }
            mode => Ok(mode),
        }
    }

    /// Deletes a key. A key that cannot be expressed on the server counts as deleted.
    pub async fn delete_object(&self, key: String, condition: Condition) -> Result<()> {
        if condition != Condition::default() {
            return Err(StoreError::Unsupported("a gateway deletes without conditions only".to_owned()));
        }
        let Some(path) = self.path(&key) else { return Ok(()) };
        match self.connection.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error, &key)),
        }
    }
}

impl Service {
    /// Refuses attributes and tags that the service would drop, or reject with an obscure error.
    fn takes(self, sent: &PutOptions) -> Result<()> {
        match self {
            Self::Google if !sent.tags.is_empty() => {
                Err(StoreError::Unsupported("Google Cloud Storage keeps no tags".to_owned()))
            }
            Self::Azure => match sent.attributes.user.keys().find(|name| !is_identifier(name)) {
                Some(name) => Err(StoreError::Unsupported(format!(
                    "Azure keeps no metadata named '{name}': it wants an identifier"
                ))),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Converts conditions that servers check themselves, so that there is no race. Other conditions
/// are an error.
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
