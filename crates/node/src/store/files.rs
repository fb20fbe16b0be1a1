//! The data files of a store: `data/<xx>/<id>`, written once under `tmp/`, never changed, removed when
//! neither the index nor a reader needs them.
//!
//! A file is unlinked only after the index commit that stopped naming it, so a crash leaves at most files
//! that nothing names; the sweep after the next start removes those. An object of one file is read
//! through its open descriptor and needs no protection. An object of many files opens them one by one, so
//! its reader holds a [`Pin`] that puts off their removal.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::disk::{Change, Disk, DiskFile, make_folders};
use super::sums::{Sums, to_bytes};
use super::{Result, StoreError};

/// How much is copied at once.
const COPY_BYTES: usize = 1 << 20;

/// A piece of an object's bytes: a data file and its size.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Segment {
    #[serde(with = "id_text")]
    pub id: Uuid,
    pub size: u64,
    /// What its blocks are compared with; objects of earlier versions have none until a pass has made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<Sums>,
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
    /// What was placed since the start, while a sweep needs to know.
    placed: Mutex<Option<HashSet<Uuid>>>,
    /// Bytes that are about to be written.
    announced: Arc<AtomicU64>,
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
        Ok(Self { disk, data, tmp, pins: Mutex::default(), placed: Mutex::default(), announced: Arc::default() })
    }

    /// Where the file of this id is or will be.
    pub fn path(&self, id: Uuid) -> PathBuf {
        let name = id.simple().to_string();
        self.data.join(name.get(..2).unwrap_or("00")).join(name)
    }

    /// How much space is left on the disk, as far as it tells.
    pub fn free_bytes(&self) -> Option<u64> {
        let disk = statvfs(&self.data).ok()?;
        Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
    }

    /// The size of the disk.
    pub fn disk_bytes(&self) -> Option<u64> {
        let disk = statvfs(&self.data).ok()?;
        Some(disk.blocks().saturating_mul(disk.fragment_size()))
    }

    /// Announces a write of so many bytes, unless it and those under way would leave less than `reserve` free.
    pub fn announce(&self, bytes: u64, reserve: u64) -> Result<Announced> {
        let before = self.announced.fetch_add(bytes, Relaxed);
        let announced = Announced { bytes, all: Arc::clone(&self.announced) };
        match self.free_bytes() {
            Some(free) if free.saturating_sub(before.saturating_add(bytes)) < reserve => Err(StoreError::Full),
            _ => Ok(announced),
        }
    }

    /// A new empty file to write to.
    pub fn create(&self) -> io::Result<DiskFile> {
        DiskFile::create(&self.disk, self.tmp.join(Uuid::new_v4().simple().to_string()))
    }

    /// Makes a written file durable under a fresh id. Nothing names it yet.
    pub fn keep(&self, file: &DiskFile, size: u64, sums: Option<Sums>) -> io::Result<Segment> {
        file.sync()?;
        self.place(size, sums, |to| self.disk.apply(Change::Rename { from: file.path(), to }))
    }

    /// The bytes of `segment` and their checksums under a fresh id, without copying: data files never change.
    pub fn link(&self, segment: Segment) -> io::Result<Segment> {
        let from = self.path(segment.id);
        self.place(segment.size, segment.sums, |to| self.disk.apply(Change::Link { from: &from, to }))
    }

    /// The same by copying, for a file that has as many names as the disk allows.
    pub fn copy(&self, segment: Segment) -> io::Result<Segment> {
        let from = fs::File::open(self.path(segment.id))?;
        let to = self.create()?;
        let copied = || {
            let mut block = vec![0; COPY_BYTES];
            let mut at = 0;
            loop {
                let count = from.read_at(&mut block, at)?;
                let Some(bytes) = block.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
                to.write(at, bytes)?;
                at += count as u64;
            }
            self.keep(&to, segment.size, segment.sums)
        };
        copied().inspect_err(|_| drop(to.remove()))
    }

    fn place(&self, size: u64, sums: Option<Sums>, put: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Segment> {
        let id = Uuid::new_v4();
        let path = self.path(id);
        // Before it can be seen, so that a sweep that sees it knows.
        if let Some(placed) = self.placed().as_mut() {
            placed.insert(id);
        }
        put(&path)?;
        let folder = path.parent().unwrap_or(&self.data);
        self.disk.apply(Change::SyncFolder(folder)).inspect_err(|_| self.unlink(id))?;
        Ok(Segment { id, size, sums })
    }

    /// Writes checksums behind the bytes of a file that has none, durably.
    pub fn keep_sums(&self, segment: &Segment, sums: &[u32]) -> io::Result<()> {
        let file = DiskFile::open(&self.disk, self.path(segment.id))?;
        file.write(segment.size, &to_bytes(sums))?;
        file.sync()
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

    /// Removes the drafts that a crash left behind; there must be no writers yet.
    pub fn remove_drafts(&self) -> Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.tmp).map_err(StoreError::io("cannot look for drafts"))? {
            let path = entry.map_err(StoreError::io("cannot look for drafts"))?.path();
            self.disk.apply(Change::Remove(&path)).map_err(StoreError::io("cannot remove a draft"))?;
            removed += 1;
        }
        Ok(removed)
    }

    /// The folder of the ids that begin with this byte.
    pub fn folder(&self, first: u8) -> PathBuf {
        self.data.join(format!("{first:02x}"))
    }

    /// Whether this file was placed since the start.
    pub fn was_placed(&self, id: Uuid) -> bool {
        self.placed().as_ref().is_some_and(|placed| placed.contains(&id))
    }

    /// From here on it is remembered what is placed, until a sweep is over.
    pub fn remember_placed(&self) {
        *self.placed() = Some(HashSet::new());
    }

    /// No sweep will ask any more.
    pub fn forget_placed(&self) {
        *self.placed() = None;
    }

    /// Removes the files of these ids, now or when their last reader is gone.
    pub fn remove_ids(&self, ids: &[Uuid]) {
        let segments: Vec<Segment> = ids.iter().map(|&id| Segment { id, size: 0, sums: None }).collect();
        self.remove(&segments);
    }

    fn unlink(&self, id: Uuid) {
        let path = self.path(id);
        if let Err(error) = self.disk.apply(Change::Remove(&path)) {
            // Nothing names the file any more, so this costs space and is retried by the next sweep.
            tracing::warn!(path = %path.display(), %error, "cannot remove a data file");
        }
    }

    fn placed(&self) -> MutexGuard<'_, Option<HashSet<Uuid>>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Uuid, Pinned>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are about to be written, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Announced {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
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
    fn writes_under_way_take_room_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path(), Arc::new(LocalDisk)).unwrap();
        let Some(free) = files.free_bytes() else { return };
        let first = files.announce(free / 4, free / 2).unwrap();
        assert!(matches!(files.announce(free / 2, free / 2), Err(StoreError::Full)));
        assert!(files.announce(free / 8, free / 2).is_ok(), "what was refused is not under way");
        drop(first);
        assert!(files.announce(free / 3, free / 2).is_ok());
    }

    #[test]
    fn pinned_files_outlive_their_removal_and_crashes_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(Files::open(dir.path(), Arc::new(LocalDisk)).unwrap());
        files.remember_placed();
        let file = files.create().unwrap();
        file.write(0, b"abc").unwrap();
        let segment = files.keep(&file, 3, None).unwrap();
        let copy = files.link(segment).unwrap();
        let (first, second) = (files.pin(&[segment]), files.pin(&[segment]));
        files.remove(&[segment]);
        drop(first);
        assert!(files.path(segment.id).exists());
        drop(second);
        assert!(!files.path(segment.id).exists());
        assert_eq!(fs::read(files.path(copy.id)).unwrap(), b"abc");
        files.create().unwrap();
        assert_eq!(files.remove_drafts().unwrap(), 1);
        assert!(files.was_placed(copy.id) && files.path(copy.id).exists());
        let deep = files.copy(copy).unwrap();
        assert_eq!(fs::read(files.path(deep.id)).unwrap(), b"abc");
        files.forget_placed();
        files.remove_ids(&[copy.id, deep.id]);
        assert!(!files.was_placed(copy.id) && !files.path(copy.id).exists() && !files.path(deep.id).exists());
    }
}
