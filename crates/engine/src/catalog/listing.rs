//! The objects of a table as they are now: one LIST, or one HEAD for a single object.
//!
//! Each object comes with the ETag that every later request for it must confirm. Unless a glob asks
//! for them, these are left out: folder markers, empty objects, bookkeeping, and objects whose
//! extension is that of another format or of a side file (`schema.sql` beside `*.csv`;
//! `import.log`, unless the table was declared to be text). Nothing else is dropped by its name: an
//! unknown extension is read, because a missing row is worse than an error. An empty result is an
//! error that tells a missing bucket from a prefix without matches.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, FingerprintBuilder, Result};

use super::options::{FileName, Kind};
use super::{PRIVATE_FOLDER, TableLocation};
use crate::error::from_object_store;

/// An object of a table, as it was when the query was planned.
#[derive(Clone, Debug, PartialEq)]
pub struct DataObject {
    /// The key in the bucket, or the path.
    pub path: Path,
    /// The size in bytes.
    pub size: u64,
    /// The ETag that every request must confirm; `None` if the store has none.
    pub etag: Option<String>,
    /// The time of the last write.
    pub last_modified: DateTime<Utc>,
    /// The values of the table's partition columns, in their order.
    pub partition_values: Vec<ScalarValue>,
    /// The object's own columns, if they are not the table's ([`super::ObjectColumns`]).
    pub columns: Option<Arc<super::ObjectColumns>>,
}

impl From<ObjectMeta> for DataObject {
    fn from(meta: ObjectMeta) -> Self {
        Self {
            path: meta.location,
            size: meta.size,
            etag: meta.e_tag,
            last_modified: meta.last_modified,
            partition_values: Vec::new(),
            columns: None,
        }
    }
}

impl DataObject {
    /// Adds the path and what tells this version of the object from others to a fingerprint.
    pub(crate) fn add_to(&self, fingerprint: FingerprintBuilder) -> FingerprintBuilder {
        let written_ns = self.last_modified.timestamp_nanos_opt().unwrap_or_default();
        fingerprint
            .text(self.path.as_ref())
            .number(self.size)
            .optional(self.etag.as_deref().map(str::as_bytes))
            .number(written_ns.cast_unsigned())
    }

    /// Reads a range of the object as it was listed; `address` is for messages.
    pub(crate) async fn fetch(&self, store: &dyn ObjectStore, range: Range<u64>, address: &str) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { range, if_match: self.etag.clone(), ..GetOptions::default() };
        let fetched = async { store.get_opts(&self.path, options).await?.bytes().await };
        fetched.await.map_err(|error| match error {
            object_store::Error::Precondition { .. } => {
                let message = format!("{address}: was replaced while it was looked at; run it again");
                Error::new(ErrorKind::Conflict, message)
            }
            error => from_object_store(error).context(address),
        })
    }
}

/// The objects at a location.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The table's objects, sorted by path.
    pub objects: Arc<Vec<DataObject>>,
    /// PushdownDB's own objects beside them.
    pub private: PrivateFolder,
}

/// PushdownDB's own objects beside those of a table.
#[derive(Clone, Debug)]
pub struct PrivateFolder {
    /// The folder, which need not exist.
    pub path: Path,
    /// Its objects, if the table's own listing shows them.
    pub objects: Option<Vec<ObjectMeta>>,
}

/// The kind of the objects of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asked {
    /// To be found out.
    Anything,
    /// Found by the objects' names.
    Found(Kind),
    /// Declared.
    Declared(Kind),
}

impl Asked {
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Anything => None,
            Self::Found(kind) | Self::Declared(kind) => Some(kind),
        }
    }
}

/// Lists the objects of a location, sorted by path, without partition values, and those of its
/// private folder that the same listing shows.
pub(crate) async fn list_with_private(
    store: &dyn ObjectStore,
    location: &TableLocation,
    asked: Asked,
) -> Result<(Vec<DataObject>, PrivateFolder)> {
    if !location.is_collection() {
        match store.head(location.prefix()).await {
            Ok(meta) => {
                let folder = meta.location.as_ref().rsplit_once('/').map_or("", |(folder, _)| folder);
                let private = PrivateFolder { path: private_path(folder)?, objects: None };
                return Ok((vec![meta.into()], private));
            }
            // It may be a folder written without its slash; a store that cannot list knows no more.
            Err(object_store::Error::NotFound { .. }) if location.can_list() => {}
            Err(error) => return Err(failed(error, location)),
        }
    }
    let prefix = (!location.prefix().is_root()).then(|| location.prefix());
    let mut private = PrivateFolder { path: private_path(location.prefix().as_ref())?, objects: Some(vec![]) };
    let listed = if location.is_one_folder() {
        store.list_with_delimiter(prefix).await.map(|found| {
            if found.common_prefixes.contains(&private.path) {
                private.objects = None;
            }
            found.objects
        })
    } else {
        store.list(prefix).try_collect::<Vec<_>>().await.map(|mut found| {
            private.objects = Some(found.extract_if(.., |meta| is_below(&meta.location, &private.path)).collect());
            found
        })
    };
    let found = listed.map_err(|error| failed(error, location))?;
    let is_empty = found.is_empty();
    let mut objects: Vec<DataObject> = found.into_iter().map(DataObject::from).collect();
    objects.retain(|object| location.matches(&object.path));
    if location.glob().is_none() {
        objects.retain(|object| may_be(asked, &FileName::of(object.path.as_ref())));
    }
    // Only empty objects of the declared kind: one of them is a table without rows.
    let is_written = |object: &DataObject| {
        let name = FileName::of(object.path.as_ref());
        asked.kind().is_some_and(|kind| name.kind == Some(kind))
    };
    match objects.iter().any(|object| object.size > 0) {
        true => objects.retain(|object| object.size > 0),
        false => objects = objects.into_iter().find(is_written).into_iter().collect(),
    }
    if objects.is_empty() {
        return Err(nothing(location, is_empty));
    }
    objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok((objects, private))
}

/// The objects in the folder `location` that a table of the format `extension` there would read,
/// empty ones included.
pub(crate) async fn held(
    store: &dyn ObjectStore,
    location: &TableLocation,
    extension: &str,
) -> Result<Vec<ObjectMeta>> {
    let asked = Kind::from_word(extension).map_or(Asked::Anything, Asked::Found);
    let prefix = (!location.prefix().is_root()).then(|| location.prefix());
    let listed = store.list(prefix).try_collect::<Vec<_>>().await;
    let mut found = listed.map_err(|error| from_object_store(error).context(location))?;
    found.retain(|meta| location.matches(&meta.location) && may_be(asked, &FileName::of(meta.location.as_ref())));
    found.sort_unstable_by(|a, b| a.location.cmp(&b.location));
    Ok(found)
}

fn private_path(folder: &str) -> Result<Path> {
    let path = if folder.is_empty() { PRIVATE_FOLDER.to_owned() } else { format!("{folder}/{PRIVATE_FOLDER}") };
    Path::parse(&path).map_err(|e| Error::internal(format!("'{path}' is no path of objects")).with_source(e))
}

fn is_below(path: &Path, folder: &Path) -> bool {
    path.as_ref().strip_prefix(folder.as_ref()).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether an object of this name may hold data of the kind that is asked for.
fn may_be(asked: Asked, name: &FileName) -> bool {
    let is_text = |kind| matches!(kind, Kind::Csv | Kind::Tsv);
    match (asked.kind(), name.kind) {
        (Some(table), Some(object)) => table == object || is_text(table) && is_text(object),
        _ if name.is_log => matches!(asked, Asked::Declared(kind) if kind != Kind::Parquet),
        _ => !name.is_side_file,
    }
}

fn failed(error: object_store::Error, location: &TableLocation) -> Error {
    let error = from_object_store(error);
    match location.bucket_name() {
        Some(bucket) if error.kind() == ErrorKind::NotFound && location.can_list() => Error::new(
            ErrorKind::NotFound,
            format!("{location}: the bucket '{bucket}' does not exist at this endpoint; check its name and --endpoint"),
        )
        .with_source(error),
        _ => error.context(location),
    }
}

fn nothing(location: &TableLocation, prefix_is_empty: bool) -> Error {
    let prefix = location.address(location.prefix());
    let reason = match location.glob() {
        _ if prefix_is_empty => format!("there is no object at {prefix} nor below it"),
        Some(glob) => {
            format!("no object below {prefix} matches '{glob}' ('*' stays within a folder, '**' crosses folders)")
        }
        None => {
            format!("{prefix} holds nothing but empty objects, bookkeeping and other formats; name objects by a glob")
        }
    };
    Error::new(ErrorKind::NotFound, format!("{location}: {reason}"))
}

#[cfg(test)]
mod tests {
    use object_store::PutPayload;
    use object_store::memory::InMemory;

    use super::*;
    use crate::access::Access;

    async fn list(store: &dyn ObjectStore, location: &TableLocation, asked: Asked) -> Result<Vec<DataObject>> {
        list_with_private(store, location, asked).await.map(|(objects, _)| objects)
    }

    async fn store(objects: &[(&str, &str)]) -> InMemory {
        let store = InMemory::new();
        for (path, text) in objects {
            store.put(&Path::parse(path).unwrap(), PutPayload::from(text.to_string())).await.unwrap();
        }
        store
    }

    async fn paths(store: &InMemory, location: &str, kind: Option<Kind>) -> Result<Vec<String>> {
        let asked = kind.map_or(Asked::Anything, Asked::Declared);
        let objects = list(store, &TableLocation::parse(location, &Access::everything())?, asked).await?;
        Ok(objects.into_iter().map(|o| o.path.to_string()).collect())
    }

    #[tokio::test]
    async fn folders_hold_what_can_be_data() {
        let all = [
            ("t/b.csv", "1"),
            ("t/a.csv", "1"),
            ("t/deep/c", "1"),
            ("t/empty.csv", ""),
            ("t/_SUCCESS", "x"),
            ("t/_pushdowndb/i.csv", "x"),
            ("t/schema.sql", "x"),
            ("t/d.parquet", "x"),
            ("t2/x.csv", "x"),
        ];
        let store = store(&all).await;
        assert_eq!(paths(&store, "s3://b/t/", Some(Kind::Csv)).await.unwrap(), ["t/a.csv", "t/b.csv", "t/deep/c"]);
        // Without its slash it is the same folder.
        assert_eq!(paths(&store, "s3://b/t", Some(Kind::Csv)).await.unwrap().len(), 3);
        assert_eq!(paths(&store, "s3://b/t/", None).await.unwrap().len(), 4);
        assert_eq!(paths(&store, "s3://b/t/*.sql", None).await.unwrap(), ["t/schema.sql"]);
        assert_eq!(paths(&store, "s3://b/t*/?.csv", None).await.unwrap(), ["t/a.csv", "t/b.csv", "t2/x.csv"]);
    }

    #[tokio::test]
    async fn logs_are_data_where_that_was_declared() {
        let all = ["t/a.log", "t/b.log.gz", "t/c.json.gz", "t/d.ndjson", "t/e"].map(|path| (path, "1"));
        let store = store(&all).await;
        assert_eq!(paths(&store, "s3://b/t/", Some(Kind::Json)).await.unwrap().len(), 5);
        assert_eq!(paths(&store, "s3://b/t/", Some(Kind::Csv)).await.unwrap(), ["t/a.log", "t/b.log.gz", "t/e"]);
        assert_eq!(paths(&store, "s3://b/t/", Some(Kind::Parquet)).await.unwrap(), ["t/e"]);
        let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
        let found = list(&store, &location, Asked::Found(Kind::Json)).await.unwrap();
        let found: Vec<_> = found.iter().map(|object| object.path.as_ref()).collect();
        assert_eq!(found, ["t/c.json.gz", "t/d.ndjson", "t/e"]);
        assert_eq!(paths(&store, "s3://b/t/", None).await.unwrap(), found);
    }

    #[tokio::test]
    async fn listings_tell_of_our_own_objects() {
        let own = "t/_pushdowndb/indexes/i/a/manifest.json";
        let store = store(&[("t/a.csv", "1"), (own, "x"), ("t/_pushdowndb2/x", "x"), ("u/b.csv", "1")]).await;
        let private = async |location: &str| {
            let location = TableLocation::parse(location, &Access::everything()).unwrap();
            let (objects, private) = list_with_private(&store, &location, Asked::Declared(Kind::Csv)).await.unwrap();
            assert!(objects.iter().all(|object| !object.path.as_ref().contains("_pushdowndb")));
            let paths = |objects: Vec<ObjectMeta>| objects.iter().map(|o| o.location.to_string()).collect::<Vec<_>>();
            (private.path.to_string(), private.objects.map(paths))
        };
        let folder = "t/_pushdowndb".to_owned();
        assert_eq!(private("s3://b/t/").await, (folder.clone(), Some(vec![own.to_owned()])));
        assert_eq!(private("s3://b/t").await, (folder.clone(), Some(vec![own.to_owned()])));
        assert_eq!(private("s3://b/t/**/*.csv").await, (folder.clone(), Some(vec![own.to_owned()])));
        // A listing of one folder shows only that it exists; one of a single object does not even
        // show that.
        assert_eq!(private("s3://b/t/*.csv").await, (folder.clone(), None));
        assert_eq!(private("s3://b/t/a.csv").await, (folder, None));
        assert_eq!(private("s3://b/u/*.csv").await, ("u/_pushdowndb".to_owned(), Some(vec![])));
        assert_eq!(private("s3://b/").await, ("_pushdowndb".to_owned(), Some(vec![])));
    }

    #[tokio::test]
    async fn a_declared_table_may_hold_no_row() {
        let store = store(&[("e/0.json", ""), ("e/1.json", ""), ("e/_SUCCESS", "")]).await;
        assert_eq!(paths(&store, "s3://b/e/", Some(Kind::Json)).await.unwrap(), ["e/0.json"]);
        // The kind of these is not declared.
        assert!(paths(&store, "s3://b/e/", None).await.is_err());
        assert!(paths(&store, "s3://b/e/", Some(Kind::Csv)).await.is_err());
    }

    #[tokio::test]
    async fn one_object_is_taken_as_named() {
        let store = store(&[("t/_odd.sql", "1"), ("t/empty", "")]).await;
        assert_eq!(paths(&store, "s3://b/t/_odd.sql", Some(Kind::Csv)).await.unwrap(), ["t/_odd.sql"]);
        assert_eq!(paths(&store, "s3://b/t/empty", None).await.unwrap(), ["t/empty"]);
        let location = TableLocation::parse("s3://b/t/_odd.sql", &Access::everything()).unwrap();
        assert!(list(&store, &location, Asked::Anything).await.unwrap()[0].etag.is_some());
    }

    #[tokio::test]
    async fn nothing_found_says_why() {
        let store = store(&[("t/a.csv", "1"), ("e/a.csv", "")]).await;
        for (location, part) in [
            ("s3://b/none/", "there is no object at s3://b/none"),
            ("s3://b/none.csv", "there is no object at s3://b/none.csv"),
            ("s3://b/t/*.json", "matches '*.json'"),
            ("s3://b/e/", "nothing but empty"),
        ] {
            let error = paths(&store, location, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[tokio::test]
    async fn local_folders_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = object_store::local::LocalFileSystem::new();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        for name in ["b 1.csv", "deep/a.csv", ".hidden.csv"] {
            std::fs::write(folder.path().join(name), "1").unwrap();
        }
        let found = async |location: &str| {
            let objects =
                list(&store, &TableLocation::parse(location, &Access::everything())?, Asked::Declared(Kind::Csv))
                    .await?;
            let name = |object: &DataObject| object.path.as_ref().rsplit('/').next().map(str::to_owned);
            Ok::<_, Error>(objects.iter().filter_map(name).collect::<Vec<_>>())
        };
        let path = folder.path().to_str().unwrap();
        assert_eq!(found(path).await.unwrap(), ["b 1.csv", "a.csv"]);
        assert_eq!(found(&format!("{path}/*.csv")).await.unwrap(), ["b 1.csv"]);
        assert_eq!(found(&format!("{path}/b 1.csv")).await.unwrap(), ["b 1.csv"]);
        assert_eq!(found(&format!("file://{path}/b%201.csv")).await.unwrap(), ["b 1.csv"]);
        for missing in ["none.csv", "none/", "none/*.csv"] {
            let error = found(&format!("{path}/{missing}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains("there is no object at"), "{error}");
        }
    }

    #[test]
    fn missing_buckets_are_named() {
        let location = TableLocation::parse("s3://nowhere/t/", &Access::everything()).unwrap();
        let store_error = object_store::Error::NotFound { path: "t".into(), source: "NoSuchBucket".into() };
        let error = failed(store_error, &location);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("bucket 'nowhere' does not exist"), "{error}");
    }
}
