//! The threads on which requests for spilled data and reads of it run, separate from those of
//! queries.
//!
//! A query's writer may block one of the query's threads until an upload is done. Uploads still
//! make progress, since none of them runs on a thread of a query. The threads here do not block;
//! files are read on the pool for blocking work.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use datafusion_common::{DataFusionError, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The number of threads for requests. Checksums and TLS of one connection take less than one
/// thread.
const REQUEST_THREADS: usize = 2;

/// The maximum number of threads that read local files at the same time.
const READ_THREADS: usize = 16;

static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(REQUEST_THREADS)
        .max_blocking_threads(READ_THREADS)
        .thread_name("pushdowndb-spill")
        .enable_all()
        .build()
});

fn runtime() -> Result<&'static Runtime> {
    RUNTIME
        .as_ref()
        .map_err(|error| DataFusionError::Execution(format!("the threads for spilled data cannot be started: {error}")))
}

/// Runs `work` to its end, even if nothing waits for it. Returns an error if `work` was not
/// started.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    runtime()?.spawn(work);
    Ok(())
}

/// Work on these threads whose result can be awaited. Dropping it aborts the work.
#[derive(Debug)]
pub(super) struct Job<T>(JoinHandle<T>);

impl<T: Send + 'static> Job<T> {
    /// Starts `work`, which must not block.
    pub(super) fn start(work: impl Future<Output = T> + Send + 'static) -> Result<Self> {
        Ok(Self(runtime()?.spawn(work)))
    }

    /// Starts `work`, which may block.
    pub(super) fn start_blocking(work: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        Ok(Self(runtime()?.spawn_blocking(work)))
    }
}

impl<T> Future for Job<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(result.map_err(|error| {
            DataFusionError::Execution(format!("work on spilled data ended early: {error}; run the query again"))
        }))
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
