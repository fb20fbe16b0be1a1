//! What the queries of a process share: its folder, the quota of the disk, and deletions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::cleanup;
use super::disk::Quota;
use super::folder::{self, Folder};
use super::options::{DiskOptions, RemoteStore};
use super::runtime;

/// The spilled data of an engine process, in all of its queries. Cheap to clone; what a clone does,
/// all do.
///
/// Nothing exists on the disk until a query spills. The folder of the process is removed when the
/// last clone and the last query are dropped; one that a process leaves when it is killed, by the
/// next process that spills to the same disk, and by [`vacuum`](super::vacuum()).
#[derive(Clone, Debug)]
pub struct SpillProcess(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    node: Uuid,
    options: DiskOptions,
    quota: Quota,
    folder: Mutex<Option<Folder>>,
    endings: Arc<Endings>,
}

/// How many deletions are under way.
#[derive(Debug, Default)]
struct Endings {
    pending: Mutex<usize>,
    changed: Notify,
}

/// One deletion that is under way, until this is dropped.
///
/// The process is dropped before the deletion is counted as done: its last clone removes the folder,
/// and a program may end as soon as [`settle`](SpillProcess::settle) returns.
#[derive(Debug)]
pub(super) struct Ending {
    process: Option<SpillProcess>,
    endings: Arc<Endings>,
}

impl SpillProcess {
    /// A process that has spilled nothing yet, with a new name.
    pub fn new(options: DiskOptions) -> Self {
        let quota = Quota::new(&options);
        let (folder, endings) = (Mutex::new(None), Arc::default());
        Self(Arc::new(Shared { node: Uuid::new_v4(), options, quota, folder, endings }))
    }

    /// The name of the process in keys and of its folder.
    pub fn node(&self) -> Uuid {
        self.0.node
    }

    /// The bytes of spilled data on the local disk.
    pub fn disk_bytes(&self) -> u64 {
        self.0.quota.used()
    }

    /// Waits until everything that ended queries uploaded is deleted, or has failed to be. Call it
    /// before the process ends; what is deleted later than that is deleted by the next process.
    pub async fn settle(&self) {
        loop {
            let mut changed = std::pin::pin!(self.0.endings.changed.notified());
            changed.as_mut().enable();
            if *self.0.endings.pending.lock() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// The folder of all processes.
    pub(super) fn root(&self) -> PathBuf {
        folder::root(&self.0.options.folder)
    }

    /// The folder of this process, which the first call makes; an error says why it cannot be made.
    ///
    /// That call also starts to remove the folders of dead processes, and what they uploaded to
    /// `remote`.
    pub(super) fn folder(&self, remote: Option<&RemoteStore>) -> Result<PathBuf, String> {
        let mut folder = self.0.folder.lock();
        if let Some(folder) = &*folder {
            return Ok(folder.path.clone());
        }
        let root = self.root();
        let made = Folder::create(&root, self.0.node);
        let made = made.map_err(|error| format!("no folder can be made in {}: {error}", root.display()))?;
        let path = made.path.clone();
        *folder = Some(made);
        let (ending, remotes) = (self.ending(), remote.cloned().into_iter().collect::<Vec<_>>());
        let cleanup = async move {
            let _ending = ending;
            let sweep = cleanup::after_dead_processes(&root, &remotes, Duration::ZERO, false).await;
            if let Some(failed) = sweep.failed {
                tracing::warn!("spilled data of a dead process: {failed}");
            }
        };
        runtime::spawn(cleanup).map_err(|error| error.to_string())?;
        Ok(path)
    }

    pub(super) fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// Makes [`settle`](Self::settle) wait until the result is dropped.
    pub(super) fn ending(&self) -> Ending {
        *self.0.endings.pending.lock() += 1;
        Ending { process: Some(self.clone()), endings: self.0.endings.clone() }
    }

    /// Whether the process `node` is this one or another living one of this machine.
    pub(super) fn is_live(&self, node: Uuid) -> bool {
        node == self.0.node || folder::is_live(&self.root(), node)
    }

    /// Does what the end of the process by a signal does to it: its lock is free, and its files
    /// stay.
    #[cfg(test)]
    pub(super) fn die(&self) {
        if let Some(folder) = self.0.folder.lock().take() {
            folder.unlock();
            std::mem::forget(folder);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.process = None;
        *self.endings.pending.lock() -= 1;
        self.endings.changed.notify_waiters();
    }
}
