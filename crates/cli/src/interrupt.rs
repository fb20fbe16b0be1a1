//! Ctrl-C: cancels the running query, which is then cleaned up.

use std::sync::Arc;

use anyhow::{Context, Result};
use pushdowndb_contract::{Error, ErrorKind};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// The signals that cancel. One that arrives between two pieces of work cancels the next.
#[derive(Clone)]
pub struct Interrupts(Arc<Mutex<Signals>>);

struct Signals {
    interrupt: Signal,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// Ctrl-C and SIGTERM, for work that has a temporary file or folder to remove.
    pub fn all() -> Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("listening for signals")?;
        Self::new(Some(terminate))
    }

    /// Ctrl-C alone, for the shell: waiting at its prompt, it would not notice a caught SIGTERM.
    pub fn ctrl_c() -> Result<Self> {
        Self::new(None)
    }

    fn new(terminate: Option<Signal>) -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
        Ok(Self(Arc::new(Mutex::new(Signals { interrupt, terminate }))))
    }

    /// Runs work until it is done or cancelled.
    pub async fn during<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.received() => Err(Error::new(ErrorKind::Cancelled, "cancelled").into()),
            done = work => done,
        }
    }

    /// Returns at the next signal.
    pub async fn received(&self) {
        let mut signals = self.0.lock().await;
        let Signals { interrupt, terminate } = &mut *signals;
        match terminate {
            Some(terminate) => tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            },
            None => {
                interrupt.recv().await;
            }
        }
    }
}
