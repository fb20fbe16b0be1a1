//! A disk that refuses changes after a failed sync.
//!
//! After a failed sync the kernel may drop the dirty pages and mark them clean: a retry succeeds,
//! and reads return data that a power loss will lose (Rebello et al., "Can Applications Recover
//! from fsync Failures?", 2020). So the store writes nothing more until it is restarted, which
//! reads what the disk really holds. A full disk is different: the store discards the writes that
//! it refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::{Change, Disk};
use crate::store::fault::{LostWrite, is_full};
use crate::store::{Result, StoreError};

/// Forwards changes until a sync fails.
#[derive(Debug)]
pub(crate) struct FailStopDisk {
    disk: Arc<dyn Disk>,
    lost: AtomicBool,
}

impl FailStopDisk {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, lost: AtomicBool::new(false) }
    }

    /// Whether a sync failed.
    pub fn has_failed(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Returns an error if a sync has failed.
    pub fn check(&self) -> Result<()> {
        if self.has_failed() { Err(StoreError::Stopped) } else { Ok(()) }
    }
}

impl Disk for FailStopDisk {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        // Writes to open files still go through, so that no commit is cut in the middle.
        let goes_on =
            matches!(change, Change::Write { .. } | Change::Resize { .. } | Change::Sync(_) | Change::SyncFolder(_));
        if !goes_on && self.has_failed() {
            return Err(io::Error::other(LostWrite(None)));
        }
        match (change, self.disk.apply(change)) {
            (Change::Sync(_) | Change::SyncFolder(_), Err(error)) if !is_full(&error) => {
                tracing::error!(%error, ?change, "the disk failed to keep a write: no more is written before a restart");
                self.lost.store(true, SeqCst);
                Err(io::Error::other(LostWrite(Some(error))))
            }
            (_, done) => done,
        }
    }
}
