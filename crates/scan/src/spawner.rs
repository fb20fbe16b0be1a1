//! Who starts the tasks that a scan runs beside itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;

/// Starts a task. Tokio does, unless whoever runs the scan accounts for its work.
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(BoxFuture<'static, ()>) -> AbortOnDropHandle<()> + Send + Sync>);

impl Spawner {
    /// Starts tasks by this function; dropping what it gives ends the task.
    pub fn new(spawn: impl Fn(BoxFuture<'static, ()>) -> AbortOnDropHandle<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        (self.0)(work.boxed())
    }
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new(|work| AbortOnDropHandle::new(tokio::spawn(work)))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}
