//! Ctrl-C: cancels the running query, which is then cleaned up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use pushdowndb_contract::{Error, ErrorKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// The signals that cancel work. A signal that arrives between two pieces of work cancels the next
/// one.
#[derive(Clone, Debug, Default)]
pub struct Interrupts(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    /// Whether a signal has arrived for which no work was canceled yet.
    pending: AtomicBool,
    arrived: Notify,
}

impl Interrupts {
    /// Ctrl-C and SIGTERM, for work that has a temporary file or folder to remove.
    pub fn all() -> Result<Self> {
        Self::of(&[SignalKind::interrupt(), SignalKind::terminate()])
    }

    /// Ctrl-C only, for the shell: while it waits at its prompt, it would not notice a caught
    /// SIGTERM.
    pub fn ctrl_c() -> Result<Self> {
        Self::of(&[SignalKind::interrupt()])
    }

    /// Listens for signals on separate tasks, which notice them even while the work blocks.
    fn of(kinds: &[SignalKind]) -> Result<Self> {
        let interrupts = Self::default();
        for kind in kinds {
            let mut received = signal(*kind).context("listening for signals")?;
            let signals = Arc::clone(&interrupts.0);
            tokio::spawn(async move {
                while received.recv().await.is_some() {
                    signals.pending.store(true, Ordering::Relaxed);
                    signals.arrived.notify_one();
                }
            });
        }
        Ok(interrupts)
    }

    /// Whether a signal has arrived for which no work was canceled yet.
    pub fn is_pending(&self) -> bool {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// Forgets a signal that arrived while there was no work to cancel.
    pub fn clear(&self) {
        self.0.pending.store(false, Ordering::Relaxed);
    }

    /// Runs `work` until it is done or a signal cancels it.
    pub async fn during<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.received() => Err(cancelled()),
            // Work that noticed the signal by itself fails with an error of its own.
            done = work => match done {
                Err(_) if self.0.pending.swap(false, Ordering::Relaxed) => Err(cancelled()),
                done => done,
            },
        }
    }

    /// Waits for the next signal.
    pub async fn received(&self) {
        while !self.0.pending.swap(false, Ordering::Relaxed) {
            self.0.arrived.notified().await;
        }
    }
}

fn cancelled() -> anyhow::Error {
    Error::new(ErrorKind::Cancelled, "cancelled").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_cancels_one_piece_of_work() {
        let interrupts = Interrupts::default();
        let signal = || {
            interrupts.0.pending.store(true, Ordering::Relaxed);
            interrupts.0.arrived.notify_one();
        };
        signal();
        let kind = |done: Result<()>| crate::exit_code::kind(&done.unwrap_err());
        assert_eq!(kind(interrupts.during(std::future::pending()).await), Some(ErrorKind::Cancelled));
        interrupts.during(async { Ok(()) }).await.unwrap();
        // Work that blocks notices the signal when it writes.
        let work = async {
            signal();
            anyhow::bail!("the output stopped");
        };
        assert_eq!(kind(interrupts.during(work).await), Some(ErrorKind::Cancelled));
        interrupts.during(async { Ok(()) }).await.unwrap();
    }
}
