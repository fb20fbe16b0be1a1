//! A folder behind a gateway.
//!
//! Keys are paths below the folder. An ETag is made from inode, size and modification time, not from the
//! bytes, and says so by its dash: a file that changes gets another one, and a read that meets the change
//! fails. Paths are compared with what the file system resolves them to, so that no key leaves the folder:
//! links to files inside are followed, links to folders and out of the folder are not. Names that start
//! with `.pushdowndb` are ours and hidden; names that are not UTF-8 cannot be keys. A folder keeps bytes: headers,
//! metadata and tags of an upload are forgotten.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pushdown::Error;
use tokio::task::spawn_blocking;

use super::{Behind, bucket_name};
use crate::Limits;
use crate::store::data::{Reading, Witness};
use crate::store::listing::{self, Cursor};
use crate::store::{
    BucketMeta, Condition, ListPage, ListQuery, Object, ObjectData, ObjectMeta, PutOptions, Result, StoreError,
};

/// Files and folders whose names start so are not served.
pub(super) const PRIVATE: &str = ".pushdowndb";

/// A folder of someone else's. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub root: PathBuf,
    bucket: String,
    limits: Limits,
    reading: Reading,
    /// Held while a condition is checked and the file put in place, so that of two writers one loses.
    pub placing: Mutex<()>,
}

impl Folder {
    /// Serves `dir`. Blocks.
    pub fn open(dir: &Path, bucket: Option<&str>, limits: Limits) -> pushdown::Result<Self> {
        let refused =
            |error: io::Error| Error::invalid(format!("cannot serve the folder {}", dir.display())).with_source(error);
        let root = dir.canonicalize().map_err(refused)?;
        fs::read_dir(&root).map_err(refused)?;
        let named = || bucket_name(&root.file_name().map(|name| name.to_string_lossy()).unwrap_or_default());
        let bucket = bucket.map_or_else(named, str::to_owned);
        let reading = Reading::new(&limits);
        Ok(Self { shared: Arc::new(Shared { root, bucket, limits, reading, placing: Mutex::default() }) })
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Shared) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(StoreError::task)?
    }
}

impl Shared {
    fn file(&self, key: &str) -> Result<(fs::File, fs::Metadata)> {
        let missing = || StoreError::NoSuchKey(key.to_owned());
        let path = self.resolve(key).ok_or_else(missing)?;
        let io = |source| StoreError::Io { context: format!("cannot open '{key}'"), source };
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(io(error)),
        };
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_file() { Ok((file, metadata)) } else { Err(missing()) }
    }

    /// The file of a key, if the key names one inside the folder.
    fn resolve(&self, key: &str) -> Option<PathBuf> {
        let path = self.path(key)?;
        // The folders on the way are folders, not links.
        if path.parent()?.canonicalize().ok()? != path.parent()? {
            return None;
        }
        let target = path.canonicalize().ok()?;
        target.starts_with(&self.root).then_some(target)
    }

    /// Where the file of a key would be, whether or not the folders on the way are what they seem.
    pub fn path(&self, key: &str) -> Option<PathBuf> {
        let hidden = |name: &str| name.is_empty() || name == "." || name == ".." || name.starts_with(PRIVATE);
        if key.contains('\0') || key.split('/').any(hidden) {
            return None;
        }
        let relative = Path::new(key);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        plain.then(|| self.root.join(relative))
    }
}

pub(super) fn meta(metadata: &fs::Metadata) -> ObjectMeta {
    let witness = Witness::of(metadata);
    ObjectMeta {
        size: witness.size,
        etag: format!("{:x}-{:x}-{:x}", witness.inode, witness.size, witness.modified_ns),
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
            let created = fs::metadata(&shared.root).map_err(StoreError::io("the served folder is gone"))?;
            let created_ms = meta(&created).modified_ms;
            Ok(BucketMeta { name: shared.bucket.clone(), created_ms, ..BucketMeta::default() })
        })
        .await
    }

    async fn open(&self, key: &str) -> Result<Object> {
        let key = key.to_owned();
        self.blocking(move |shared| {
            let (file, metadata) = shared.file(&key)?;
            let location = format!("s3://{}/{key}", shared.bucket);
            let data = ObjectData::watched(location, &shared.reading, file, Witness::of(&metadata));
            Ok(Object { meta: meta(&metadata), data })
        })
        .await
    }

    async fn list(&self, query: ListQuery) -> Result<ListPage> {
        self.blocking(move |shared| listing::list(&mut Walk { shared, levels: Vec::new() }, &query)).await
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

/// A walk over the files below the root in the order of their keys.
///
/// A folder sorts as its name with a slash, which is how its keys sort among the names beside it.
struct Walk<'a> {
    shared: &'a Shared,
    levels: Vec<Level>,
}

struct Level {
    /// The key prefix of this folder: empty, or ending in a slash.
    prefix: String,
    /// Names in order; folders with their slash.
    names: Vec<String>,
    at: usize,
}

impl Walk<'_> {
    fn level(&self, prefix: String) -> Result<Level> {
        let folder = self.shared.root.join(&prefix);
        let io = |source| StoreError::Io { context: format!("cannot list the folder {}", folder.display()), source };
        let limit = self.shared.limits.directory_entries;
        let mut names = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Removed since its parent was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Level { prefix, names, at: 0 }),
            Err(error) => return Err(io(error)),
        };
        for entry in entries {
            let entry = entry.map_err(io)?;
            let Ok(mut name) = entry.file_name().into_string() else { continue };
            if name.starts_with(PRIVATE) {
                continue;
            }
            if entry.file_type().map_err(io)?.is_dir() {
                name.push('/');
            }
            if names.len() == limit {
                return Err(StoreError::TooMany { what: "entries in one folder", limit });
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(Level { prefix, names, at: 0 })
    }
}

impl Cursor for Walk<'_> {
    fn seek(&mut self, at: &[u8]) -> Result<()> {
        self.levels.clear();
        let mut prefix = String::new();
        loop {
            let mut level = self.level(prefix)?;
            // What of `at` is below this folder; the folder itself is a prefix of `at`, so all of its names
            // are compared with the rest.
            let rest = at.get(level.prefix.len()..).unwrap_or_default();
            level.at = level.names.partition_point(|name| name.as_bytes() < rest);
            // Only the name just before can be a folder on the way to `at`: it sorts before everything in it.
            let on_the_way = level.at.checked_sub(1).and_then(|before| level.names.get(before));
            let below = on_the_way.filter(|name| name.ends_with('/') && rest.starts_with(name.as_bytes()));
            let below = below.map(|name| format!("{}{name}", level.prefix));
            self.levels.push(level);
            match below {
                Some(next) => prefix = next,
                None => return Ok(()),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.get(level.at) else {
                self.levels.pop();
                continue;
            };
            level.at += 1;
            let key = format!("{}{name}", level.prefix);
            if key.ends_with('/') {
                let below = self.level(key)?;
                self.levels.push(below);
                continue;
            }
            // Links out of the folder, sockets and files that vanished are not objects.
            let Some(path) = self.shared.resolve(&key) else { continue };
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_file() => return Ok(Some((key.into_bytes(), meta(&metadata)))),
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
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
