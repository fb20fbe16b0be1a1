//! Ctrl-C and SIGTERM: servers and links are taken down on the way out.

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Does the `work` until it is done or a signal ends it.
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
