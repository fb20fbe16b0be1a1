//! The mark that says that a folder is a store, and of which format.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pushdown::Error;

use super::disk::{Change, Disk, DiskFile, make_folders};

/// Version 2 writes records of format 2; a store of version 1 is one of version 2 without any.
const VERSION: &str = "pushdowndb store 2\n";
const VERSION_1: &str = "pushdowndb store 1\n";
const VERSION_DRAFT: &str = "VERSION.new";

/// Makes the mark of a new store and examines that of another. A folder that holds something else is never taken for one.
pub(super) fn check(disk: &Arc<dyn Disk>, dir: &Path) -> pushdown::Result<()> {
    let io = |error: io::Error| Error::invalid("the folder cannot be used").with_source(error);
    let file = dir.join("VERSION");
    match fs::read_to_string(&file) {
        Ok(version) if version == VERSION => unmark(disk, dir).map_err(io),
        // Marked before the first record of the new format is written.
        Ok(version) if version == VERSION_1 => mark(disk, dir, &file).map_err(io),
        Ok(version) => Err(Error::invalid(format!(
            "its format is '{}', this version of pushdowndb knows '{}'",
            version.trim(),
            VERSION.trim()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(&**disk, dir).map_err(io)?;
            let mut others = fs::read_dir(dir).map_err(io)?.filter_map(|entry| entry.ok());
            if others.any(|entry| entry.file_name() != VERSION_DRAFT) {
                return Err(Error::invalid(
                    "the folder is not empty and no store; serve files that exist with --gateway file:///…",
                ));
            }
            mark(disk, dir, &file).map_err(io)
        }
        Err(error) => Err(io(error)),
    }
}

/// Removes a mark that was not put in its place, or, by a loss of power, not removed beside it.
fn unmark(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<()> {
    let draft = dir.join(VERSION_DRAFT);
    if draft.exists() { disk.apply(Change::Remove(&draft)) } else { Ok(()) }
}

/// Beside and renamed, so that a crash leaves a whole mark or none.
fn mark(disk: &Arc<dyn Disk>, dir: &Path, file: &Path) -> io::Result<()> {
    unmark(disk, dir)?;
    let draft = DiskFile::create(disk, dir.join(VERSION_DRAFT))?;
    draft.write(0, VERSION.as_bytes())?;
    draft.sync()?;
    disk.apply(Change::Rename { from: draft.path(), to: file })?;
    disk.apply(Change::SyncFolder(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::store::LocalStore;

    #[test]
    fn a_store_of_version_1_becomes_one_of_version_2() {
        let dir = tempfile::tempdir().unwrap();
        drop(LocalStore::open(dir.path(), Limits::default()).unwrap());
        let version = dir.path().join("VERSION");
        assert_eq!(fs::read_to_string(&version).unwrap(), VERSION);
        fs::write(&version, VERSION_1).unwrap();
        drop(LocalStore::open(dir.path(), Limits::default()).unwrap());
        assert_eq!(fs::read_to_string(&version).unwrap(), VERSION);
        fs::write(&version, "pushdowndb store 3\n").unwrap();
        assert!(LocalStore::open(dir.path(), Limits::default()).unwrap_err().to_string().contains("store 3"));
    }
}
