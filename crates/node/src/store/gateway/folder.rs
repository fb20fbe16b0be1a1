//! A folder behind a gateway.
//!
//! Keys are paths below the folder. An ETag is made from what tells a version of the file from the next
//! ([`Witness`]), not from the bytes, and says so by its dashes: a file that changes gets another one, and a read
//! that meets the change fails. Names are reached without a race ([`super::beneath`]), so that no key leaves the
//! folder: links to files inside are followed, links to folders and out of the folder are not. Names that start with
//! `.pushdowndb` are ours and hidden; names that are not UTF-8 cannot be keys, and what is no regular file is no
//! object. A folder keeps bytes: headers, metadata and tags of an upload are forgotten.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::sleep;

use async_trait::async_trait;
use pushdown::Error;
use rustix::io::Errno;
use tokio::task::spawn_blocking;

use super::beneath::{OpenFolder, Root, is_absence};
use super::walk::Walk;
use super::{Behind, bucket_name};
use crate::Limits;
use crate::store::data::Reading;
use crate::store::listing;
use crate::store::witness::Witness;
use crate::store::{
    BucketMeta, Condition, ListPage, ListQuery, Object, ObjectData, ObjectMeta, PutOptions, Result, StoreError,
};

/// Files and folders whose names start so are not served.
pub(super) const PRIVATE: &str = ".pushdowndb";

/// How often a file that was changed a moment ago is looked at until a later change would show.
const LOOKS: usize = 4;

/// A folder of someone else's. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub root: Root,
    bucket: String,
    pub limits: Limits,
    reading: Reading,
    /// Held while a condition is checked and the file put in place, so that of two writers one loses.
    pub placing: Mutex<()>,
}

impl Folder {
    /// Serves `dir`. Blocks.
    pub fn open(dir: &Path, bucket: Option<&str>, limits: Limits) -> pushdown::Result<Self> {
        let refused =
            |error: io::Error| Error::invalid(format!("cannot serve the folder {}", dir.display())).with_source(error);
        let root = Root::new(dir).map_err(refused)?;
        let named = || bucket_name(&root.path().file_name().map(|name| name.to_string_lossy()).unwrap_or_default());
        let bucket = bucket.map_or_else(named, str::to_owned);
        let reading = Reading::new(&limits);
        Ok(Self { shared: Arc::new(Shared { root, bucket, limits, reading, placing: Mutex::default() }) })
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Shared) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(StoreError::task)?
    }
}

/// Where the file of a key is: the path of its folder, empty for the root, and its name there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub folder: &'a str,
    pub name: &'a str,
}

impl<'a> Place<'a> {
    /// Unless the key names nothing that is served.
    pub fn of(key: &'a str) -> Option<Self> {
        let hidden = |name: &str| name.is_empty() || name == "." || name == ".." || name.starts_with(PRIVATE);
        if key.contains('\0') || key.split('/').any(hidden) {
            return None;
        }
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        Some(Self { folder, name })
    }
}

impl Shared {
    /// The folder at a path, unless there is none.
    pub fn folder(&self, path: &str) -> Result<Option<OpenFolder>> {
        match self.root.folder(path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if is_absence(error) => {
                // Not all of a bucket is missing because its disk is.
                self.root.top().map_err(|error| gone(error.into()))?;
                Ok(None)
            }
            Err(error) => Err(StoreError::io(format!("cannot open the folder '{path}'"))(error.into())),
        }
    }

    fn file(&self, key: &str) -> Result<(File, Witness)> {
        let missing = || StoreError::NoSuchKey(key.to_owned());
        let io = || StoreError::io(format!("cannot open '{key}'"));
        let place = Place::of(key).ok_or_else(missing)?;
        let folder = self.folder(place.folder)?.ok_or_else(missing)?;
        let file = match self.root.file(place.folder, &folder, place.name) {
            Ok(file) => file.ok_or_else(missing)?,
            Err(error) if is_absence(error) => return Err(missing()),
            Err(error) => return Err(io()(error.into())),
        };
        let mut witness = Witness::of(&file).map_err(io())?;
        for _ in 0..LOOKS {
            let Some(left) = witness.until_changes_show() else { break };
            sleep(left);
            witness = Witness::of(&file).map_err(io())?;
        }
        Ok((file, witness))
    }
}

fn gone(error: io::Error) -> StoreError {
    StoreError::io("the served folder is gone")(error)
}

pub(super) fn meta(witness: &Witness) -> ObjectMeta {
    ObjectMeta {
        size: witness.size,
        etag: witness.etag(),
        modified_ms: u64::try_from(witness.modified_ns / 1_000_000).unwrap_or(0),
        ..ObjectMeta::default()
    }
}

#[async_trait]
impl Behind for Folder {
    fn name(&self) -> &str {
        &self.shared.bucket
    }

    fn is_distant(&self) -> bool {
        false
    }

    async fn bucket(&self) -> Result<BucketMeta> {
        self.blocking(|shared| {
            let seen = shared.root.top().and_then(|top| top.look(".".as_ref()));
            let created = Witness::from(&seen.map_err(|error: Errno| gone(error.into()))?);
            let created_ms = meta(&created).modified_ms;
            Ok(BucketMeta { name: shared.bucket.clone(), created_ms, ..BucketMeta::default() })
        })
        .await
    }

    async fn open(&self, key: &str) -> Result<Object> {
        let key = key.to_owned();
        self.blocking(move |shared| {
            let (file, witness) = shared.file(&key)?;
            let location = format!("s3://{}/{key}", shared.bucket);
            let data = ObjectData::watched(location, &shared.reading, file, witness);
            Ok(Object { meta: meta(&witness), data })
        })
        .await
    }

    async fn list(&self, query: ListQuery) -> Result<ListPage> {
        self.blocking(move |shared| listing::list(&mut Walk::new(shared), &query)).await
    }

    fn writable(&self, key: &str) -> Result<()> {
        self.shared.writable(key).map(drop)
    }

    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String> {
        let (key, condition) = (key.to_owned(), options.condition.clone());
        let blocks = object.data.blocks(0..object.meta.size);
        let runtime = tokio::runtime::Handle::current();
        self.blocking(move |shared| shared.place(&key, Box::pin(blocks), &condition, &runtime)).await
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
        let page = gateway.list(gateway.behind.name(), query).await.unwrap();
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
        assert_eq!(gateway.behind.name(), "my-data-1");
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
        let bucket = gateway.behind.name();
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
        let object = gateway.open(gateway.behind.name(), "b").await.unwrap();
        let read = |object: &Object| object.data.blocks(0..object.meta.size).try_collect::<Vec<_>>();
        assert_eq!(read(&object).await.unwrap().concat(), b"b");
        fs::write(outer.path().join("My Data_1/b"), "longer").unwrap();
        assert!(read(&object).await.is_err());
        let now = gateway.head(gateway.behind.name(), "b").await.unwrap();
        assert_ne!(now.etag, object.meta.etag);
    }
}
