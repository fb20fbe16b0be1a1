//! Waiting for the engine: without the GIL, with Python's signals, or as a future of asyncio.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tokio::runtime::{EnterGuard, Runtime};
use tokio::task::{AbortHandle, JoinHandle};

use super::errors::{bug, exception};

/// The interval at which signals are looked for, and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// The stack of each thread, as the command line's: plans are as deep as statements are.
const THREAD_STACK_BYTES: usize = 32 << 20;

/// The runtime of the process, and the process: threads do not survive a fork.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The runtime, started by its first use.
pub fn runtime() -> PyResult<&'static Runtime> {
    let process = std::process::id();
    if RUNTIME.get().is_none() {
        // One extra worker keeps network I/O responsive while all others decode.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("pushdowndb")
            // Relations that derive from each other are deep plans.
            .thread_stack_size(THREAD_STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| bug(format!("starting threads: {error}")))?;
        if let Err((_, unused)) = RUNTIME.set((process, runtime)) {
            // Another thread was first.
            unused.shutdown_background();
        }
    }
    match RUNTIME.get() {
        Some((started_in, runtime)) if *started_in == process => Ok(runtime),
        _ => Err(bug(
            "this process was forked from one that had used pushdowndb, whose threads it lacks; start it with \
                      multiprocessing's method 'spawn' or 'forkserver'",
        )),
    }
}

/// Makes the runtime that of the calling thread, for what starts tasks without waiting for them, as
/// dropping a result does. There is none before its first use, and then nothing to start.
pub fn enter() -> Option<EnterGuard<'static>> {
    RUNTIME.get().map(|(_, runtime)| runtime.enter())
}

/// Work that ends when its handle is dropped.
struct Spawned<T>(JoinHandle<T>);

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for `work` on the threads of the runtime, without the GIL. Looks for signals meanwhile, and
/// calls `tick`; an exception of either stops the work and is raised.
///
/// The runtime's threads must not call it.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = Result<T>> + Send + 'static,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let mut spawned = Spawned(runtime()?.spawn(work));
    let done = wait_here(py, &mut spawned.0, tick)?;
    done.map_err(|error| bug(format!("a task of pushdowndb ended early: {error}")))?.map_err(|error| exception(&error))
}

/// Waits as [`wait`] does for work that needs little but waiting, on the calling thread.
pub fn wait_here<T: Send>(
    py: Python<'_>,
    work: impl Future<Output = T> + Send,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let runtime = runtime()?;
    let mut work = Box::pin(work);
    loop {
        let done = py.detach(|| runtime.block_on(async { tokio::time::timeout(TICK, &mut work).await }));
        match done {
            Ok(done) => return Ok(done),
            Err(_) => {
                py.check_signals()?;
                tick(py)?;
            }
        }
    }
}

/// No progress is shown.
pub fn quietly(_: Python<'_>) -> PyResult<()> {
    Ok(())
}

/// Work under way, whose end a callback hears of.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawTask(Mutex<AbortHandle>);

#[pymethods]
impl RawTask {
    /// Stops the work. The callback is not called any more, unless it is at this moment.
    fn cancel(&self) {
        self.0.lock().abort();
    }
}

/// Starts `work`, and calls `done(value, error)` at its end, one of which is None, on a thread of the
/// runtime.
pub fn start<T, F>(work: F, done: Py<PyAny>) -> PyResult<RawTask>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let task = runtime()?.spawn(async move {
        let outcome = work.await;
        // At the end of the interpreter no future waits for it.
        Python::try_attach(|py| report(py, outcome, &done));
    });
    Ok(RawTask(Mutex::new(task.abort_handle())))
}

fn report<T: for<'py> IntoPyObject<'py>>(py: Python<'_>, outcome: Result<T, Error>, done: &Py<PyAny>) {
    let (value, error) = match outcome.map(|value| value.into_py_any(py)) {
        Ok(Ok(value)) => (value, py.None()),
        Ok(Err(error)) => (py.None(), error.into_value(py).into_any()),
        Err(error) => (py.None(), exception(&error).into_value(py).into_any()),
    };
    // It fails where the event loop is closed, and then no future waits.
    drop(done.call1(py, (value, error)));
}
