//! Servers of the measured program: how they are started, and the credentials of their clients.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use object_store::memory::InMemory;
use pushdowndb_datagen::Destination;

use super::process::{Running, listens};

/// The credentials of every server of an experiment.
pub const KEY_ID: &str = "experiment-key";
pub const SECRET: &str = "experiment-secret-key";

/// Maximum time until a server listens.
const START: Duration = Duration::from_secs(60);

/// Sets the arguments and credentials of a node that serves the folder `store` on `address`.
pub fn serve(mut program: Command, store: &Path, address: &str) -> Command {
    program.arg("serve").arg("--store").arg(store).args(["--listen", address, "--log", "warn"]);
    program.env("PUSHDOWNDB_ACCESS_KEY_ID", KEY_ID).env("PUSHDOWNDB_SECRET_ACCESS_KEY", SECRET);
    program
}

/// Starts a server that logs to the file `log`.
pub fn spawn(command: &mut Command, log: &Path) -> Result<Running> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    Running::spawn(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file))
}

/// Waits until a server listens on its port. The error names the log file if it does not.
pub fn wait(server: &mut Running, port: u16, log: &Path) -> Result<()> {
    let began = Instant::now();
    while !listens(server.id(), port) {
        if server.has_ended() || began.elapsed() > START {
            bail!("a server does not listen: see {}", log.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sets the environment variables with which an S3 client reaches the node at `address`.
pub fn with_credentials(mut client: Command, address: &str) -> Command {
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
    ] {
        client.env(name, value);
    }
    client
}

/// A destination for tables that are only declared. Its store is never used, since the nodes may be
/// unreachable from this process.
pub fn declared(prefix: &str, url: &str, endpoint: Option<String>) -> Destination {
    Destination { store: Arc::new(InMemory::new()), prefix: prefix.into(), url: url.to_owned(), endpoint }
}

/// Runs a command that prepares data to its end. `what` says what that is, for errors.
pub fn prepare(command: &mut Command, what: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| what.to_owned())?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Returns a free port of the loopback interface.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
