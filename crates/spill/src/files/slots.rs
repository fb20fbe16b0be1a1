//! A bound on how many uploads are under way.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::block_in_place;

/// Places for uploads, of which a writer takes one before it gives a part away.
///
/// Threads wait for one as well as tasks do, which no semaphore of the standard library or of Tokio
/// offers at once.
#[derive(Debug)]
pub(super) struct Slots {
    all: usize,
    free: Mutex<usize>,
    /// Signals threads, one for each slot that becomes free.
    freed: Condvar,
    /// Signals tasks, all of them for each slot.
    changed: Notify,
}

/// One place; it becomes free when this is dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<Slots>);

impl Slots {
    /// `all` places, at least one.
    pub(super) fn new(all: usize) -> Arc<Self> {
        let all = all.max(1);
        Arc::new(Self { all, free: Mutex::new(all), freed: Condvar::new(), changed: Notify::new() })
    }

    /// Takes a place if one is free.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut free = self.free.lock();
        *free = free.checked_sub(1)?;
        Some(Slot(self.clone()))
    }

    /// Takes a place, and blocks the thread until one is free.
    ///
    /// No deadlock: a slot is held by an upload alone, uploads run on threads of their own
    /// ([`super::runtime`]), and an upload takes no lock that a waiting writer may hold. The other
    /// tasks of a worker of Tokio go on meanwhile: one of them may be the server that is uploaded
    /// to.
    pub(super) fn take(self: &Arc<Self>) -> Slot {
        if let Some(slot) = self.try_take() {
            return slot;
        }
        let is_worker =
            Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        if is_worker { block_in_place(|| self.wait()) } else { self.wait() }
    }

    fn wait(self: &Arc<Self>) -> Slot {
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        Slot(self.clone())
    }

    /// Waits until no upload is under way.
    pub(super) async fn all_free(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_all_free() {
                return;
            }
            changed.await;
        }
    }

    /// Whether no upload is under way.
    pub(super) fn is_all_free(&self) -> bool {
        *self.free.lock() == self.all
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
        self.0.changed.notify_waiters();
    }
}
