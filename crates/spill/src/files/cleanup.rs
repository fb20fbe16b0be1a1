//! Deletion of the parts that queries uploaded, and of the data that dead processes left.

use std::collections::HashMap;
use std::path::Path as FsPath;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::Error;
use object_store::path::Path;
use uuid::Uuid;

use super::folder::{DeadFile, DeadFolder, dead_folders, unless_gone};
use super::manifest::{Manifest, QueryName};
use super::options::RemoteStore;
use super::usage::SpillMeter;

/// The maximum number of keys in one delete request, as of S3's `DeleteObjects`.
pub(super) const DELETE_KEYS: usize = 1000;

/// The data of one query of a dead process that was deleted from one place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Freed {
    /// A folder of the local disk, or the URL of an object store.
    pub place: String,
    /// The query's name.
    pub query: String,
    /// The number of files in the folder, or of parts in the object store.
    pub files: u64,
    /// The total size of these files or parts, in bytes.
    pub bytes: u64,
    /// The time since the query last wrote there.
    pub age: Duration,
}

/// The existing parts of a query in an object store, and the age of the newest part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub files: u64,
    pub bytes: u64,
    pub age: Option<Duration>,
}

/// Deletes `keys`, with at most [`DELETE_KEYS`] in a request. A key that does not exist is not an
/// error. After any other error, the remaining keys are still deleted, and the first error is
/// returned.
pub(super) async fn delete(
    remote: &RemoteStore,
    keys: impl Iterator<Item = Path> + Send,
    meter: &SpillMeter,
) -> Result<(), Error> {
    let mut first = Ok(());
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        let some: Vec<_> = keys.by_ref().take(DELETE_KEYS).map(Ok).collect();
        meter.delete();
        let mut results = remote.store.delete_stream(stream::iter(some).boxed());
        while let Some(result) = results.next().await {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => first = first.and(Err(error)),
            }
        }
    }
    first
}

/// Deletes all parts with numbers below the manifest's bound, whether or not they exist, and then
/// the manifest.
pub(super) async fn delete_query(remote: &RemoteStore, manifest: &Manifest) -> Result<(), Error> {
    let (name, meter) = (manifest.name(), SpillMeter::default());
    delete(remote, (0..manifest.bound).map(|number| name.part(&remote.prefix, number)), &meter).await?;
    delete(remote, std::iter::once(name.manifest(&remote.prefix)), &meter).await
}

/// Finds the existing parts of the query `name`, with one LIST.
pub(super) async fn find_query(remote: &RemoteStore, name: QueryName) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut objects = remote.store.list(Some(&name.folder(&remote.prefix)));
    while let Some(object) = objects.try_next().await? {
        found.files += 1;
        found.bytes += object.size;
        let age = age_of(&object);
        found.age = Some(found.age.map_or(age, |least| least.min(age)));
    }
    Ok(found)
}

/// Returns the time since `object` was written; zero if its timestamp is in the future.
pub(super) fn age_of(object: &object_store::ObjectMeta) -> Duration {
    let written = u64::try_from(object.last_modified.timestamp_millis()).map_or(Duration::ZERO, Duration::from_millis);
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(written)
}

/// The outcome of cleaning up after dead processes: what was deleted, and why the rest was not.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub freed: Vec<Freed>,
    pub failed: Option<String>,
}

/// Removes the data of dead processes: their folders below `root`, and the parts in `remotes` that
/// their manifests name.
///
/// Only folders in which nothing was written for `older_than` are removed. If `counts` is true, the
/// deleted parts in object stores are counted, which takes a LIST for each query.
pub(super) async fn after_dead_processes(
    root: &FsPath,
    remotes: &[RemoteStore],
    older_than: Duration,
    counts: bool,
) -> Sweep {
    let mut sweep = Sweep::default();
    for folder in dead_folders(root) {
        let path = folder.path.clone();
        if let Err(failed) = after_dead_process(folder, remotes, older_than, counts, &mut sweep.freed).await {
            sweep.failed = Some(format!("{} cannot be removed yet: {failed}", path.display()));
        }
    }
    sweep
}

/// Removes the files of `folder`, the parts that its manifests name in `remotes`, and then the
/// folder. If something cannot be deleted, or a manifest refers to a store that is not in
/// `remotes`, the folder and the manifests concerned stay.
async fn after_dead_process(
    folder: DeadFolder,
    remotes: &[RemoteStore],
    older_than: Duration,
    counts: bool,
    freed: &mut Vec<Freed>,
) -> Result<(), String> {
    let files = folder.files().map_err(|error| error.to_string())?;
    let folder_age = files.iter().map(|file| file.age).chain([folder.age()]).min().unwrap_or_default();
    if folder_age < older_than {
        return Ok(());
    }
    let mut local: HashMap<Uuid, Freed> = HashMap::new();
    let (mut manifests, mut failed) = (Vec::new(), None);
    for DeadFile { path, query, bytes, age, manifest } in files {
        if let Some(manifest) = manifest {
            manifests.push((path, manifest));
            continue;
        }
        match unless_gone(std::fs::remove_file(&path)) {
            Ok(Some(())) => (),
            Ok(None) => continue,
            Err(error) => {
                failed = Some(error.to_string());
                continue;
            }
        }
        let (place, query_name) = (folder.path.display().to_string(), query.to_string());
        let entry = local.entry(query).or_insert(Freed { place, query: query_name, files: 0, bytes: 0, age });
        (entry.files, entry.bytes, entry.age) = (entry.files + 1, entry.bytes + bytes, entry.age.min(age));
    }
    freed.extend(local.into_values());
    for (path, manifest) in manifests {
        let deleted = match manifest {
            Ok(manifest) => after_manifest(&manifest, folder.node, remotes, counts).await,
            Err(error) => {
                // The manifest in the object store may be undamaged, and VACUUM uses that one.
                tracing::warn!(path = %path.display(), error, "the copy of a manifest of spilled data is damaged");
                Ok(None)
            }
        };
        let removed = deleted.and_then(|row| {
            freed.extend(row);
            unless_gone(std::fs::remove_file(&path)).map_err(|error| error.to_string())
        });
        if let Err(error) = removed {
            failed = Some(error);
        }
    }
    match failed {
        Some(failed) => Err(failed),
        None => folder.remove().map_err(|error| error.to_string()),
    }
}

/// Deletes the parts that `manifest` of the dead process `node` names. Returns how many parts
/// existed if `counts` is true.
async fn after_manifest(
    manifest: &Manifest,
    node: Uuid,
    remotes: &[RemoteStore],
    counts: bool,
) -> Result<Option<Freed>, String> {
    let is_of = |remote: &&RemoteStore| {
        manifest.node == node && manifest.url == remote.url && manifest.prefix == remote.prefix.as_ref()
    };
    let Some(remote) = remotes.iter().find(is_of) else {
        return Err(format!("parts may lie in {}, to which there is no access now", manifest.url));
    };
    let mut row = None;
    if counts {
        let found = find_query(remote, manifest.name()).await.map_err(|error| format!("{}: {error}", remote.url))?;
        let (place, query) = (remote.url.clone(), manifest.query.to_string());
        let age = found.age.unwrap_or_default();
        row = Some(Freed { place, query, files: found.files, bytes: found.bytes, age });
    }
    delete_query(remote, manifest).await.map_err(|error| format!("{}: {error}", remote.url))?;
    Ok(row)
}
