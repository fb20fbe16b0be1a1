//! Who starts the tasks that a scan runs beside itself, and who helps it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::task::JoinHandle;

use crate::interrupt::{Interrupt, Task};
use crate::limits;

/// Starts a task. Tokio does, unless whoever runs the scan accounts for its work.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(BoxFuture<'static, ()>) -> JoinHandle<()> + Send + Sync>);

impl Spawner {
    /// Starts tasks by this function.
    pub fn new(spawn: impl Fn(BoxFuture<'static, ()>) -> JoinHandle<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    /// Starts a task that ends with the one which starts it, and when the result is dropped.
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

/// Lets any thread take the task that was started or woken last. Tokio keeps that for the thread that did it, until it has
/// nothing else to do (tokio-rs/tokio#4941); another task takes the place. Without a runtime of Tokio there is none.
pub(crate) fn share_last_task() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(async {}));
    }
}

/// Who scans pieces of an object beside each other, where somebody is free.
#[derive(Clone)]
pub struct Helpers {
    most: usize,
    piece_bytes: u64,
    ask: Arc<dyn Fn() -> Option<Spawner> + Send + Sync>,
}

impl Helpers {
    /// Pieces of which at most `most` are scanned at once. Each but the first is started by what `ask` gives, and not
    /// before it gives anything; that is kept until the piece was scanned.
    pub fn new(most: usize, ask: impl Fn() -> Option<Spawner> + Send + Sync + 'static) -> Self {
        Self { most: most.max(1), piece_bytes: limits::PIECE_BYTES, ask: Arc::new(ask) }
    }

    /// With pieces of about so many bytes of the object.
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
