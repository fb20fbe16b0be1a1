//! The local disk under a policy: a path is checked before it is opened, and the opened file again.
//!
//! On Linux, where the path of an open file can be read, swapping folders for links while SQL runs
//! gains nothing: files are checked once they are open, and writes go through a folder that is held
//! open.

use std::fs::{self, File};
use std::io::{self, ErrorKind as Io};
use std::path::{Path as FilePath, PathBuf};

use pushdowndb_contract::{Error, ErrorKind, Result};

use super::place::{Store, disk_path};
use super::rules::{Mode, Rules};

/// Converts an I/O error about `path`.
pub(super) fn failed(path: &FilePath, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        Io::NotFound => (ErrorKind::NotFound, "no such file"),
        Io::PermissionDenied => (ErrorKind::Denied, "the file may not be read"),
        Io::InvalidData => (ErrorKind::Invalid, "this is not UTF-8 text"),
        _ => (ErrorKind::Unavailable, "the file cannot be read"),
    };
    Error::new(kind, format!("{}: {message}", path.display())).with_source(error)
}

/// The folder of a file to write, held open so that it stays the one that was checked.
#[derive(Debug)]
pub(super) struct Pinned {
    _folder: File,
    /// The path of the file; on Linux it leads through the descriptor of the open folder.
    pub(super) file: PathBuf,
}

impl Rules {
    fn check_disk(&self, mode: Mode, path: &FilePath) -> Result<()> {
        self.check(mode, &Store::Disk, &disk_path(path)?)
    }

    /// Resolves the symbolic links of `path`. Fails if the policy does not permit `mode` for the
    /// path or for what it leads to.
    pub(super) fn real(&self, mode: Mode, path: &FilePath) -> Result<PathBuf> {
        self.check_disk(mode, path)?;
        let real = fs::canonicalize(path).map_err(|error| failed(path, error))?;
        // The error shows the path as SQL wrote it: a session that may not read the target of a
        // link must not see its path.
        self.check_disk(mode, &real).map_err(|_| leads_out(path))?;
        Ok(real)
    }

    /// Resolves the symbolic links of `path` like [`Self::real`], but the path need not exist.
    pub(super) fn place(&self, mode: Mode, path: &FilePath) -> Result<PathBuf> {
        self.check_disk(mode, path)?;
        for above in path.ancestors() {
            match fs::canonicalize(above) {
                Ok(real) => {
                    let real = real.join(path.strip_prefix(above).unwrap_or(path));
                    // `join` with an empty path leaves a slash at the end, which `components`
                    // drops.
                    let real: PathBuf = real.components().collect();
                    return self.check_disk(mode, &real).map_err(|_| leads_out(path)).map(|()| real);
                }
                Err(error) if error.kind() == Io::NotFound => {}
                Err(error) => return Err(failed(path, error)),
            }
        }
        Err(failed(path, Io::NotFound.into()))
    }

    /// Opens a regular file to read.
    pub(super) fn open(&self, path: &FilePath) -> Result<File> {
        let real = self.real(Mode::Read, path)?;
        // Checked before the file is opened, too: opening a FIFO waits for its other end.
        is_regular(path, &fs::symlink_metadata(&real).map_err(|error| failed(path, error))?)?;
        let file = File::open(&real).map_err(|error| failed(path, error))?;
        self.check_opened(Mode::Read, path, &file)?;
        is_regular(path, &file.metadata().map_err(|error| failed(path, error))?)?;
        Ok(file)
    }

    /// Refuses an opened file whose actual path the policy does not permit.
    pub(super) fn check_opened(&self, mode: Mode, path: &FilePath, file: &File) -> Result<()> {
        let Some(opened) = path_of(file).map_err(|error| failed(path, error))? else { return Ok(()) };
        self.check_disk(mode, &opened).map_err(|_| leads_out(path))
    }

    /// Opens the folder of the file `path`, which is to be written or deleted. If `is_made`,
    /// missing folders are created.
    pub(super) fn pin(&self, path: &FilePath, is_made: bool) -> Result<Pinned> {
        let real = self.place_of_link(path)?;
        let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(Error::invalid(format!("{} is no file", path.display())));
        };
        if is_made {
            fs::create_dir_all(folder).map_err(|error| failed(path, error))?;
        }
        let opened = File::open(folder).map_err(|error| failed(path, error))?;
        let file = match path_of(&opened).map_err(|error| failed(path, error))? {
            Some(real) => {
                self.check_disk(Mode::Write, &real.join(name)).map_err(|_| leads_out(path))?;
                through(&opened).join(name)
            }
            None => real,
        };
        Ok(Pinned { _folder: opened, file })
    }

    /// Resolves the folder of a file that is to be written or deleted. If `path` itself is a link,
    /// the link is replaced or deleted, not followed.
    fn place_of_link(&self, path: &FilePath) -> Result<PathBuf> {
        self.check_disk(Mode::Write, path)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::invalid(format!("{} is no file", path.display())));
        };
        for above in folder.ancestors() {
            match fs::canonicalize(above) {
                Ok(real) => {
                    let missing = folder.strip_prefix(above).unwrap_or(folder);
                    let real = real.join(missing).join(name);
                    return self.check_disk(Mode::Write, &real).map_err(|_| leads_out(path)).map(|()| real);
                }
                Err(error) if error.kind() == Io::NotFound => {}
                Err(error) => return Err(failed(path, error)),
            }
        }
        Err(failed(path, Io::NotFound.into()))
    }
}

fn is_regular(path: &FilePath, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    // A folder is reported as not found, since in object stores a folder is no object.
    let kind = if metadata.is_dir() { ErrorKind::NotFound } else { ErrorKind::Unsupported };
    Err(Error::new(kind, format!("{}: this is no regular file", path.display())))
}

fn leads_out(path: &FilePath) -> Error {
    let what = super::rules::refused(&path.display().to_string());
    Error::new(ErrorKind::Denied, format!("{what}: it leads out of the locations that are listed"))
}

/// Returns the path of an open file; `None` if the system cannot report it.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> io::Result<Option<PathBuf>> {
    fs::read_link(through(file)).map(Some)
}

#[cfg(not(target_os = "linux"))]
fn path_of(_: &File) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

/// Returns the path below `/proc` that reaches an open file wherever it was moved to.
fn through(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::access::{Access, AccessPolicy};

    fn rules(read: &FilePath, write: &FilePath) -> std::sync::Arc<Rules> {
        let policy = AccessPolicy::nothing().and_read(read.to_str().unwrap()).unwrap();
        let policy = policy.and_write(write.to_str().unwrap()).unwrap();
        std::sync::Arc::clone(Access::new(policy).rules().unwrap())
    }

    #[test]
    fn links_out_of_a_folder_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        for made in [&inside, &outside] {
            fs::create_dir(made).unwrap();
            fs::write(made.join("x"), "x").unwrap();
        }
        symlink(&outside, inside.join("folder")).unwrap();
        symlink(outside.join("x"), inside.join("file")).unwrap();
        symlink(outside.join("new"), inside.join("dangling")).unwrap();
        symlink("x", inside.join("within")).unwrap();
        let rules = rules(&inside, &inside);
        assert!(rules.open(&inside.join("x")).is_ok() && rules.open(&inside.join("within")).is_ok());
        for path in ["file", "folder/x", "folder"] {
            let error = rules.open(&inside.join(path)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{path}: {error}");
            assert!(!error.to_string().contains("outside"), "{error}");
        }
        assert_eq!(rules.open(&outside.join("x")).unwrap_err().kind(), ErrorKind::Denied);
        assert!(rules.pin(&inside.join("folder/new"), true).is_err());
        assert!(rules.pin(&inside.join("dangling/new"), true).is_err());
        // The link itself is replaced.
        let pinned = rules.pin(&inside.join("dangling"), true).unwrap();
        fs::rename(inside.join("x"), &pinned.file).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_is_swapped_for_a_link_stays_the_one_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        fs::create_dir_all(inside.join("a")).unwrap();
        fs::create_dir(&outside).unwrap();
        let rules = rules(&inside, &inside);
        let pinned = rules.pin(&inside.join("a/new"), true).unwrap();
        fs::rename(inside.join("a"), inside.join("b")).unwrap();
        symlink(&outside, inside.join("a")).unwrap();
        fs::write(&pinned.file, "x").unwrap();
        assert!(inside.join("b/new").exists() && !outside.join("new").exists());
        // A file opened through such a link is seen to be elsewhere.
        fs::write(outside.join("secret"), "x").unwrap();
        let opened = File::open(outside.join("secret")).unwrap();
        assert!(rules.check_opened(Mode::Read, &inside.join("a/secret"), &opened).is_err());
    }

    #[test]
    fn a_folder_may_be_listed_by_a_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("x"), "x").unwrap();
        symlink(&real, &link).unwrap();
        let rules = rules(&link, &folder.path().join("link/deep/new"));
        assert!(rules.open(&link.join("x")).is_ok() && rules.open(&real.join("x")).is_ok());
        assert!(rules.pin(&link.join("deep/new/x"), true).is_ok(), "folders are made where they are listed");
        assert!(rules.pin(&link.join("deep/x"), true).is_err());
    }
}
