//! The folders of processes on the local disk.
//!
//! ```text
//! <disk>/pushdowndb-spill/<node>/lock          locked (flock) as long as the process lives
//!                               /<query>_<n>   parts of file n of a query
//!                               /<query>.meta  a copy of the query's manifest in an object store
//! ```
//!
//! A folder is created under the name `.<node>` and renamed once it is locked. So a folder that is
//! not locked yet is never considered that of a dead process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use super::manifest::{ENDING, MAX_MANIFEST_BYTES, Manifest};

/// The name of the folder of all processes, in the folder that the options name.
const ROOT: &str = "pushdowndb-spill";

const LOCK: &str = "lock";

/// The age from which a folder that was not renamed is considered left by a dead process.
const UNNAMED_AGE: Duration = Duration::from_secs(3600);

/// Returns the folder of all processes, inside the folder `disk`.
pub(super) fn root(disk: &Path) -> PathBuf {
    disk.join(ROOT)
}

/// The folder of this process.
///
/// Dropping it removes the folder, unless there is a manifest in it: then some parts could not be
/// deleted from the object store, and the next process should try again.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: PathBuf,
    lock: File,
}

impl Folder {
    /// Creates and locks the folder of the process `node` below `root`. Both are accessible to
    /// their owner alone.
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
        // If `root` belonged to another user, that user could replace this process's folder by
        // another.
        let owner = fs::symlink_metadata(root)?.uid();
        if owner != fs::symlink_metadata(new)?.uid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        let lock = OpenOptions::new().create_new(true).write(true).mode(0o600).open(new.join(LOCK))?;
        lock.try_lock()?;
        fs::rename(new, path)?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Unlocks the folder, as the end of a process does, so that others consider the process dead.
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
        // Unlocked only now, so that no other process removes the folder at the same time.
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

/// A file in the folder of a dead process. Its name begins with the query that wrote it.
#[derive(Debug)]
pub(super) struct DeadFile {
    pub path: PathBuf,
    pub query: Uuid,
    pub bytes: u64,
    /// The time since the file was written.
    pub age: Duration,
    /// If the file is a copy of a manifest, its content, or what is wrong with it.
    pub manifest: Option<Result<Manifest, String>>,
}

/// Returns the folders of dead processes below `root`, each locked.
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
        // A removal was interrupted, or the process died before it created the lock.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    Some(DeadFolder { path: path.to_owned(), node, _lock: lock })
}

impl DeadFolder {
    /// Returns the time since a file was last created or removed in the folder.
    pub(super) fn age(&self) -> Duration {
        fs::metadata(&self.path).map_or(Duration::ZERO, |meta| age_of(&meta))
    }

    /// Returns the files of queries. Skips files with other names, and files that another cleaner
    /// removes meanwhile: several may clean a folder that has no lock.
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

    /// Removes the folder and all that is left in it.
    pub(super) fn remove(self) -> io::Result<()> {
        unless_gone(fs::remove_dir_all(&self.path)).map(|_| ())
    }
}

/// Converts the error that a file or folder does not exist to `None`.
pub(super) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the time since the last change; zero if it is unknown or in the future.
fn age_of(meta: &fs::Metadata) -> Duration {
    meta.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default()
}

fn read_manifest(path: &Path, bytes: u64) -> Result<Manifest, String> {
    if bytes > MAX_MANIFEST_BYTES {
        return Err(format!("it has {bytes} bytes"));
    }
    Manifest::from_json(&fs::read(path).map_err(|error| error.to_string())?)
}

/// Returns whether the process `node` of this machine is alive, that is, whether its folder below
/// `root` is locked.
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
        // The folder is about to be locked, or, after an hour, was left by a process that died.
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
        // A process that cleans up a folder holds its lock, so no other process cleans it.
        let first = dead_folders(&root);
        assert!(dead_folders(&root).iter().all(|folder| folder.node != live));
        drop((first, folder));
        assert!(!root.join(live.simple().to_string()).exists());
    }
}
