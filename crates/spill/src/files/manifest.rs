//! The manifest of a query. It says which parts the query may have in an object store, so that
//! another process can delete them if this one dies.
//!
//! ```text
//! <prefix>/<node>_<query>.meta     the manifest, JSON
//! <prefix>/<node>_<query>/<n>      the parts, numbered from 0, each below the manifest's bound
//! ```

use object_store::path::Path;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the format that this code writes and reads.
const VERSION: u32 = 1;

/// The maximum size of a manifest, in bytes. Those written here have less than 1 KiB.
pub(super) const MAX_MANIFEST_BYTES: u64 = 64 << 10;

/// The maximum number of parts of a query. It bounds the work of deleting parts by number. With
/// parts of 1 MiB it allows 16 TiB.
pub(super) const MAX_PARTS: u64 = 1 << 24;

/// The bound in the first manifest of a query. Later manifests double it.
const FIRST_BOUND: u64 = 64;

/// The suffix of a manifest's name, both in the object store and on the local disk.
pub(super) const ENDING: &str = ".meta";

/// The range of part numbers that a query may have uploaded, with information for people.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Manifest {
    version: u32,
    /// The process that runs the query.
    #[serde(with = "text")]
    pub node: Uuid,
    #[serde(with = "text")]
    pub query: Uuid,
    /// The host name and process number, for people who look for the process.
    pub host: String,
    pub pid: u32,
    /// The time of creation, in seconds since 1970.
    pub created: u64,
    /// The place of the parts, as users write it.
    pub url: String,
    pub prefix: String,
    /// All parts have numbers below this bound.
    pub bound: u64,
    /// The parts and bytes uploaded before this manifest was written.
    pub parts: u64,
    pub bytes: u64,
}

/// Serializes a [`Uuid`] as text.
mod text {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use uuid::Uuid;

    pub(super) fn serialize<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Manifest {
    /// Creates the manifest of a query that has no parts and may not upload any yet.
    pub(super) fn new(node: Uuid, query: Uuid, url: &str, prefix: &Path) -> Self {
        let created = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_secs());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            version: VERSION,
            node,
            query,
            host: host.trim().to_owned(),
            pid: std::process::id(),
            created,
            url: url.to_owned(),
            prefix: prefix.to_string(),
            bound: 0,
            parts: 0,
            bytes: 0,
        }
    }

    /// Returns the name of the query in keys.
    pub(super) fn name(&self) -> QueryName {
        QueryName { node: self.node, query: self.query }
    }

    /// Returns the bound to set before part `number` is uploaded; `None` if that are too many
    /// parts.
    pub(super) fn bound_for(&self, number: u64) -> Option<u64> {
        let mut bound = self.bound.max(FIRST_BOUND);
        while bound <= number {
            bound *= 2;
            if bound > MAX_PARTS {
                return None;
            }
        }
        Some(bound)
    }

    pub(super) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    /// Parses a manifest. Returns what is wrong if `json` is not one.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if manifest.version != VERSION {
            return Err(format!("its version is {} instead of {VERSION}", manifest.version));
        }
        if manifest.bound > MAX_PARTS {
            return Err(format!("its bound {} is larger than {MAX_PARTS}", manifest.bound));
        }
        Ok(manifest)
    }
}

/// The name of a query, with its process, in keys of the object store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct QueryName {
    pub node: Uuid,
    pub query: Uuid,
}

impl QueryName {
    /// Parses a name. Returns `None` unless `text` is exactly what [`std::fmt::Display`] writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (node, query) = text.split_once('_')?;
        let name = Self { node: node.parse().ok()?, query: query.parse().ok()? };
        (name.to_string() == text).then_some(name)
    }

    /// Returns the key of the manifest below `prefix`.
    pub(super) fn manifest(&self, prefix: &Path) -> Path {
        prefix.clone().join(format!("{self}{ENDING}"))
    }

    /// Returns the common prefix of the keys of all parts.
    pub(super) fn folder(&self, prefix: &Path) -> Path {
        prefix.clone().join(self.to_string())
    }

    /// Returns the key of part `number`.
    pub(super) fn part(&self, prefix: &Path, number: u64) -> Path {
        self.folder(prefix).join(number.to_string())
    }
}

impl std::fmt::Display for QueryName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.node.simple(), self.query.simple())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_writes_it_reads_and_nothing_else() {
        let mut manifest = Manifest::new(Uuid::new_v4(), Uuid::new_v4(), "s3://b/p", &Path::from("p"));
        assert_eq!(
            (manifest.bound_for(0), manifest.bound_for(63), manifest.bound_for(64)),
            (Some(64), Some(64), Some(128))
        );
        manifest.bound = MAX_PARTS;
        assert_eq!((manifest.bound_for(MAX_PARTS - 1), manifest.bound_for(MAX_PARTS)), (Some(MAX_PARTS), None));
        assert_eq!(Manifest::from_json(&manifest.to_json().unwrap()).unwrap(), manifest);
        manifest.bound += 1;
        assert!(Manifest::from_json(&manifest.to_json().unwrap()).unwrap_err().contains("bound"));
        let newer = Manifest { version: 2, bound: 64, ..manifest };
        assert!(Manifest::from_json(&newer.to_json().unwrap()).unwrap_err().contains("version is 2"));
        assert!(Manifest::from_json(b"{}").is_err());

        let name = newer.name();
        assert_eq!(QueryName::parse(&name.to_string()), Some(name));
        for wrong in ["", "a_b", "data", &format!("{}_{}", newer.node, newer.query), &format!("{name}0")] {
            assert_eq!(QueryName::parse(wrong), None, "{wrong}");
        }
    }
}
