//! The content of one file: its sealed parts, followed by the part that is being filled.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion_common::{Result, exec_err};
use parking_lot::Mutex;

use super::disk;
use super::error::{self, Fault};
use super::part::{Part, Place};
use super::seal::{TAG_BYTES, seal};
use super::tiers::Tiers;

/// The content of a file, shared by its handle, its writer and its readers. All stored data of the
/// file is deleted when the last of them is dropped.
#[derive(Debug)]
pub(super) struct Content {
    pub tiers: Arc<Tiers>,
    number: u64,
    description: String,
    pub state: Mutex<State>,
    /// The file's first error. Uploads share it without keeping the rest of the content alive.
    pub fault: Arc<Fault>,
}

#[derive(Debug)]
pub(super) struct State {
    pub parts: Vec<Part>,
    /// The bytes of the part that is being filled. Readers copy from it.
    pub tail: Vec<u8>,
    pub phase: Phase,
    /// The number of bytes written, before encryption.
    size: u64,
    /// The path and length of the local file, once it exists.
    local: Option<(PathBuf, u64)>,
    /// The length of a part that stays in memory, 0 if there is none.
    kept: usize,
}

/// The state of the file's writer: whether more bytes may follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// No writer has been opened yet.
    New,
    Writing,
    Finished,
    /// The writer was dropped before it finished.
    Abandoned,
}

impl Content {
    /// Creates an empty file. Errors contain its `description`.
    pub(super) fn new(tiers: Arc<Tiers>, description: &str) -> Self {
        let number = tiers.new_file();
        let state = State { parts: Vec::new(), tail: Vec::new(), phase: Phase::New, size: 0, local: None, kept: 0 };
        let (state, fault) = (Mutex::new(state), Arc::default());
        Self { tiers, number, description: description.to_owned(), state, fault }
    }

    /// Returns the name of the file for errors.
    pub(super) fn name(&self) -> String {
        format!("file {} ({}) of query {}", self.number, self.description, self.tiers.query)
    }

    /// The bytes written so far.
    pub(super) fn size(&self) -> u64 {
        self.state.lock().size
    }

    pub(super) fn begin(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.phase == Phase::Writing {
            return exec_err!("{} has a writer already", self.name());
        }
        state.phase = Phase::Writing;
        Ok(())
    }

    /// Ends the writing with the state `phase`, and wakes readers.
    pub(super) fn end(&self, phase: Phase) {
        self.state.lock().phase = phase;
        self.fault.changed.notify_waiters();
    }

    /// Appends `bytes` to the part being filled until that is full. Returns how many bytes were
    /// taken, and the new length of the part.
    pub(super) fn append(&self, bytes: &[u8]) -> (usize, usize) {
        let tiers = &self.tiers;
        let limit = if tiers.remote.is_some() { tiers.remote_part } else { tiers.disk_part };
        let mut state = self.state.lock();
        let State { tail, size, .. } = &mut *state;
        let taken = bytes.len().min(limit.saturating_sub(tail.len()));
        if *size == 0 && taken > 0 {
            tiers.meter.file();
        }
        if tail.capacity() - tail.len() < taken {
            // The capacity doubles, up to a full part with its tag, so that a part can be sent
            // without a copy.
            let capacity = (tail.capacity() * 2).clamp(tail.len() + taken, limit + TAG_BYTES);
            tail.reserve_exact(capacity - tail.len());
        }
        tail.extend_from_slice(&bytes[..taken]);
        *size += taken as u64;
        let filled = tail.len();
        drop(state);
        tiers.buffer(taken);
        (taken, filled)
    }

    /// Seals the part being filled; it stays in memory until it is moved to another place. Only the
    /// writer calls this.
    fn seal(&self, state: &mut State) -> Result<Part> {
        let tail = std::mem::take(&mut state.tail);
        self.tiers.unbuffer(tail.len());
        let (stored, seal) = seal(self.tiers.cipher.as_deref(), self.tiers.new_part(), tail)?;
        let part = Part::new(seal, stored);
        state.parts.push(part.clone());
        Ok(part)
    }

    /// Seals the part being filled and keeps it in memory, if it is small and the memory for small
    /// files is not used up. Returns whether it did.
    pub(super) fn try_keep(&self) -> Result<bool> {
        let mut state = self.state.lock();
        let bytes = state.tail.len();
        if !self.tiers.keep(bytes) {
            return Ok(false);
        }
        state.kept += bytes;
        self.seal(&mut state)?;
        Ok(true)
    }

    /// Seals the part being filled and writes it to the local disk.
    ///
    /// An inner error says why the disk cannot take the part. It contains the part if that was
    /// already sealed.
    pub(super) fn try_disk(&self) -> Result<Result<(), (String, Option<Part>)>> {
        let tiers = &self.tiers;
        let (path, bytes) = match tiers.path(self.number) {
            Ok(path) => (path, self.state.lock().tail.len()),
            Err(reason) => return Ok(Err((reason, None))),
        };
        let stored = (bytes + if tiers.cipher.is_some() { TAG_BYTES } else { 0 }) as u64;
        let Some(folder) = path.parent() else { return Ok(Err(("it has no folder".into(), None))) };
        if let Err(reason) = tiers.process.quota().take(folder, stored) {
            return Ok(Err((reason, None)));
        }
        let (part, offset) = {
            let mut state = self.state.lock();
            let offset = state.local.as_ref().map_or(0, |(_, length)| *length);
            match self.seal(&mut state) {
                Ok(part) => {
                    // The length is updated before the write, so that the file is removed whatever
                    // happens.
                    state.local = Some((path.clone(), offset + stored));
                    (part, offset)
                }
                Err(error) => {
                    tiers.process.quota().give_back(stored);
                    return Err(error);
                }
            }
        };
        let content = match &*part.place.lock() {
            Place::Memory(content) => content.clone(),
            _ => return exec_err!("a new part of {} is not in memory", self.name()),
        };
        if let Err(error) = disk::write(&path, offset, &content) {
            self.state.lock().local = Some((path.clone(), offset));
            tiers.process.quota().give_back(stored);
            let what = if disk::is_full(&error) { "the disk is full" } else { "the disk failed" };
            return Ok(Err((format!("{what}: {}: {error}", path.display()), Some(part))));
        }
        *part.place.lock() = Place::Disk { offset };
        tiers.meter.wrote_disk(content.len());
        Ok(Ok(()))
    }

    /// Uploads `part`, or seals the part being filled and uploads that. `no_disk` says why the part
    /// is not on the local disk, for an error if there is no object store.
    ///
    /// Blocks the thread, without holding a lock, while the maximum number of uploads is in flight.
    pub(super) fn upload(&self, part: Option<Part>, no_disk: &str) -> Result<()> {
        let Some(remote) = &self.tiers.remote else { return Err(error::no_room(&self.name(), no_disk)) };
        let slot = self.tiers.slot(remote);
        let part = match part {
            Some(part) => part,
            None => self.seal(&mut self.state.lock())?,
        };
        let stored = match &*part.place.lock() {
            Place::Memory(stored) => stored.clone(),
            _ => return exec_err!("a new part of {} is not in memory", self.name()),
        };
        let (fault, name) = (self.fault.clone(), self.name());
        remote.upload(slot, stored, move |result| {
            let number = match result {
                Ok(number) => number,
                Err(error) => {
                    // The bytes are still in memory, but if the writer went on, further ones would
                    // not fit.
                    fault.set(error.context(format!("{name} could not be spilled")));
                    return false;
                }
            };
            let mut place = part.place.lock();
            if matches!(*place, Place::Gone) {
                return false;
            }
            *place = Place::Remote { number };
            true
        })
    }

    /// Returns the path of the local file, if there is one.
    pub(super) fn local_path(&self) -> Option<PathBuf> {
        self.state.lock().local.as_ref().map(|(path, _)| path.clone())
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.tiers.unbuffer(state.tail.len());
        self.tiers.unkeep(state.kept);
        for part in &state.parts {
            let place = std::mem::replace(&mut *part.place.lock(), Place::Gone);
            if let (Place::Remote { number }, Some(remote)) = (place, &self.tiers.remote) {
                remote.discard(number);
            }
        }
        if let Some((path, length)) = &state.local {
            self.tiers.process.quota().give_back(*length);
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a file of spilled data cannot be removed");
            }
        }
    }
}
