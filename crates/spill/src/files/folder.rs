//! The folders of processes on the local disk.
//!
//! ```text
//! <disk>/pushdowndb-spill/<node>/lock          locked (flock) as long as the process lives
//!                               /<query>_<n>   parts of file n of a query
//!                               /<query>.meta  a copy of the query's manifest in an object store
//! ```
//!
//! A folder is made under the name `.<node>` and renamed once it is locked, so that one without a
//! lock is never taken for that of a dead process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use super::manifest::{ENDING, MAX_MANIFEST_BYTES, Manifest};

/// The folder of all processes, in the one that the options name.
const ROOT: &str = "pushdowndb-spill";

const LOCK: &str = "lock";

/// From this age, a folder that was not renamed is one that a process left when it died.
const UNNAMED_AGE: Duration = Duration::from_secs(3600);

/// The folder of all processes in the folder `disk`.
pub(super) fn root(disk: &Path) -> PathBuf {
    disk.join(ROOT)
}

/// The folder of this process. It is removed when this is dropped, unless there is a manifest in
/// it: then, what the manifest names could not be deleted, and the next process is to try.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: PathBuf,
    lock: File,
}

impl Folder {
    /// Makes the folder of the process `node` below `root`, both for their owner alone.
    pub(super) fn create(root: &Path, node: Uuid) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let new = root.join(format!(".{}", node.simple()));
        DirBuilder::new().mode(0o700).create(&new)?;
        let made = Self::lock(root, &new, &root.join(node.simple().to_string()));
        if made.is_err() {
            let _ = fs::remove_dir_all(&new);
        }
        made
    }

    fn lock(root: &Path, new: &Path, path: &Path) -> io::Result<Self> {
        // In a folder of another user, that user could put one of their own in the place of ours.
        let owner = fs::symlink_metadata(root)?.uid();
        if owner != fs::symlink_metadata(new)?.uid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        let lock = OpenOptions::new().create_new(true).write(true).mode(0o600).open(new.join(LOCK))?;
        lock.try_lock()?;
        fs::rename(new, path)?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Lets others take the folder for that of a dead process, as the end of a process does.
    #[cfg(test)]
    pub(super) fn unlock(&self) {
        self.lock.unlock().unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let has_manifest = fs::read_dir(&self.path).is_ok_and(|files| {
            files.flatten().any(|file| file.file_name().to_str().is_some_and(|name| name.ends_with(ENDING)))
        });
        if !has_manifest && let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a folder of spilled data cannot be removed");
        }
        // Only now may others take it for that of a dead process.
        let _ = self.lock.unlock();
    }
}

/// The folder of a dead process, locked so that only one process cleans it.
#[derive(Debug)]
pub(super) struct DeadFolder {
    pub path: PathBuf,
    pub node: Uuid,
    _lock: Option<File>,
}

/// A file of a dead process: its name begins with the query that wrote it.
#[derive(Debug)]
pub(super) struct DeadFile {
    pub path: PathBuf,
    pub query: Uuid,
    pub bytes: u64,
    /// The time since it was written.
    pub age: Duration,
    /// For a manifest's copy, what is in it, or what is wrong with it.
    pub manifest: Option<Result<Manifest, String>>,
}

/// The folders of dead processes below `root`.
pub(super) fn dead_folders(root: &Path) -> Vec<DeadFolder> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    entries.flatten().filter_map(|entry| dead_folder(&entry.path())).collect()
}

fn dead_folder(path: &Path) -> Option<DeadFolder> {
    let name = path.file_name()?.to_str()?;
    let (node, is_named) = match name.strip_prefix('.') {
        Some(name) => (name, false),
        None => (name, true),
    };
    let node: Uuid = node.parse().ok()?;
    if !is_named && age_of(&fs::symlink_metadata(path).ok()?) < UNNAMED_AGE {
        return None;
    }
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock.try_lock().ok().map(|()| Some(lock))?,
        // Left by a removal that was cut short, or by a process that died before it made the lock.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    Some(DeadFolder { path: path.to_owned(), node, _lock: lock })
}

impl DeadFolder {
    /// The time since a file was last made or removed in it.
    pub(super) fn age(&self) -> Duration {
        fs::metadata(&self.path).map_or(Duration::ZERO, |meta| age_of(&meta))
    }

    /// The files of queries. Others, which this code does not make, are left out, and so are those
    /// that another cleaner removes meanwhile: a folder without a lock may have several.
    pub(super) fn files(&self) -> io::Result<Vec<DeadFile>> {
        let mut files = Vec::new();
        let Some(entries) = unless_gone(fs::read_dir(&self.path))? else { return Ok(files) };
        for entry in entries {
            let Some(entry) = unless_gone(entry)? else { continue };
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(query) = name.get(..32).and_then(|query| query.parse().ok()) else { continue };
            let Some(meta) = unless_gone(entry.metadata())? else { continue };
            let path = entry.path();
            let manifest = name.ends_with(ENDING).then(|| read_manifest(&path, meta.len()));
            files.push(DeadFile { path, query, bytes: meta.len(), age: age_of(&meta), manifest });
        }
        Ok(files)
    }

    /// Removes the folder and what is left in it.
    pub(super) fn remove(self) -> io::Result<()> {
        unless_gone(fs::remove_dir_all(&self.path)).map(|_| ())
    }
}

/// `result`, or nothing if there is no such file or folder (any more).
pub(super) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The time since the last change; none if it is not known or in the future.
fn age_of(meta: &fs::Metadata) -> Duration {
    meta.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default()
}

fn read_manifest(path: &Path, bytes: u64) -> Result<Manifest, String> {
    if bytes > MAX_MANIFEST_BYTES {
        return Err(format!("it has {bytes} bytes"));
    }
    Manifest::from_json(&fs::read(path).map_err(|error| error.to_string())?)
}

/// Whether the process `node` of this machine lives: its folder below `root` is locked.
pub(super) fn is_live(root: &Path, node: Uuid) -> bool {
    let Ok(lock) = File::open(root.join(node.simple().to_string()).join(LOCK)) else { return false };
    matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_processes_are_dead() {
        let disk = tempfile::tempdir().unwrap();
        let root = root(disk.path());
        assert!(dead_folders(&root).is_empty() && !is_live(&root, Uuid::new_v4()));
        let (live, dead) = (Uuid::new_v4(), Uuid::new_v4());
        let folder = Folder::create(&root, live).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for other in ["other", ".other", &live.to_string().to_uppercase()[..30]] {
            fs::create_dir(root.join(other)).unwrap();
        }
        // Not renamed yet, so about to be locked; or, after an hour, left by a process that died.
        let unnamed = root.join(format!(".{}", dead.simple()));
        fs::create_dir(&unnamed).unwrap();
        assert!(dead_folders(&root).is_empty());
        let old = std::time::SystemTime::now() - UNNAMED_AGE * 2;
        File::open(&unnamed).unwrap().set_modified(old).unwrap();
        let found = dead_folders(&root);
        assert_eq!(found.iter().map(|folder| folder.node).collect::<Vec<_>>(), [dead]);
        assert!(is_live(&root, live) && !is_live(&root, dead));

        folder.unlock();
        let mut nodes: Vec<_> = dead_folders(&root).iter().map(|folder| folder.node).collect();
        nodes.sort();
        let mut expected = [live, dead];
        expected.sort();
        assert_eq!(nodes, expected);
        // One that cleans it has its lock, so that no other does.
        let first = dead_folders(&root);
        assert!(dead_folders(&root).iter().all(|folder| folder.node != live));
        drop((first, folder));
        assert!(!root.join(live.simple().to_string()).exists());
    }
}
