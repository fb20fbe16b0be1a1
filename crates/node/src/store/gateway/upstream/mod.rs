//! A bucket or web server behind a gateway, through `object_store`.
//!
//! Keys are forwarded unchanged. Keys that `object_store` cannot express are not served: with an
//! empty, `.` or `..` segment, a slash at either end, or control characters. Zero-byte folder
//! markers, whose keys end with a slash, are listed and cannot be read.

mod client;
mod connect;
mod list;
mod read;
mod scan;
mod send;

use std::sync::Arc;

use async_trait::async_trait;
use object_store::{GetOptions, ObjectStore};

use super::backend::Backend;
use crate::store::{BucketMeta, Condition, ListPage, ListQuery, Object, ObjectData, PutOptions, Result};
use client::{failed, meta};
use read::UpstreamObject;

pub(super) use client::Upstream;

#[async_trait]
impl Backend for Upstream {
    fn name(&self) -> &str {
        &self.bucket
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn bucket(&self) -> Result<BucketMeta> {
        // The creation time is not requested.
        Ok(BucketMeta { name: self.bucket.clone(), ..BucketMeta::default() })
    }

    async fn open(&self, key: &str) -> Result<Object> {
        let path = self.path_to_read(key)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let seen = self.connection.store.get_opts(&path, options).await.map_err(|error| failed(error, key))?;
        let object = UpstreamObject::new(self, format!("s3://{}/{key}", self.bucket), path, &seen.meta);
        let is_pinned = object.is_pinned();
        Ok(Object { meta: meta(&seen), data: ObjectData::remote(Arc::new(object), is_pinned) })
    }

    async fn list(&self, query: ListQuery) -> Result<ListPage> {
        self.page(query).await
    }

    fn check_writable(&self, key: &str) -> Result<()> {
        self.path_to_write(key).map(drop)
    }

    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String> {
        self.send_object(key, object, options).await
    }

    async fn delete(&self, key: String, condition: Condition) -> Result<()> {
        self.delete_object(key, condition).await
    }
}
