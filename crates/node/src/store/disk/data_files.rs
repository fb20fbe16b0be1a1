//! The data files of a store: `data/<xx>/<id>`, written once under `tmp/`, never changed, and
//! removed when neither the index nor a reader needs them.
//!
//! A file is unlinked only after the index commit that dropped it, so a crash leaves at most
//! unreferenced files, which the next sweep removes. An object of one file is read through an open
//! descriptor. An object of several files opens them one by one, so its reader holds a [`FilePin`]
//! that delays their removal.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nix::sys::statvfs::statvfs;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::checksums::{BlockChecksums, to_bytes};
use super::{Change, Disk, DiskFile, make_folders};
use crate::store::{Result, StoreError};

/// Bytes copied per step.
const COPY_BYTES: usize = 1 << 20;

/// A part of an object's bytes: a data file and its size.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Segment {
    #[serde(with = "id_text")]
    pub id: Uuid,
    pub size: u64,
    /// The checksums of its blocks; `None` for objects of earlier versions until the backfill adds
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<BlockChecksums>,
}

/// Serializes ids as 32 hexadecimal digits, which are also the file names.
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

/// The folders of the data files.
#[derive(Debug)]
pub(crate) struct DataFiles {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    tmp: PathBuf,
    pins: Mutex<HashMap<Uuid, Pinned>>,
    /// Ids of the files placed since [`Self::track_placed`]; `None` while no sweep needs them.
    placed: Mutex<Option<HashSet<Uuid>>>,
    /// Bytes that are reserved but not written yet.
    reserved: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Pinned {
    readers: usize,
    removal_pending: bool,
}

impl DataFiles {
    /// Opens the folders; creates missing ones.
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
        // Covers folders of an earlier start that was interrupted before the sync.
        disk.apply(Change::SyncFolder(&data))?;
        disk.apply(Change::SyncFolder(dir))?;
        Ok(Self { disk, data, tmp, pins: Mutex::default(), placed: Mutex::default(), reserved: Arc::default() })
    }

    /// The path of the file with this id.
    pub fn path(&self, id: Uuid) -> PathBuf {
        let name = id.simple().to_string();
        self.data.join(name.get(..2).unwrap_or("00")).join(name)
    }

    /// Free space on the disk, if known.
    pub fn free_bytes(&self) -> Option<u64> {
        let disk = statvfs(&self.data).ok()?;
        Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
    }

    /// The size of the disk.
    pub fn disk_bytes(&self) -> Option<u64> {
        let disk = statvfs(&self.data).ok()?;
        Some(disk.blocks().saturating_mul(disk.fragment_size()))
    }

    /// Reserves space for a write, unless it and the writes in progress would leave less than
    /// `reserve` bytes.
    pub fn reserve_space(&self, bytes: u64, reserve: u64) -> Result<SpaceReservation> {
        let before = self.reserved.fetch_add(bytes, Relaxed);
        let reserved = SpaceReservation { bytes, all: Arc::clone(&self.reserved) };
        match self.free_bytes() {
            Some(free) if free.saturating_sub(before.saturating_add(bytes)) < reserve => Err(StoreError::Full),
            _ => Ok(reserved),
        }
    }

    /// Creates an empty draft.
    pub fn create(&self) -> io::Result<DiskFile> {
        DiskFile::create(&self.disk, self.tmp.join(Uuid::new_v4().simple().to_string()))
    }

    /// Makes a draft durable and moves it to a new id, which nothing refers to yet.
    pub fn commit_draft(&self, file: &DiskFile, size: u64, sums: Option<BlockChecksums>) -> io::Result<Segment> {
        file.sync()?;
        self.place(size, sums, |to| self.disk.apply(Change::Rename { from: file.path(), to }))
    }

    /// Creates a hard link to the file of `segment` under a new id.
    pub fn link(&self, segment: Segment) -> io::Result<Segment> {
        let from = self.path(segment.id);
        self.place(segment.size, segment.sums, |to| self.disk.apply(Change::Link { from: &from, to }))
    }

    /// Copies `segment` under a new id, for a file that cannot have more links.
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
            self.commit_draft(&to, segment.size, segment.sums)
        };
        copied().inspect_err(|_| drop(to.remove()))
    }

    fn place(
        &self,
        size: u64,
        sums: Option<BlockChecksums>,
        put: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Segment> {
        let id = Uuid::new_v4();
        let path = self.path(id);
        // Recorded before the file becomes visible, so that a sweep that sees it knows the id.
        if let Some(placed) = self.placed().as_mut() {
            placed.insert(id);
        }
        put(&path)?;
        let folder = path.parent().unwrap_or(&self.data);
        self.disk.apply(Change::SyncFolder(folder)).inspect_err(|_| self.unlink(id))?;
        Ok(Segment { id, size, sums })
    }

    /// Appends the checksum trailer to a file that has none, durably.
    pub fn append_checksums(&self, segment: &Segment, sums: &[u32]) -> io::Result<()> {
        let file = DiskFile::open(&self.disk, self.path(segment.id))?;
        file.write(segment.size, &to_bytes(sums))?;
        file.sync()
    }

    /// Removes files that the index dropped, now or when their last reader is gone.
    pub fn remove(&self, segments: &[Segment]) {
        for segment in segments {
            let mut pins = self.pins();
            match pins.get_mut(&segment.id) {
                Some(pinned) => pinned.removal_pending = true,
                None => {
                    drop(pins);
                    self.unlink(segment.id);
                }
            }
        }
    }

    /// Keeps the files of `segments` until the pin is dropped.
    pub fn pin(self: &Arc<Self>, segments: &[Segment]) -> FilePin {
        let mut pins = self.pins();
        for segment in segments {
            pins.entry(segment.id).or_default().readers += 1;
        }
        FilePin { files: Arc::clone(self), ids: segments.iter().map(|segment| segment.id).collect() }
    }

    /// Removes drafts that a crash left behind. There must be no writers yet.
    pub fn remove_drafts(&self) -> Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.tmp).map_err(StoreError::io("cannot look for drafts"))? {
            let path = entry.map_err(StoreError::io("cannot look for drafts"))?.path();
            self.disk.apply(Change::Remove(&path)).map_err(StoreError::io("cannot remove a draft"))?;
            removed += 1;
        }
        Ok(removed)
    }

    /// The folder of the ids that begin with `first`.
    pub fn folder(&self, first: u8) -> PathBuf {
        self.data.join(format!("{first:02x}"))
    }

    /// Whether the file was placed since [`Self::track_placed`].
    pub fn was_placed(&self, id: Uuid) -> bool {
        self.placed().as_ref().is_some_and(|placed| placed.contains(&id))
    }

    /// Starts recording the ids of placed files, for a sweep.
    pub fn track_placed(&self) {
        *self.placed() = Some(HashSet::new());
    }

    /// Stops recording ids.
    pub fn stop_tracking(&self) {
        *self.placed() = None;
    }

    /// Removes files by id, now or when their last reader is gone.
    pub fn remove_ids(&self, ids: &[Uuid]) {
        let segments: Vec<Segment> = ids.iter().map(|&id| Segment { id, size: 0, sums: None }).collect();
        self.remove(&segments);
    }

    fn unlink(&self, id: Uuid) {
        let path = self.path(id);
        if let Err(error) = self.disk.apply(Change::Remove(&path)) {
            // The file is unreferenced, so this costs space until the next sweep.
            tracing::warn!(path = %path.display(), %error, "cannot remove a data file");
        }
    }

    fn placed(&self) -> MutexGuard<'_, Option<HashSet<Uuid>>> {
        self.placed.lock()
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Uuid, Pinned>> {
        self.pins.lock()
    }
}

/// Space reserved for a write, until dropped.
#[derive(Debug)]
pub(crate) struct SpaceReservation {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

/// Delays the removal of data files until dropped.
#[derive(Debug)]
pub(crate) struct FilePin {
    files: Arc<DataFiles>,
    ids: Vec<Uuid>,
}

impl Drop for FilePin {
    fn drop(&mut self) {
        let mut free = Vec::new();
        let mut pins = self.files.pins();
        for id in &self.ids {
            if let Some(pinned) = pins.get_mut(id) {
                pinned.readers -= 1;
                if pinned.readers == 0 && pins.remove(id).is_some_and(|pinned| pinned.removal_pending) {
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
        let files = DataFiles::open(dir.path(), Arc::new(LocalDisk)).unwrap();
        let Some(free) = files.free_bytes() else { return };
        let first = files.reserve_space(free / 4, free / 2).unwrap();
        assert!(matches!(files.reserve_space(free / 2, free / 2), Err(StoreError::Full)));
        assert!(files.reserve_space(free / 8, free / 2).is_ok(), "what was refused is not under way");
        drop(first);
        assert!(files.reserve_space(free / 3, free / 2).is_ok());
    }

    #[test]
    fn pinned_files_outlive_their_removal_and_crashes_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(DataFiles::open(dir.path(), Arc::new(LocalDisk)).unwrap());
        files.track_placed();
        let file = files.create().unwrap();
        file.write(0, b"abc").unwrap();
        let segment = files.commit_draft(&file, 3, None).unwrap();
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
        files.stop_tracking();
        files.remove_ids(&[copy.id, deep.id]);
        assert!(!files.was_placed(copy.id) && !files.path(copy.id).exists() && !files.path(deep.id).exists());
    }
}
