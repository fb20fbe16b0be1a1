//! A disk that records its changes.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::disk::{Change, Disk};

/// A change with paths below the root, or a note between changes.
#[derive(Clone, Debug)]
pub(super) enum Step {
    MakeFolder(PathBuf),
    SyncFolder(PathBuf),
    Create(PathBuf),
    Write { path: PathBuf, at: u64, bytes: Arc<[u8]> },
    Resize { path: PathBuf, size: u64 },
    Sync(PathBuf),
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Remove(PathBuf),
    Note(Note),
}

impl Step {
    /// The step without its bytes.
    pub fn summary(&self) -> String {
        match self {
            Self::Write { path, at, bytes } => format!("Write {} bytes at {at} of {}", bytes.len(), path.display()),
            other => format!("{other:?}"),
        }
    }

    /// Whether this step may make more data durable.
    pub fn makes_durable(&self) -> bool {
        matches!(self, Self::SyncFolder(_) | Self::Sync(_) | Self::Note(_))
    }
}

/// A note that a client starts the change to the state with this number, or that the change was
/// acknowledged (`done`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub client: usize,
    pub state: usize,
    pub done: bool,
}

/// The disks of this machine, with changes recorded one at a time. Nothing is synced: the
/// simulation decides what survives.
#[derive(Debug)]
pub(super) struct Recorder {
    root: PathBuf,
    steps: Mutex<Vec<Step>>,
}

impl Recorder {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), steps: Mutex::default() }
    }

    pub fn note(&self, note: Note) {
        self.steps.lock().push(Step::Note(note));
    }

    pub fn take(&self) -> Vec<Step> {
        mem::take(&mut self.steps.lock())
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).expect("a change outside the root").to_owned()
    }
}

impl Disk for Recorder {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        let step = match change {
            Change::MakeFolder(path) => Step::MakeFolder(self.below(path)),
            Change::SyncFolder(path) => Step::SyncFolder(self.below(path)),
            Change::Create(path) => Step::Create(self.below(path)),
            Change::Write { file, at, bytes } => Step::Write { path: self.below(file.path()), at, bytes: bytes.into() },
            Change::Resize { file, size } => Step::Resize { path: self.below(file.path()), size },
            Change::Sync(file) => Step::Sync(self.below(file.path())),
            Change::Rename { from, to } => Step::Rename { from: self.below(from), to: self.below(to) },
            Change::Link { from, to } => Step::Link { from: self.below(from), to: self.below(to) },
            Change::Remove(path) => Step::Remove(self.below(path)),
        };
        // The lock is held during the change, so that the record has the order of the changes.
        let mut steps = self.steps.lock();
        if !step.makes_durable() {
            change.apply()?;
        }
        steps.push(step);
        Ok(())
    }
}
