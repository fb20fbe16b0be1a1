//! A disk that is trusted until it loses what it had taken.
//!
//! A sync that fails leaves nobody the wiser: the kernel may have dropped the bytes and call them written, so that
//! trying again succeeds and reading finds what a loss of power will not (Rebello et al., "Can Applications
//! Recover from fsync Failures?", 2020). So after one the store writes nothing more until it is started again, which
//! reads what the disk itself holds. A full disk is another matter: what it refused is discarded by us.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::disk::{Change, Disk};
use super::error::is_full;
use super::{Result, StoreError};

/// Passes changes on until a sync fails.
#[derive(Debug)]
pub(super) struct TrustedDisk {
    disk: Arc<dyn Disk>,
    lost: AtomicBool,
}

/// The disk failed to keep a write, this one or an earlier one.
#[derive(Debug, thiserror::Error)]
#[error("the disk failed to keep a write")]
pub(super) struct NotTrusted(#[source] Option<io::Error>);

impl TrustedDisk {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, lost: AtomicBool::new(false) }
    }

    /// Whether a sync failed.
    pub fn has_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Refuses if a sync failed.
    pub fn check(&self) -> Result<()> {
        if self.has_lost() { Err(StoreError::Stopped) } else { Ok(()) }
    }
}

impl Disk for TrustedDisk {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        // What is written into open files is finished, so that no commit is cut in the middle.
        let goes_on =
            matches!(change, Change::Write { .. } | Change::Resize { .. } | Change::Sync(_) | Change::SyncFolder(_));
        if !goes_on && self.has_lost() {
            return Err(io::Error::other(NotTrusted(None)));
        }
        match (change, self.disk.apply(change)) {
            (Change::Sync(_) | Change::SyncFolder(_), Err(error)) if !is_full(&error) => {
                tracing::error!(%error, ?change, "the disk failed to keep a write: no more is written before a restart");
                self.lost.store(true, SeqCst);
                Err(io::Error::other(NotTrusted(Some(error))))
            }
            (_, done) => done,
        }
    }
}
