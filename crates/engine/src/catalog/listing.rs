//! The objects of a table as they are now: one LIST, or one HEAD for a single object.
//!
//! Each object comes with the ETag that every later request for it must confirm. Unless a glob asks
//! for them, these are left out: folder markers, empty objects, bookkeeping, and objects whose
//! extension is that of another format or of a side file (`schema.sql` beside `*.csv`;
//! `import.log`, unless the table was declared to be text). Nothing else is dropped by its name: an
//! unknown extension is read, because a missing row is worse than an error. An empty result is an
//! error that tells a missing bucket from a prefix without matches.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::list_folders::list_all;
use super::object::DataObject;
use super::options::{FileName, Kind};
use super::{PRIVATE_FOLDER, TableLocation, manifest};
use crate::error::from_object_store;

/// Error code of [`nothing`].
const NOTHING_THERE: &str = "NothingThere";

/// Maximum number of locations in a list that are listed concurrently.
const MAX_LISTED_TOGETHER: usize = 8;

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
    /// Its objects; `None` if the listing of the table does not show them.
    pub objects: Option<Vec<ObjectMeta>>,
}

/// The format that a listing is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asked {
    /// Any format; it is inferred from the objects.
    Anything,
    /// A format that was inferred before.
    Found(Kind),
    /// A format that was declared.
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

/// Lists the objects of a location, sorted by path and without partition values, and the objects of
/// its private folder that the same LIST returns.
pub(crate) async fn list_with_private(
    store: &dyn ObjectStore,
    location: &TableLocation,
    asked: Asked,
) -> Result<(Vec<DataObject>, PrivateFolder)> {
    if !location.members().is_empty() {
        return list_members(store, location, asked).await;
    }
    if let Some(path) = location.manifest() {
        let objects = manifest::objects(store, location, path).await?;
        return Ok((objects, PrivateFolder { path: private_path("")?, objects: Some(vec![]) }));
    }
    if !location.is_collection() {
        match store.head(location.prefix()).await {
            Ok(meta) => {
                let folder = meta.location.as_ref().rsplit_once('/').map_or("", |(folder, _)| folder);
                let private = PrivateFolder { path: private_path(folder)?, objects: None };
                return Ok((vec![meta.into()], private));
            }
            // It may be a folder written without its slash, unless the store cannot list.
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
        list_all(store, prefix).await.map(|mut found| {
            private.objects = Some(found.extract_if(.., |meta| is_below(&meta.location, &private.path)).collect());
            found
        })
    };
    let found = listed.map_err(|error| failed(error, location))?;
    let is_empty = found.is_empty();
    let mut objects: Vec<DataObject> = found.into_iter().map(DataObject::from).collect();
    objects.retain(|object| location.matches(&object.path));
    if location.glob().is_none() {
        let is_log = |object: &DataObject| object.size > 0 && FileName::of(object.path.as_ref()).is_log;
        let logs: Vec<DataObject> = objects.iter().filter(|object| is_log(object)).cloned().collect();
        objects.retain(|object| may_be(asked, &FileName::of(object.path.as_ref())));
        // If a folder holds nothing but logs, they are the table.
        if asked == Asked::Anything && objects.iter().all(|object| object.size == 0) && !logs.is_empty() {
            objects = logs;
        }
    }
    // If there are only empty objects, one of the table's format stands for a table without rows.
    let is_written = |object: &DataObject| {
        let name = FileName::of(object.path.as_ref());
        asked.kind().is_some_and(|kind| name.kind == Some(kind))
    };
    match objects.iter().any(|object| object.size > 0) {
        true => objects.retain(|object| object.size > 0),
        false => objects = objects.into_iter().find(is_written).into_iter().collect(),
    }
    if objects.is_empty() {
        // The glob may be the literal name of an object, with brackets or a question mark in it.
        let literal = location.glob().and_then(|glob| Path::parse(format!("{}/{glob}", location.prefix())).ok());
        if let Some(literal) = literal
            && let Ok(found) = store.head(&literal).await
        {
            return Ok((vec![DataObject::from(found)], private));
        }
        return Err(nothing(location, is_empty));
    }
    objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok((objects, private))
}

/// Returns the addresses of the objects at a location, sorted; an empty list if there are none.
pub(crate) async fn names(store: &dyn ObjectStore, location: &TableLocation) -> Result<Vec<String>> {
    Ok(addressed(store, location).await?.into_iter().map(|(address, _)| address).collect())
}

/// Returns the objects at a location, of any format and size, sorted by address; an empty list if
/// there are none.
pub(crate) async fn addressed(store: &dyn ObjectStore, location: &TableLocation) -> Result<Vec<(String, ObjectMeta)>> {
    let members = match location.members() {
        [] => std::slice::from_ref(location),
        members => members,
    };
    let mut found = Vec::new();
    for member in members {
        if !member.is_collection() {
            match store.head(member.prefix()).await {
                Ok(meta) => {
                    found.push((member.address(member.prefix()), meta));
                    continue;
                }
                Err(object_store::Error::NotFound { .. }) if member.can_list() => {}
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(failed(error, member)),
            }
        }
        let prefix = (!member.prefix().is_root()).then(|| member.prefix());
        let mut listed = store.list(prefix);
        while let Some(meta) = listed.try_next().await.map_err(|error| failed(error, member))? {
            if member.matches(&meta.location) {
                found.push((member.address(&meta.location), meta));
            }
        }
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// Lists the objects of a list of locations. Fails if a location has no objects; if the list is one
/// place at several endpoints, only if none of them has any.
fn list_members<'a>(
    store: &'a dyn ObjectStore,
    location: &'a TableLocation,
    asked: Asked,
) -> BoxFuture<'a, Result<(Vec<DataObject>, PrivateFolder)>> {
    let list = move |member: &'a TableLocation| list_with_private(store, member, asked).boxed();
    let all: Vec<_> = location.members().iter().map(list).collect();
    async move {
        let all: Vec<Result<_>> = stream::iter(all).buffered(MAX_LISTED_TOGETHER).collect().await;
        let is_one_place = location.is_one_place();
        let (mut found, mut empty) = (Vec::with_capacity(all.len()), None);
        for listed in all {
            match listed {
                Err(error) if is_one_place && error.code() == Some(NOTHING_THERE) => empty = empty.or(Some(error)),
                listed => found.push(listed?),
            }
        }
        match empty {
            Some(error) if found.is_empty() => Err(error),
            _ => combined(location, found),
        }
    }
    .boxed()
}

/// Combines the objects found for the members of a list. Fails if an object was found twice.
fn combined(
    location: &TableLocation,
    found: Vec<(Vec<DataObject>, PrivateFolder)>,
) -> Result<(Vec<DataObject>, PrivateFolder)> {
    let mut objects: Vec<DataObject> = found.into_iter().flat_map(|(objects, _)| objects).collect();
    objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let twice = objects.windows(2).find_map(|pair| match pair {
        [a, b] if a.path == b.path => Some(a),
        _ => None,
    });
    if let Some(twice) = twice {
        let address = location.address(&twice.path);
        return Err(Error::invalid(format!("{address}: stands twice in the list; each object is read once")));
    }
    // Indexes belong to folders, so a list has none.
    let private = PrivateFolder { path: private_path(location.prefix().as_ref())?, objects: Some(vec![]) };
    Ok((objects, private))
}

/// Returns the objects in the folder `location` that a table of the format `extension` would read,
/// including empty ones.
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

/// Returns whether an object of this name may hold data of the format `asked` for.
fn may_be(asked: Asked, name: &FileName) -> bool {
    let is_text = |kind| matches!(kind, Kind::Csv | Kind::Tsv);
    match (asked.kind(), name.kind) {
        (Some(table), Some(object)) => table == object || is_text(table) && is_text(object),
        _ if name.is_log => matches!(asked, Asked::Declared(kind) if kind != Kind::Parquet),
        _ => !name.is_side_file,
    }
}

fn failed(error: object_store::Error, location: &TableLocation) -> Error {
    if let object_store::Error::InvalidPath { .. } = error {
        return Error::unsupported(format!(
            "{location}: there is a key with an empty segment, '.' or '..' between its slashes, which cannot be read \
             ({error}); move that object to another key, or name folders without it"
        ));
    }
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
    Error::new(ErrorKind::NotFound, format!("{location}: {reason}")).with_code(NOTHING_THERE)
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
        // A listing of one folder only shows that the private folder exists; one of a single object
        // does not even show that.
        assert_eq!(private("s3://b/t/*.csv").await, (folder.clone(), None));
        assert_eq!(private("s3://b/t/a.csv").await, (folder, None));
        assert_eq!(private("s3://b/u/*.csv").await, ("u/_pushdowndb".to_owned(), Some(vec![])));
        assert_eq!(private("s3://b/").await, ("_pushdowndb".to_owned(), Some(vec![])));
    }

    #[tokio::test]
    async fn a_declared_table_may_hold_no_row() {
        let store = store(&[("e/0.json", ""), ("e/1.json", ""), ("e/_SUCCESS", "")]).await;
        assert_eq!(paths(&store, "s3://b/e/", Some(Kind::Json)).await.unwrap(), ["e/0.json"]);
        // No format is declared, or one that the objects do not have.
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
