//! A limit on the number of uploads in flight.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::block_in_place;

/// A semaphore for uploads. A writer takes a slot before it hands over a part.
///
/// Unlike the semaphores of the standard library and of Tokio, it can be waited for by threads as
/// well as by tasks.
#[derive(Debug)]
pub(super) struct Slots {
    all: usize,
    free: Mutex<usize>,
    /// Wakes one waiting thread for each slot that becomes free.
    freed: Condvar,
    /// Wakes all waiting tasks for each slot that becomes free.
    changed: Notify,
}

/// A permit for one upload. Dropping it makes the slot free.
#[derive(Debug)]
pub(super) struct Slot(Arc<Slots>);

impl Slots {
    /// Creates `all` slots, at least one.
    pub(super) fn new(all: usize) -> Arc<Self> {
        let all = all.max(1);
        Arc::new(Self { all, free: Mutex::new(all), freed: Condvar::new(), changed: Notify::new() })
    }

    /// Takes a slot if one is free.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut free = self.free.lock();
        *free = free.checked_sub(1)?;
        Some(Slot(self.clone()))
    }

    /// Takes a slot, and blocks the thread until one is free.
    ///
    /// This cannot deadlock: only uploads hold slots, uploads run on separate threads
    /// ([`super::runtime`]), and an upload takes no lock that a waiting writer may hold. On a
    /// worker thread of Tokio, the worker's other tasks continue meanwhile; one of them may be the
    /// server that receives the upload.
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

    /// Waits until no upload is in flight.
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

    /// Returns whether no upload is in flight.
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
