//! `serve`: a storage node until it is told to stop.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, bail};
use pushdown::{Error, ErrorKind};
use pushdowndb_node::{Credentials, NodeConfig, start};
use url::Url;

use crate::args::ServeArgs;
use crate::interrupt::Interrupts;
use crate::print;

/// Serves until SIGINT or SIGTERM.
pub async fn serve(args: ServeArgs) -> Result<()> {
    let mut config = match (&args.store, &args.gateway) {
        (Some(dir), _) => NodeConfig::store(dir),
        (None, Some(place)) => NodeConfig::gateway(gateway_url(place)?),
        (None, None) => bail!(Error::invalid("serve needs --store DIR or --gateway URL")),
    };
    config.listen = args.listen;
    config.region = args.region;
    config.credentials = credentials_from_environment()?;
    let from_environment = config.credentials.is_some();
    if args.gateway.is_some() && !from_environment && !stderr().is_terminal() {
        // Nothing is written into a served folder, so keys made now would be known to nobody.
        let message = "a gateway keeps no credentials: set PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY";
        bail!(Error::invalid(message));
    }

    // Before the node starts, so that a signal during the start is not lost.
    let interrupts = Interrupts::all()?;
    let node = start(config).await?;

    // The one line a script may wait for: with port 0 only we know the address.
    print::say(format_args!("serving S3 on {}", node.endpoint()))?;
    let credentials = node.credentials();
    if from_environment {
        eprintln!("credentials: from PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY");
    } else if stderr().is_terminal() {
        eprintln!("export AWS_ENDPOINT_URL={}", node.endpoint());
        eprintln!("export AWS_ACCESS_KEY_ID={}", credentials.access_key_id);
        eprintln!("export AWS_SECRET_ACCESS_KEY={}", credentials.secret_access_key);
    } else if let Some(file) = node.credentials_file() {
        // Logs are read by more people than the store's private folder.
        eprintln!("credentials: in {}", file.display());
    }

    interrupts.received().await;
    eprintln!("stopping: requests under way are finished first");
    node.shutdown().await;
    Ok(())
}

fn gateway_url(place: &str) -> Result<Url> {
    if place.contains("://") {
        return Url::parse(place).map_err(|e| Error::invalid(format!("--gateway {place}: {e}")).into());
    }
    let path = std::path::absolute(place).with_context(|| format!("--gateway {place}"))?;
    Url::from_file_path(&path).map_err(|()| Error::invalid(format!("--gateway {place}: not a path")).into())
}

/// Both variables or neither: half a pair is a mistake that would otherwise start a node nobody can use.
fn credentials_from_environment() -> Result<Option<Credentials>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (variable("PUSHDOWNDB_ACCESS_KEY_ID"), variable("PUSHDOWNDB_SECRET_ACCESS_KEY")) {
        (Some(access_key_id), Some(secret_access_key)) => Ok(Some(Credentials { access_key_id, secret_access_key })),
        (None, None) => Ok(None),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            "set both PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY, or neither",
        )
        .into()),
    }
}
