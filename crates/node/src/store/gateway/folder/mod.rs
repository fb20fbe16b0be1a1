//! A folder behind a gateway.
//!
//! Keys are paths below the folder. An ETag is derived from the [`FileVersion`] instead of the
//! bytes, as its dashes show: a file that changes gets another ETag, and a read that meets a change
//! fails. Access is race-free ([`beneath`]), so that no key leaves the folder: links to files
//! inside are followed, links to folders and to the outside are not. Names that start with
//! `.pushdowndb` are hidden, names that are not UTF-8 cannot be keys, and only regular files are
//! objects. A folder stores bytes only: headers, metadata and tags of an upload are dropped.

mod beneath;
mod served;
mod walk;
mod write;

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pushdowndb_contract::Error;
use rustix::io::Errno;
use tokio::task::spawn_blocking;

use super::backend::{Backend, bucket_name};
use crate::Limits;
use crate::store::object::data::ReadContext;
use crate::store::object::file_version::FileVersion;
use crate::store::{
    BucketMeta, Condition, ListPage, ListQuery, Object, ObjectData, PutOptions, Result, StoreError, listing,
};
use beneath::Root;
use served::{ServedFolder, folder_missing, meta};
use walk::Walk;

/// A served folder as a backend. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    shared: Arc<ServedFolder>,
}

impl Folder {
    /// Serves `dir`. Blocks.
    pub fn open(dir: &Path, bucket: Option<&str>, limits: Limits) -> pushdowndb_contract::Result<Self> {
        let refused =
            |error: io::Error| Error::invalid(format!("cannot serve the folder {}", dir.display())).with_source(error);
        let root = Root::new(dir).map_err(refused)?;
        let named = || bucket_name(&root.path().file_name().map(|name| name.to_string_lossy()).unwrap_or_default());
        let bucket = bucket.map_or_else(named, str::to_owned);
        let reading = ReadContext::new(&limits);
        Ok(Self { shared: Arc::new(ServedFolder { root, bucket, limits, reading, write_lock: Mutex::default() }) })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ServedFolder) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(StoreError::task)?
    }
}

#[async_trait]
impl Backend for Folder {
    fn name(&self) -> &str {
        &self.shared.bucket
    }

    fn is_remote(&self) -> bool {
        false
    }

    async fn bucket(&self) -> Result<BucketMeta> {
        self.blocking(|shared| {
            let seen = shared.root.top().and_then(|top| top.stat(".".as_ref()));
            let created = FileVersion::from(&seen.map_err(|error: Errno| folder_missing(error.into()))?);
            let created_ms = meta(&created).modified_ms;
            Ok(BucketMeta { name: shared.bucket.clone(), created_ms, ..BucketMeta::default() })
        })
        .await
    }

    async fn open(&self, key: &str) -> Result<Object> {
        let key = key.to_owned();
        self.blocking(move |shared| {
            let (file, version) = shared.file(&key)?;
            let location = format!("s3://{}/{key}", shared.bucket);
            let data = ObjectData::watched(location, &shared.reading, file, version);
            Ok(Object { meta: meta(&version), data })
        })
        .await
    }

    async fn list(&self, query: ListQuery) -> Result<ListPage> {
        self.blocking(move |shared| listing::list(&mut Walk::new(shared), &query)).await
    }

    fn check_writable(&self, key: &str) -> Result<()> {
        self.shared.writable(key).map(drop)
    }

    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String> {
        let (key, condition) = (key.to_owned(), options.condition.clone());
        let blocks = object.data.blocks(0..object.meta.size);
        let runtime = tokio::runtime::Handle::current();
        self.blocking(move |shared| shared.write(&key, Box::pin(blocks), &condition, &runtime)).await
    }

    async fn delete(&self, key: String, condition: Condition) -> Result<()> {
        self.blocking(move |shared| shared.remove(&key, &condition)).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Gateway;
    use crate::store::Grant;
    use crate::store::gateway::GatewayStore;
    use crate::store::{Listed, Start, Store};

    fn gateway() -> (tempfile::TempDir, GatewayStore) {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("My Data_1");
        fs::create_dir_all(dir.join("a/deep")).unwrap();
        fs::create_dir_all(dir.join("empty")).unwrap();
        fs::create_dir_all(dir.join(".pushdowndb-state")).unwrap();
        for name in ["a.csv", "a/x", "a/deep/y", "a0", "b", ".pushdowndb-state/secret", ".pushdowndb.json"] {
            fs::write(dir.join(name), name).unwrap();
        }
        fs::write(outer.path().join("outside"), "no").unwrap();
        symlink("../outside", dir.join("leak")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        symlink("b", dir.join("link")).unwrap();
        let gateway = Gateway { read_only: true, ..Gateway::new(url::Url::from_file_path(&dir).unwrap()) };
        let gateway = GatewayStore::open(&gateway, Limits::default()).unwrap();
        (outer, gateway)
    }

    async fn keys(gateway: &GatewayStore, query: ListQuery) -> Vec<String> {
        let page = gateway.list(gateway.backend.name(), query).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let entries = page.entries.into_iter().map(|entry| match entry {
            Listed::Object(key, _) => text(key),
            Listed::Prefix(prefix) => format!("[{}]", text(prefix)),
        });
        entries.collect()
    }

    #[tokio::test]
    async fn lists_in_key_order_and_resumes_anywhere() {
        let (_outer, gateway) = gateway();
        assert_eq!(gateway.backend.name(), "my-data-1");
        let all = ["a.csv", "a/deep/y", "a/x", "a0", "b", "link"];
        let query = ListQuery { limit: 100, ..ListQuery::default() };
        assert_eq!(keys(&gateway, query.clone()).await, all);
        for (at, key) in all.iter().enumerate() {
            let start = Start::AfterKey(key.as_bytes().to_vec());
            assert_eq!(keys(&gateway, ListQuery { start, ..query.clone() }).await, all[at + 1..], "after {key}");
        }
        let rolled = ListQuery { delimiter: b"/".to_vec(), ..query.clone() };
        assert_eq!(keys(&gateway, rolled).await, ["a.csv", "[a/]", "a0", "b", "link"]);
        let below = ListQuery { prefix: b"a/d".to_vec(), ..query };
        assert_eq!(keys(&gateway, below).await, ["a/deep/y"]);
    }

    #[tokio::test]
    async fn nothing_outside_is_reached() {
        let (_outer, gateway) = gateway();
        let bucket = gateway.backend.name();
        assert_eq!(gateway.head(bucket, "a/deep/y").await.unwrap().size, 8);
        for key in [
            "leak",
            "up/outside",
            "../outside",
            "a/../b",
            "a//x",
            "/etc/passwd",
            "a",
            "a/",
            "./b",
            "",
            "a\0",
            ".pushdowndb.json",
            ".pushdowndb-state/secret",
        ] {
            assert!(matches!(gateway.open(bucket, key).await, Err(StoreError::NoSuchKey(_))), "{key}");
        }
        assert!(matches!(gateway.head("other", "b").await, Err(StoreError::NoSuchBucket(_))));
        assert!(matches!(
            gateway.create_bucket("more", Default::default(), Grant::node()).await,
            Err(StoreError::ReadOnly)
        ));
    }

    #[tokio::test]
    async fn a_change_changes_the_etag_and_fails_the_read() {
        use futures::TryStreamExt;
        let (outer, gateway) = gateway();
        let object = gateway.open(gateway.backend.name(), "b").await.unwrap();
        let read = |object: &Object| object.data.blocks(0..object.meta.size).try_collect::<Vec<_>>();
        assert_eq!(read(&object).await.unwrap().concat(), b"b");
        fs::write(outer.path().join("My Data_1/b"), "longer").unwrap();
        assert!(read(&object).await.is_err());
        let now = gateway.head(gateway.backend.name(), "b").await.unwrap();
        assert_ne!(now.etag, object.meta.etag);
    }
}
