//! The data files of a store: `data/<xx>/<id>`, written once under `tmp/`, never changed, removed when
//! neither the index nor a reader needs them.
//!
//! A file is unlinked only after the index commit that stopped naming it, so a crash leaves at most files
//! that nothing names; [`Files::sweep`] removes those at the next start. An object of one file is read
//! through its open descriptor and needs no protection. An object of many files opens them one by one, so
//! its reader holds a [`Pin`] that puts off their removal.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::disk::{Change, Disk, DiskFile, make_folders};
use super::{Result, StoreError};

/// A piece of an object's bytes: a data file and its size.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Segment {
    #[serde(with = "id_text")]
    pub id: Uuid,
    pub size: u64,
}

/// Ids are written as their 32 hexadecimal digits, which is also what the files are called.
mod id_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use uuid::Uuid;

    pub fn serialize<S: Serializer>(id: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&id.simple())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
        Uuid::parse_str(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The folders that hold data.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    tmp: PathBuf,
    pins: Mutex<HashMap<Uuid, Pinned>>,
}

#[derive(Debug, Default)]
struct Pinned {
    readers: usize,
    doomed: bool,
}

impl Files {
    /// Opens the folders; makes them where they are missing.
    pub fn open(dir: &Path, disk: Arc<dyn Disk>) -> io::Result<Self> {
        let (data, tmp) = (dir.join("data"), dir.join("tmp"));
        make_folders(&*disk, &data)?;
        make_folders(&*disk, &tmp)?;
        for first in 0..=u8::MAX {
            match disk.apply(Change::MakeFolder(&data.join(format!("{first:02x}")))) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // Also what an earlier start made and a loss of power kept from being synced.
        disk.apply(Change::SyncFolder(&data))?;
        disk.apply(Change::SyncFolder(dir))?;
        Ok(Self { disk, data, tmp, pins: Mutex::default() })
    }

    /// Where the file of this id is or will be.
    pub fn path(&self, id: Uuid) -> PathBuf {
        let name = id.simple().to_string();
        self.data.join(name.get(..2).unwrap_or("00")).join(name)
    }

    /// A new empty file to write to.
    pub fn create(&self) -> io::Result<DiskFile> {
        DiskFile::create(&self.disk, self.tmp.join(Uuid::new_v4().simple().to_string()))
    }

    /// Makes a written file durable under a fresh id. Nothing names it yet.
    pub fn keep(&self, file: &DiskFile, size: u64) -> io::Result<Segment> {
        file.sync()?;
        self.place(size, |to| self.disk.apply(Change::Rename { from: file.path(), to }))
    }

    /// The bytes of `segment` under a fresh id, without copying: data files never change.
    pub fn link(&self, segment: Segment) -> io::Result<Segment> {
        let from = self.path(segment.id);
        self.place(segment.size, |to| self.disk.apply(Change::Link { from: &from, to }))
    }

    fn place(&self, size: u64, put: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Segment> {
        let id = Uuid::new_v4();
        let path = self.path(id);
        put(&path)?;
        let folder = path.parent().unwrap_or(&self.data);
        self.disk.apply(Change::SyncFolder(folder)).inspect_err(|_| self.unlink(id))?;
        Ok(Segment { id, size })
    }

    /// Removes files that the index no longer names, now or when their last reader is gone.
    pub fn remove(&self, segments: &[Segment]) {
        for segment in segments {
            let mut pins = self.pins();
            match pins.get_mut(&segment.id) {
                Some(pinned) => pinned.doomed = true,
                None => {
                    drop(pins);
                    self.unlink(segment.id);
                }
            }
        }
    }

    /// Keeps the files of these segments until the pin is dropped.
    pub fn pin(self: &Arc<Self>, segments: &[Segment]) -> Pin {
        let mut pins = self.pins();
        for segment in segments {
            pins.entry(segment.id).or_default().readers += 1;
        }
        Pin { files: Arc::clone(self), ids: segments.iter().map(|segment| segment.id).collect() }
    }

    /// Removes what a crash left behind: drafts, and data files that are not in `live`.
    pub fn sweep(&self, live: &HashSet<Uuid>) -> Result<usize> {
        let io = |path: &Path| StoreError::io(format!("cannot clean up {}", path.display()));
        let mut removed = 0;
        let mut clean = |folder: &Path, keep: &dyn Fn(&str) -> bool| -> Result<()> {
            for entry in fs::read_dir(folder).map_err(io(folder))? {
                let entry = entry.map_err(io(folder))?;
                let is_file = entry.file_type().map_err(io(folder))?.is_file();
                if is_file && !entry.file_name().to_str().is_some_and(keep) {
                    self.disk.apply(Change::Remove(&entry.path())).map_err(io(&entry.path()))?;
                    removed += 1;
                }
            }
            Ok(())
        };
        clean(&self.tmp, &|_| false)?;
        for folder in fs::read_dir(&self.data).map_err(io(&self.data))? {
            let folder = folder.map_err(io(&self.data))?;
            if folder.file_type().map_err(io(&self.data))?.is_dir() {
                clean(&folder.path(), &|name| Uuid::parse_str(name).is_ok_and(|id| live.contains(&id)))?;
            }
        }
        Ok(removed)
    }

    fn unlink(&self, id: Uuid) {
        let path = self.path(id);
        if let Err(error) = self.disk.apply(Change::Remove(&path)) {
            // Nothing names the file any more, so this costs space and is retried by the next sweep.
            tracing::warn!(path = %path.display(), %error, "cannot remove a data file");
        }
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Uuid, Pinned>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts off the removal of data files while it lives.
#[derive(Debug)]
pub(crate) struct Pin {
    files: Arc<Files>,
    ids: Vec<Uuid>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut free = Vec::new();
        let mut pins = self.files.pins();
        for id in &self.ids {
            if let Some(pinned) = pins.get_mut(id) {
                pinned.readers -= 1;
                if pinned.readers == 0 && pins.remove(id).is_some_and(|pinned| pinned.doomed) {
                    free.push(*id);
                }
            }
        }
        drop(pins);
        for id in free {
            self.files.unlink(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::LocalDisk;

    #[test]
    fn pinned_files_outlive_their_removal_and_crashes_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(Files::open(dir.path(), Arc::new(LocalDisk)).unwrap());
        let file = files.create().unwrap();
        file.write(0, b"abc").unwrap();
        let segment = files.keep(&file, 3).unwrap();
        let copy = files.link(segment).unwrap();
        let (first, second) = (files.pin(&[segment]), files.pin(&[segment]));
        files.remove(&[segment]);
        drop(first);
        assert!(files.path(segment.id).exists());
        drop(second);
        assert!(!files.path(segment.id).exists());
        assert_eq!(fs::read(files.path(copy.id)).unwrap(), b"abc");
        files.create().unwrap();
        assert_eq!(files.sweep(&HashSet::from([copy.id])).unwrap(), 1);
        assert!(files.path(copy.id).exists());
        assert_eq!(files.sweep(&HashSet::new()).unwrap(), 1);
    }
}
