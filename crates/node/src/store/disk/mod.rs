//! The changes that a store makes to its disk, as values.
//!
//! Everything that must survive a crash or can fail on a full disk goes through [`Disk::apply`]:
//! data files, folders and the index; reads do not. A test disk therefore sees every change in
//! order, can make any of them fail, and can compute what a power loss would leave.

pub(crate) mod checksums;
pub(crate) mod data_files;
pub(crate) mod fail_stop;
pub(crate) mod stage;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// Applies changes.
pub(crate) trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Applies a change. If it fails, nothing that a reader of the store can see has changed.
    fn apply(&self, change: Change<'_>) -> io::Result<()>;
}

/// The disks of this machine.
#[derive(Debug)]
pub(crate) struct LocalDisk;

impl Disk for LocalDisk {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        change.apply()
    }
}

/// A change of the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Creates a folder that only its owner may enter.
    MakeFolder(&'a Path),
    /// Makes the names in a folder durable.
    SyncFolder(&'a Path),
    /// Creates an empty file; fails if it exists.
    Create(&'a Path),
    /// Writes all bytes.
    Write { file: &'a DiskFile, at: u64, bytes: &'a [u8] },
    /// Truncates a file or extends it with zeros.
    Resize { file: &'a DiskFile, size: u64 },
    /// Makes the contents and size of a file durable, not its name.
    Sync(&'a DiskFile),
    /// Renames a file.
    Rename { from: &'a Path, to: &'a Path },
    /// Adds a name to a file.
    Link { from: &'a Path, to: &'a Path },
    /// Removes a name of a file.
    Remove(&'a Path),
}

impl Change<'_> {
    /// Applies the change to the disks of this machine.
    pub fn apply(self) -> io::Result<()> {
        match self {
            Self::MakeFolder(path) => fs::DirBuilder::new().mode(0o700).create(path),
            Self::SyncFolder(path) => File::open(path)?.sync_all(),
            Self::Create(path) => File::create_new(path).map(drop),
            Self::Write { file, at, bytes } => file.file.write_all_at(bytes, at),
            Self::Resize { file, size } => file.file.set_len(size),
            Self::Sync(file) => file.file.sync_data(),
            Self::Rename { from, to } => fs::rename(from, to),
            Self::Link { from, to } => fs::hard_link(from, to),
            Self::Remove(path) => fs::remove_file(path),
        }
    }
}

/// A file open for reading and writing.
#[derive(Debug)]
pub(crate) struct DiskFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: File,
}

impl DiskFile {
    /// Creates an empty file.
    pub fn create(disk: &Arc<dyn Disk>, path: PathBuf) -> io::Result<Self> {
        disk.apply(Change::Create(&path))?;
        Self::open(disk, path)
    }

    /// Opens an existing file.
    pub fn open(disk: &Arc<dyn Disk>, path: PathBuf) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(Self { disk: Arc::clone(disk), path, file })
    }

    /// The path that it was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for reading and for locks.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `bytes` at offset `at`.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.apply(Change::Write { file: self, at, bytes })
    }

    /// Truncates it or extends it with zeros.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        self.disk.apply(Change::Resize { file: self, size })
    }

    /// Makes its contents and size durable, not its name.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.apply(Change::Sync(self))
    }

    /// Drops cached pages, so that reads see the disk and not a write that the disk may have lost.
    pub fn drop_page_cache(&self) {
        // Only advice; a file system without a page cache ignores it.
        let _ = posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    /// Removes the name it was opened by.
    pub fn remove(&self) -> io::Result<()> {
        self.disk.apply(Change::Remove(&self.path))
    }
}

/// Creates a folder and its missing parents, durably.
pub(crate) fn make_folders(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // The parent of a relative path with a single name is the working directory.
    let above = path.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    if let Some(above) = above {
        make_folders(disk, above)?;
    }
    match disk.apply(Change::MakeFolder(path)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
        _ => {}
    }
    above.map_or(Ok(()), |above| disk.apply(Change::SyncFolder(above)))
}
