//! State that the queries of a process share: its folder, the quota of the disk, and deletions.

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

/// The spilled data of all queries of an engine process. Clones are cheap and share their state.
///
/// Nothing exists on the disk until a query spills. The folder of the process is removed when the
/// last clone and the last query are dropped. If the process is killed, its folder is removed by
/// the next process that spills to the same disk, or by [`vacuum`](super::vacuum()).
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

/// The number of deletions in progress.
#[derive(Debug, Default)]
struct Endings {
    pending: Mutex<usize>,
    changed: Notify,
}

/// A guard that marks one deletion as in progress until it is dropped.
///
/// Its clone of the process is dropped before the deletion is counted as done. The last clone
/// removes the folder, and a program may end as soon as [`settle`](SpillProcess::settle) returns.
#[derive(Debug)]
pub(super) struct Ending {
    process: Option<SpillProcess>,
    endings: Arc<Endings>,
}

impl SpillProcess {
    /// Creates a process with a new name, which has spilled nothing yet.
    pub fn new(options: DiskOptions) -> Self {
        let quota = Quota::new(&options);
        let (folder, endings) = (Mutex::new(None), Arc::default());
        Self(Arc::new(Shared { node: Uuid::new_v4(), options, quota, folder, endings }))
    }

    /// Returns the name of the process, which is used in keys and for its folder.
    pub fn node(&self) -> Uuid {
        self.0.node
    }

    /// Returns the number of bytes of spilled data on the local disk.
    pub fn disk_bytes(&self) -> u64 {
        self.0.quota.used()
    }

    /// Waits until the deletion of all data uploaded by ended queries is done or has failed. Call
    /// it before the process ends; what is left then is deleted by the next process.
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

    /// Returns the folder of all processes.
    pub(super) fn root(&self) -> PathBuf {
        folder::root(&self.0.options.folder)
    }

    /// Returns the folder of this process, which the first call creates. Returns a message if it
    /// cannot be created.
    ///
    /// The first call also starts to remove the folders of dead processes, and the parts that those
    /// uploaded to `remote`.
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

    /// Marks a deletion as in progress: [`settle`](Self::settle) waits until the result is dropped.
    pub(super) fn ending(&self) -> Ending {
        *self.0.endings.pending.lock() += 1;
        Ending { process: Some(self.clone()), endings: self.0.endings.clone() }
    }

    /// Returns whether the process `node` is alive on this machine. This process is.
    pub(super) fn is_live(&self, node: Uuid) -> bool {
        node == self.0.node || folder::is_live(&self.root(), node)
    }

    /// Simulates that the process is killed by a signal: its lock is released, and its files stay.
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
