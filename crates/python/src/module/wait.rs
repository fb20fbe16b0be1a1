//! Waits for the engine: without the GIL, while handling Python's signals, or as an asyncio future.

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

/// The interval at which signals are checked and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// The stack size of each thread, as in the command line program: plans are nested as deeply as
/// statements.
const THREAD_STACK_BYTES: usize = 32 << 20;

/// The id of the process that started the runtime, and the runtime: its threads do not survive a
/// fork.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// Returns the runtime, which is started on first use.
pub fn runtime() -> PyResult<&'static Runtime> {
    let process = std::process::id();
    if RUNTIME.get().is_none() {
        // One extra worker keeps network I/O responsive while all others decode.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("pushdowndb")
            // Relations that are derived from each other result in deeply nested plans.
            .thread_stack_size(THREAD_STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| bug(format!("starting threads: {error}")))?;
        if let Err((_, unused)) = RUNTIME.set((process, runtime)) {
            // Another thread has started a runtime first.
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

/// Enters the runtime on the calling thread, for calls that start tasks without waiting for them,
/// such as dropping a result. Returns `None` before the runtime is first used, when there is
/// nothing to start.
pub fn enter() -> Option<EnterGuard<'static>> {
    RUNTIME.get().map(|(_, runtime)| runtime.enter())
}

/// A task that is aborted when this handle is dropped.
struct Spawned<T>(JoinHandle<T>);

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `work` on the threads of the runtime and waits for it without the GIL. Meanwhile it checks
/// for signals and calls `tick`; an exception from either cancels the work and is raised.
///
/// Must not be called on a thread of the runtime.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = Result<T>> + Send + 'static,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let mut spawned = Spawned(runtime()?.spawn(work));
    let done = wait_here(py, &mut spawned.0, tick)?;
    done.map_err(|error| bug(format!("a task of pushdowndb ended early: {error}")))?.map_err(|error| exception(&error))
}

/// Like [`wait`], but polls `work` on the calling thread, for work that mostly waits.
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

/// A `tick` that does nothing.
pub fn quietly(_: Python<'_>) -> PyResult<()> {
    Ok(())
}

/// Work in progress that calls a callback at its end.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawTask(Mutex<AbortHandle>);

#[pymethods]
impl RawTask {
    /// Cancels the work. The callback is not called afterwards, unless it is just being called.
    fn cancel(&self) {
        self.0.lock().abort();
    }
}

/// Starts `work`, and calls `done(value, error)` at its end, on a thread of the runtime. One of the
/// arguments is None.
pub fn start<T, F>(work: F, done: Py<PyAny>) -> PyResult<RawTask>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let task = runtime()?.spawn(async move {
        let outcome = work.await;
        // This does nothing if the interpreter is shutting down, when no future waits for the
        // result.
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
    // An error means that the event loop is closed, so no future waits for the result.
    drop(done.call1(py, (value, error)));
}
