//! Manifests: JSON documents that list the objects of a table and the stores that hold each of
//! them.
//!
//! ```json
//! {"version": 1, "objects": [
//!   {"key": "t/part-0.csv", "size": 1048576, "etag": "\"9a0364b9\"",
//!    "stores": ["s3://data@http://disk1:9000", "s3://data@http://disk2:9000"]}]}
//! ```
//!
//! The first store is an object's home; the others hold the same bytes under the same key. Without
//! an `etag`, replacing the object during a query goes unnoticed.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::DateTime;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::object::DataObject;
use super::{TableLocation, stores};
use crate::access::Access;
use crate::error::from_object_store;

/// The version of manifests.
const VERSION: u32 = 1;

/// Maximum size of a manifest in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A manifest.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    objects: Vec<Entry>,
}

/// An object of a manifest.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    stores: Vec<String>,
}

impl Manifest {
    async fn read(store: &dyn ObjectStore, path: &Path) -> Result<Self> {
        let found = store.get(path).await.map_err(from_object_store)?;
        if found.meta.size > MAX_BYTES {
            return Err(Error::invalid(format!("{} bytes, where a manifest has {MAX_BYTES} at most", found.meta.size)));
        }
        Self::parse(&found.bytes().await.map_err(from_object_store)?)
    }

    fn parse(text: &Bytes) -> Result<Self> {
        let read: Self = serde_json::from_slice(text)
            .map_err(|error| Error::invalid(format!("is no manifest of objects and their stores: {error}")))?;
        if read.version != VERSION {
            let version = read.version;
            return Err(Error::unsupported(format!("a manifest of version {version}, where {VERSION} is known")));
        }
        Ok(read)
    }

    /// Returns the URL of each store, by the name that the manifest gives it.
    fn stores(&self) -> Result<HashMap<&str, ObjectStoreUrl>> {
        let mut all = HashMap::new();
        for name in self.objects.iter().flat_map(|object| &object.stores) {
            if !all.contains_key(name.as_str()) {
                let store = TableLocation::parse(name, &Access::everything())?;
                if store.bucket_name().is_none() || !store.prefix().is_root() {
                    return Err(Error::invalid(format!("'{name}' is no store such as s3://bucket@http://host:9000")));
                }
                all.insert(name.as_str(), store.store().clone());
            }
        }
        Ok(all)
    }
}

/// Reads the manifest at `location` from `store` and returns the location of its table.
pub(crate) async fn located(store: &dyn ObjectStore, location: TableLocation) -> Result<TableLocation> {
    let manifest = Manifest::read(store, location.prefix()).await.map_err(|error| error.context(&location))?;
    let named = manifest.stores().map_err(|error| error.context(&location))?;
    // In the order of the objects, so that equal manifests give equal locations.
    let mut listed: Vec<ObjectStoreUrl> = Vec::with_capacity(named.len());
    let mut seen = std::collections::HashSet::new();
    for name in manifest.objects.iter().flat_map(|object| &object.stores) {
        if seen.insert(name.as_str())
            && let Some(url) = named.get(name.as_str())
        {
            listed.push(url.clone());
        }
    }
    location.of_manifest(&listed)
}

/// Reads the manifest at `path` and returns the objects that it lists, sorted by path. `store`
/// covers all stores of the table.
pub(super) async fn objects(store: &dyn ObjectStore, location: &TableLocation, path: &Path) -> Result<Vec<DataObject>> {
    let listed = async {
        let manifest = Manifest::read(store, path).await?;
        listed(&manifest, location)
    };
    listed.await.map_err(|error| error.context(location))
}

fn listed(manifest: &Manifest, location: &TableLocation) -> Result<Vec<DataObject>> {
    let members = stores::members(location.store().as_ref());
    let numbers: HashMap<&str, usize> = members.iter().enumerate().rev().map(|(n, url)| (url.as_str(), n)).collect();
    let named = manifest.stores()?;
    let number = |name: &String| {
        let url = named.get(name.as_str()).map(|url| url.as_str().trim_end_matches('/'));
        url.and_then(|url| numbers.get(url)).copied().ok_or_else(|| {
            Error::new(
                ErrorKind::Conflict,
                format!(
                    "names the store '{name}', which it did not when the table was declared; declare the table again"
                ),
            )
        })
    };
    let mut objects = Vec::with_capacity(manifest.objects.len());
    for entry in manifest.objects.iter().filter(|entry| entry.size > 0) {
        let key = Path::parse(&entry.key)
            .map_err(|error| Error::invalid(format!("'{}' is no key of an object", entry.key)).with_source(error))?;
        let mut stores = entry.stores.iter().map(number).collect::<Result<Vec<usize>>>()?.into_iter();
        let home = stores.next().ok_or_else(|| Error::invalid(format!("'{}' lies in no store", entry.key)))?;
        objects.push(DataObject {
            path: stores::numbered(home, &key)?,
            size: entry.size,
            etag: entry.etag.clone(),
            last_modified: DateTime::UNIX_EPOCH,
            partition_values: vec![],
            columns: None,
            replicas: stores.filter(|store| *store != home).collect(),
        });
    }
    if objects.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "lists no object with a byte in it"));
    }
    objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let twice = objects.windows(2).find_map(|pair| match pair {
        [a, b] if a.path == b.path => Some(a),
        _ => None,
    });
    if let Some(twice) = twice {
        return Err(Error::invalid(format!("lists {} twice; each object is read once", location.address(&twice.path))));
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_manifest_lists_has_numbers_of_stores() {
        let location = TableLocation::parse("s3://b/t.manifest.json", &Access::everything()).unwrap();
        let objects = |text: &str| {
            let manifest = Manifest::parse(&Bytes::from(text.to_owned()))?;
            let mut stores: Vec<ObjectStoreUrl> = manifest.stores()?.into_values().collect();
            stores.sort_by_key(|store| store.as_str().to_owned());
            listed(&manifest, &location.clone().of_manifest(&stores)?)
        };
        let of = |list: &str| format!(r#"{{"version": 1, "objects": [{list}]}}"#);
        let two = r#"{"key": "t/a b.csv", "size": 7, "etag": "\"e\"", "stores": ["s3://b@http://d2:1", "s3://b@http://d1:1"]},
            {"key": "t/a b.csv", "size": 8, "stores": ["s3://b"]}"#;
        let found = objects(&of(two)).unwrap();
        let shown: Vec<_> = found.iter().map(|o| (o.path.as_ref(), o.size, o.replicas.as_slice())).collect();
        assert_eq!(shown, [("0/t/a b.csv", 8, &[][..]), ("2/t/a b.csv", 7, &[1][..])]);
        let moved = found[1].in_store(1).unwrap();
        assert_eq!((moved.path.as_ref(), moved.replicas.as_slice()), ("1/t/a b.csv", &[2][..]));
        assert!(found[1].in_store(0).is_none());
        for (wrong, told) in [
            (r#"{"version": 2, "objects": []}"#.to_owned(), "version 2"),
            ("[]".to_owned(), "is no manifest"),
            (of(""), "lists no object"),
            (of(r#"{"key": "a", "size": 1, "stores": []}"#), "no store"),
            (of(r#"{"key": "a//b", "size": 1, "stores": ["s3://b"]}"#), "no key"),
            (of(r#"{"key": "a", "size": 1, "stores": ["http://b/x"]}"#), "no store such as"),
            (
                of(r#"{"key": "a", "size": 1, "stores": ["s3://b"]}, {"key": "a", "size": 1, "stores": ["s3://b"]}"#),
                "twice",
            ),
        ] {
            let error = objects(&wrong).unwrap_err().to_string();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
