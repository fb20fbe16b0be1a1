//! The changes that a store makes to its disk, each a value before it is done.
//!
//! Whatever must survive a crash, and whatever fails on a full disk, goes through [`Disk::apply`]: data files,
//! folders and the index alike; reads do not. So a test that stands in for the disk sees every change in
//! order, can make any of them fail, and can tell what a loss of power would leave of them.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// Does changes.
pub(crate) trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Does this change, or none of it that a reader of the store could see.
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

/// One change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Makes a folder that only its owner may enter.
    MakeFolder(&'a Path),
    /// Makes the names in a folder durable.
    SyncFolder(&'a Path),
    /// Makes an empty file where there is none.
    Create(&'a Path),
    /// Writes all of the bytes.
    Write { file: &'a DiskFile, at: u64, bytes: &'a [u8] },
    /// Cuts a file or fills it up with zeros.
    Resize { file: &'a DiskFile, size: u64 },
    /// Makes the bytes of a file and its size durable, not its name.
    Sync(&'a DiskFile),
    /// Gives a file another name.
    Rename { from: &'a Path, to: &'a Path },
    /// Gives a file one more name.
    Link { from: &'a Path, to: &'a Path },
    /// Removes a name of a file, and the file with its last name.
    Remove(&'a Path),
}

impl Change<'_> {
    /// Does it on the disks of this machine.
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

/// A file that is open for reading and writing.
#[derive(Debug)]
pub(crate) struct DiskFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: File,
}

impl DiskFile {
    /// A new empty file.
    pub fn create(disk: &Arc<dyn Disk>, path: PathBuf) -> io::Result<Self> {
        disk.apply(Change::Create(&path))?;
        Self::open(disk, path)
    }

    /// A file that exists.
    pub fn open(disk: &Arc<dyn Disk>, path: PathBuf) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(Self { disk: Arc::clone(disk), path, file })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for reading and for locks.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of the bytes at this place.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.apply(Change::Write { file: self, at, bytes })
    }

    /// Cuts it or fills it up with zeros.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        self.disk.apply(Change::Resize { file: self, size })
    }

    /// Makes its bytes and its size durable, not its name.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.apply(Change::Sync(self))
    }

    /// Has the kernel read what is on the disk, not what it kept in memory of a write that the disk may have lost.
    pub fn forget_cached(&self) {
        // A file system that keeps no pages has nothing to forget.
        let _ = posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    /// Removes the name it was opened by.
    pub fn remove(&self) -> io::Result<()> {
        self.disk.apply(Change::Remove(&self.path))
    }
}

/// Makes a folder and those above it where they are missing, durably.
pub(crate) fn make_folders(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // A relative path of one name lies in the working directory.
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
