//! The file that marks a folder as a store, and its format.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pushdowndb_contract::Error;

use crate::store::disk::{Change, Disk, DiskFile, make_folders};

/// Version 3 has checksums: of blocks, of records and of index pages. Objects of versions 1 and 2
/// get theirs in the background, the index when it is first opened.
const VERSION: &str = "pushdowndb store 3\n";
const EARLIER: [&str; 2] = ["pushdowndb store 1\n", "pushdowndb store 2\n"];
const VERSION_DRAFT: &str = "VERSION.new";

/// Creates the version file of a new store, or checks that of an existing one. A folder that is
/// neither empty nor a store is refused.
pub(super) fn check(disk: &Arc<dyn Disk>, dir: &Path) -> pushdowndb_contract::Result<()> {
    let io = |error: io::Error| Error::invalid("the folder cannot be used").with_source(error);
    let file = dir.join("VERSION");
    match read(&file) {
        Ok(version) if version == VERSION => unmark(disk, dir).map_err(io),
        // The new version is written before the first record of the new format.
        Ok(version) if EARLIER.contains(&version.as_str()) => mark(disk, dir, &file).map_err(io),
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

fn read(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// Refuses a folder that is not a store of this version.
pub(super) fn require(dir: &Path) -> pushdowndb_contract::Result<()> {
    match read(&dir.join("VERSION")) {
        Ok(version) if version == VERSION => Ok(()),
        Ok(version) if EARLIER.contains(&version.as_str()) => Err(Error::invalid(format!(
            "{} is of an earlier version and has no checksums; serve it once with this one",
            dir.display()
        ))),
        Ok(version) => Err(Error::invalid(format!(
            "the format of {} is '{}', this version of pushdowndb knows '{}'",
            dir.display(),
            version.trim(),
            VERSION.trim()
        ))),
        Err(error) => Err(Error::invalid(format!("{} is no store", dir.display())).with_source(error)),
    }
}

/// Removes a draft of the version file that a crash left behind.
fn unmark(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<()> {
    let draft = dir.join(VERSION_DRAFT);
    if draft.exists() { disk.apply(Change::Remove(&draft)) } else { Ok(()) }
}

/// Writes the version file as a draft and renames it, so that a crash leaves a complete file or
/// none.
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
    fn a_store_of_an_earlier_version_becomes_one_of_this() {
        let dir = tempfile::tempdir().unwrap();
        drop(LocalStore::open(dir.path(), Limits::default()).unwrap());
        let version = dir.path().join("VERSION");
        assert_eq!(fs::read_to_string(&version).unwrap(), VERSION);
        for earlier in EARLIER {
            fs::write(&version, earlier).unwrap();
            drop(LocalStore::open(dir.path(), Limits::default()).unwrap());
            assert_eq!(fs::read_to_string(&version).unwrap(), VERSION);
        }
        fs::write(&version, "pushdowndb store 4\n").unwrap();
        assert!(LocalStore::open(dir.path(), Limits::default()).unwrap_err().to_string().contains("store 4"));
    }
}
