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

/// A server must listen within this time.
const START: Duration = Duration::from_secs(60);

/// The arguments and credentials of a node over the folder `store` that listens on `address`.
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

/// Waits until a server listens on its port. Its log is named in the error if it does not.
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

/// Lets a client reach the node at `address` by the environment that S3 clients read.
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

/// A place of tables that are only declared: its store is never used, as nodes may be out of this
/// process's reach.
pub fn declared(prefix: &str, url: &str, endpoint: Option<String>) -> Destination {
    Destination { store: Arc::new(InMemory::new()), prefix: prefix.into(), url: url.to_owned(), endpoint }
}

/// Runs a command that makes tables.
pub fn make_tables(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("making tables")?;
    if !output.status.success() {
        bail!("making tables: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// A free port of the loopback.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
