//! Ctrl-C and SIGTERM, which end work in such a way that servers and links are taken down.

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Runs `work` until it is done or a signal arrives.
pub async fn during<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let listen = |kind| signal(kind).context("listening for signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        biased;
        _ = interrupt.recv() => bail!("cancelled"),
        _ = terminate.recv() => bail!("cancelled"),
        done = work => done,
    }
}
