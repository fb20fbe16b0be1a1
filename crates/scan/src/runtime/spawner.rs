//! Starting background tasks of a scan, and obtaining helpers.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::task::JoinHandle;

use crate::limits;
use crate::runtime::interrupt::{Interrupt, Task};

/// Starts tasks. The default uses Tokio; a caller that accounts for work passes its own function.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(BoxFuture<'static, ()>) -> JoinHandle<()> + Send + Sync>);

impl Spawner {
    /// Creates a spawner that starts tasks with `spawn`.
    pub fn new(spawn: impl Fn(BoxFuture<'static, ()>) -> JoinHandle<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    /// Starts a task that is cancelled when its parent is, and when the result is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Task<()> {
        Task::start(&Interrupt::default(), work, |work| (self.0)(work))
    }
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new(tokio::spawn)
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}

/// Allows any thread to run the task that was started or woken last. Tokio keeps that task for the
/// current thread until the thread is idle (tokio-rs/tokio#4941), so a dummy task takes its place.
/// Does nothing outside a Tokio runtime.
pub(crate) fn share_last_task() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(async {}));
    }
}

/// Limits of a parallel scan of one object, and the source of its threads.
#[derive(Clone)]
pub struct Helpers {
    most: usize,
    piece_bytes: u64,
    ask: Arc<dyn Fn() -> Option<Spawner> + Send + Sync>,
}

impl Helpers {
    /// Creates helpers that scan at most `most` pieces at the same time. The first piece needs no
    /// helper. Every other one is started when `ask` returns a spawner, which is held until the
    /// piece was scanned.
    pub fn new(most: usize, ask: impl Fn() -> Option<Spawner> + Send + Sync + 'static) -> Self {
        Self { most: most.max(1), piece_bytes: limits::PIECE_BYTES, ask: Arc::new(ask) }
    }

    /// Sets the size of a piece, in bytes of the object.
    #[must_use]
    pub fn with_piece_bytes(self, piece_bytes: u64) -> Self {
        Self { piece_bytes: piece_bytes.max(1), ..self }
    }

    pub(crate) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn ask(&self) -> Option<Spawner> {
        (self.ask)()
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helpers").field("most", &self.most).finish_non_exhaustive()
    }
}
