//! A runtime with as many threads as a contestant may use.

use anyhow::{Context, Result, anyhow};

/// Runs `work` on a new runtime with a number of `threads`. Blocks the calling thread, which must
/// not belong to another runtime.
pub fn run<T: Send + 'static>(threads: usize, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build().context("starting the runtime")?;
    runtime.block_on(runtime.spawn(work)).map_err(|error| anyhow!("the query ended early: {error}"))?
}
