//! Cancellation and deadlines of computations.
//!
//! A future that is computing does not end when it is dropped: it has to return from `poll` first.
//! Long computations therefore check an [`Interrupt`] from time to time. It is a task-local
//! variable, so kernels deep inside an expression can check it without getting it as an argument.
//! Work on another task runs under an interrupt nested in that of the task that started it
//! ([`Task`]), so cancelling one cancels all work started for it.
//!
//! A check costs about 30 ns. It is done once per block of text or batch of rows, and by [`Steps`]
//! in loops whose work is not bounded by these. An interrupt that has failed keeps failing. So a
//! function that cannot return an error may stop early with any result: the scan checks again
//! before it returns that result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pushdowndb_contract::{Error, ErrorKind, Result};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::AbortOnDropHandle;

use crate::runtime::time_slice::lend;

/// The number of bytes, rows or comparisons between two checks, which take about a millisecond.
const CHECK_INTERVAL_STEPS: usize = 1 << 20;

tokio::task_local! {
    static CURRENT: Interrupt;
}

/// Signals that a computation should end, because it was cancelled or has exceeded its time. Clones
/// share their state. The default never interrupts.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    /// The deadline, and the time limit from which it was computed.
    deadline: Option<(Instant, Duration)>,
    /// An interrupt that interrupts this one, too.
    outer: Interrupt,
}

impl Interrupt {
    /// Creates an interrupt that can be cancelled.
    pub fn new() -> Self {
        Self::default().inner()
    }

    /// Creates an interrupt that can be cancelled, and that fails after `time`.
    pub fn after(time: Duration) -> Self {
        Self::default().inner_after(time)
    }

    /// Creates an interrupt that can be cancelled separately, and that fails when this one does.
    #[must_use]
    pub fn inner(&self) -> Self {
        Self(Some(Arc::new(State { outer: self.clone(), ..State::default() })))
    }

    /// Like [`Self::inner`], for an interrupt that also fails after `time`.
    #[must_use]
    pub fn inner_after(&self, time: Duration) -> Self {
        let deadline = Instant::now().checked_add(time).map(|at| (at, time));
        Self(Some(Arc::new(State { outer: self.clone(), deadline, ..State::default() })))
    }

    /// Returns the interrupt of the current task; outside of a task, one that never interrupts.
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Cancels all work under this interrupt.
    pub fn cancel(&self) {
        if let Some(state) = &self.0 {
            state.cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns a guard that cancels when it is dropped.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Returns an error if the interrupt was cancelled or has exceeded its time.
    pub fn check(&self) -> Result<()> {
        let mut next = &self.0;
        while let Some(state) = next {
            if state.cancelled.load(Ordering::Relaxed) {
                return Err(cancelled());
            }
            if let Some((at, time)) = state.deadline
                && Instant::now() >= at
            {
                return Err(late(time));
            }
            next = &state.outer.0;
        }
        Ok(())
    }

    /// Runs `work` under this interrupt. If this one never interrupts, `work` keeps the interrupt
    /// of the current task.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let interrupt = self.or_current();
        CURRENT.scope(interrupt, work)
    }

    /// Runs synchronous `work` like [`Self::scope`].
    pub fn scope_sync<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.or_current(), work)
    }

    fn or_current(&self) -> Self {
        if self.0.is_some() { self.clone() } else { Self::current() }
    }
}

/// Returns an error if the current task is interrupted. If the current poll has taken long, other
/// tasks may first run on this thread's worker.
pub(crate) fn check_interrupt() -> Result<()> {
    lend(Instant::now);
    CURRENT.try_with(Interrupt::check).unwrap_or(Ok(()))
}

#[cold]
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the work was cancelled")
}

#[cold]
fn late(time: Duration) -> Error {
    let message = format!("the work took more than {} s", time.as_secs_f64());
    Error::new(ErrorKind::Unavailable, message).with_code("RequestTimeout")
}

/// Cancels an interrupt when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Interrupt);

impl CancelOnDrop {
    /// Drops the guard without cancelling.
    pub fn disarm(mut self) {
        self.0 = Interrupt::default();
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Counts work and checks the interrupt about once per million steps.
#[derive(Debug)]
pub(crate) struct Steps {
    left: usize,
    /// The number of checks, plus one.
    looks: usize,
    stopped: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: CHECK_INTERVAL_STEPS, looks: 1, stopped: false }
    }
}

impl Steps {
    /// Counts `done` steps. Returns false if the work should end.
    #[inline]
    pub(crate) fn go_on(&mut self, done: usize) -> bool {
        match self.left.checked_sub(done) {
            Some(left) => {
                self.left = left;
                true
            }
            None => self.look(),
        }
    }

    /// Counts `done` steps. Returns an error if the work should end.
    #[inline]
    pub(crate) fn did(&mut self, done: usize) -> Result<()> {
        if self.go_on(done) { Ok(()) } else { check_interrupt() }
    }

    /// Returns the number of steps counted so far, for tests.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> usize {
        self.looks * CHECK_INTERVAL_STEPS - self.left
    }

    #[cold]
    fn look(&mut self) -> bool {
        if !self.stopped && check_interrupt().is_ok() {
            self.left = CHECK_INTERVAL_STEPS;
            self.looks += 1;
        } else {
            (self.left, self.stopped) = (0, true);
        }
        !self.stopped
    }
}

/// A task. If it is dropped before the task has ended, the task is interrupted and aborted.
#[derive(Debug)]
pub struct Task<T> {
    handle: AbortOnDropHandle<T>,
    /// `None` once the task has ended, so that work it started may continue.
    cancel: Option<CancelOnDrop>,
}

impl<T> Task<T> {
    /// Starts `work` by `spawn`, under a new interrupt nested in `outer` and in that of the current
    /// task.
    pub fn start<F>(
        outer: &Interrupt,
        work: F,
        spawn: impl FnOnce(Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T>,
    ) -> Self
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let interrupt = outer.or_current().inner();
        let handle = AbortOnDropHandle::new(spawn(Box::pin(interrupt.scope(work))));
        Self { handle, cancel: Some(interrupt.cancel_on_drop()) }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.handle).poll(cx);
        if ended.is_ready()
            && let Some(cancel) = self.cancel.take()
        {
            cancel.disarm();
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(result: Result<()>) -> Option<ErrorKind> {
        result.err().map(|error| error.kind())
    }

    #[tokio::test]
    async fn work_is_ended_with_what_it_runs_within() {
        let outer = Interrupt::new();
        let (inner, other) = (outer.inner(), outer.inner());
        assert!(inner.check().is_ok());
        other.cancel();
        assert_eq!(kind(other.check()), Some(ErrorKind::Cancelled));
        assert!(inner.check().is_ok() && outer.check().is_ok(), "neither what is beside it nor what is around it");
        inner.scope(async { assert!(check_interrupt().is_ok()) }).await;
        outer.cancel();
        inner.scope(async { assert_eq!(kind(check_interrupt()), Some(ErrorKind::Cancelled)) }).await;
        inner.scope_sync(|| assert!(Interrupt::current().check().is_err()));
        // The default interrupt leaves that of the task in place.
        inner.scope(async { Interrupt::default().scope(async { assert!(check_interrupt().is_err()) }).await }).await;
        assert!(check_interrupt().is_ok(), "not out of the scope");
    }

    #[test]
    fn time_is_up_for_good() {
        assert!(Interrupt::after(Duration::from_secs(3600)).check().is_ok());
        assert!(Interrupt::after(Duration::MAX).check().is_ok());
        let late = Interrupt::after(Duration::ZERO);
        assert_eq!(kind(late.inner().check()), Some(ErrorKind::Unavailable));
        assert_eq!(late.check().unwrap_err().code(), Some("RequestTimeout"));
        let mut steps = Steps::default();
        late.scope_sync(|| {
            assert!(steps.go_on(CHECK_INTERVAL_STEPS), "not yet");
            assert!(!steps.go_on(1) && !steps.go_on(0) || !steps.go_on(1), "and then for good");
            assert!(steps.did(1).is_err());
        });
    }

    #[test]
    fn a_guard_cancels() {
        let interrupt = Interrupt::new();
        drop(interrupt.cancel_on_drop());
        assert!(interrupt.check().is_err());
        Interrupt::default().cancel();
        assert!(Interrupt::default().check().is_ok());
    }

    /// The only thread is kept busy by work that never waits, so only the interrupt can end it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_that_is_dropped_ends_though_it_never_waits() {
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let work = async move {
            // Work that the task starts runs under an interrupt nested in its own.
            let inner = Interrupt::current().inner();
            started.send(()).unwrap();
            let mut rounds = 0u64;
            while inner.check().is_ok() {
                rounds += 1;
            }
            ended.send(rounds).unwrap();
        };
        let task = Task::start(&Interrupt::default(), work, tokio::spawn);
        has_started.await.unwrap();
        drop(task);
        assert!(tokio::time::timeout(Duration::from_secs(20), has_ended).await.unwrap().is_ok());
        let work = async { Interrupt::current() };
        let left = Task::start(&Interrupt::default(), work, tokio::spawn).await.unwrap();
        assert!(left.check().is_ok(), "work that has ended is not cancelled");
    }
}
