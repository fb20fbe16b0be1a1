//! `serve`: runs a storage node until it is stopped.

use std::io::{IsTerminal, stderr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_node::{Credentials, Gateway, Keyring, Node, NodeConfig, Storage, TlsFiles, start};
use tokio::signal::unix::{Signal, SignalKind, signal};
use url::Url;

use crate::args::{GatewayArgs, LimitArgs, ServeArgs};
use crate::interrupt::Interrupts;
use crate::notice::Notices;
use crate::print;

/// Serves until SIGINT or SIGTERM; SIGHUP reloads the certificate and the keys.
pub async fn serve(args: ServeArgs, notices: Notices) -> Result<()> {
    let (keys, tls) = (args.credentials.clone(), args.tls_cert.is_some());
    for key in args.behind.upstream_options.iter().filter_map(shown_secret) {
        notices.warn(&format!(
            "warning: users of this machine can see --upstream-option {key} in the list of processes: write {key}=@FILE, \
             or set the variable {}",
            key.to_uppercase()
        ));
    }
    let config = config(args)?;
    let from_environment = config.credentials.is_some();
    let gateway = matches!(config.storage, Storage::Gateway(_));
    if gateway && !from_environment && config.keyring.is_none() && !stderr().is_terminal() {
        // A gateway stores no credentials, so generated keys would be lost.
        let message = "a gateway keeps no credentials: set PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY, \
                       or give --credentials FILE";
        bail!(Error::invalid(message));
    }
    let keyring = config.keyring.is_some();

    // Registered before the node starts, so that a signal during the start is not lost and a hangup
    // does not end the process.
    let interrupts = Interrupts::all()?;
    let hangups = signal(SignalKind::hangup()).context("listening for signals")?;
    let node = start(config).await?;

    // Scripts wait for this line, which contains the actual port if the configured one is 0.
    print::print_line(format_args!("serving S3 on {}", node.endpoint()))?;
    if let Some(address) = node.admin_address() {
        notices.info(&format!("metrics: on http://{address}/metrics"));
    }
    let credentials = node.credentials();
    if from_environment {
        notices.info("credentials: from PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY");
    } else if keyring {
        notices.info("credentials: from the file given");
    } else if stderr().is_terminal() {
        notices.info(&format!("export AWS_ENDPOINT_URL={}", node.endpoint()));
        notices.info(&format!("export AWS_ACCESS_KEY_ID={}", credentials.access_key_id));
        notices.info(&format!("export AWS_SECRET_ACCESS_KEY={}", credentials.secret_access_key));
    } else if let Some(file) = node.credentials_file() {
        // Prints only the path, since logs are read by more people than the store's private folder.
        notices.info(&format!("credentials: in {}", file.display()));
    }

    tokio::select! {
        () = interrupts.received() => {}
        () = reload_at(hangups, &node, tls, keys.as_deref(), notices) => {}
    }
    notices.info("stopping: requests under way are finished first; a second signal stops at once");
    tokio::select! {
        () = node.shutdown() => {}
        () = interrupts.received() => {}
    }
    Ok(())
}

/// Reloads the certificate and the file of keys at each SIGHUP. If they are invalid, the old ones
/// stay in use.
async fn reload_at(mut hangups: Signal, node: &Node, tls: bool, keys: Option<&Path>, notices: Notices) {
    while hangups.recv().await.is_some() {
        match node.reload_certificate().await {
            Ok(()) if tls => notices.info("certificate: read again"),
            Ok(()) => {}
            Err(error) => notices.warn(&format!("certificate: the old one stays in use: {error}")),
        }
        match keys.map(Keyring::load) {
            Some(Ok(keyring)) => {
                node.replace_keyring(keyring);
                notices.info("credentials: read again");
            }
            Some(Err(error)) => notices.warn(&format!("credentials: the old ones stay in use: {error}")),
            None => {}
        }
    }
}

fn config(args: ServeArgs) -> Result<NodeConfig> {
    let storage = match (&args.store, &args.behind.gateway) {
        (Some(dir), _) => Storage::Store(dir.clone()),
        (None, Some(place)) => Storage::Gateway(gateway(place, &args.behind)?),
        (None, None) => bail!(Error::invalid("serve needs --store DIR or --gateway URL")),
    };
    let mut config = NodeConfig::new(storage);
    config.listen = args.listen;
    config.admin_listen = args.admin_listen;
    config.tls = args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    config.signature_version_2 = !args.no_signature_v2;
    config.region = args.region;
    config.domains = args.domains;
    config.credentials = credentials_from_environment()?;
    config.keyring = args.credentials.as_deref().map(Keyring::load).transpose()?;
    set_limits(&mut config.limits, args.limits);
    Ok(config)
}

fn set_limits(limits: &mut pushdowndb_node::Limits, args: LimitArgs) {
    let seconds = std::time::Duration::from_secs;
    let set = |field: &mut usize, given: Option<usize>| *field = given.unwrap_or(*field);
    set(&mut limits.memory_bytes, args.memory);
    set(&mut limits.connections, args.max_connections);
    set(&mut limits.requests, args.max_requests);
    set(&mut limits.selects, args.max_scans);
    set(&mut limits.selects_waiting, args.max_scans_waiting);
    set(&mut limits.select_threads, args.scan_threads);
    limits.verify_interval = args.verify_interval.map_or(limits.verify_interval, seconds);
    limits.scrub_bytes = args.scrub_rate.unwrap_or(limits.scrub_bytes);
    limits.disk_bytes = args.disk_rate.unwrap_or(limits.disk_bytes);
    limits.drain_delay = args.drain_delay.map_or(limits.drain_delay, seconds);
    limits.shutdown = args.shutdown_timeout.map_or(limits.shutdown, seconds);
}

fn gateway(place: &str, args: &GatewayArgs) -> Result<Gateway> {
    let mut gateway = Gateway::new(gateway_url(place)?);
    gateway.endpoint = args.upstream_endpoint.clone();
    gateway.options = upstream_options(&args.upstream_options)?;
    gateway.read_only = args.read_only;
    gateway.bucket = args.bucket.clone();
    gateway.spool = args.spool.clone();
    Ok(gateway)
}

/// Reads the values of settings that are given as files, which keeps secrets out of the list of
/// processes.
fn upstream_options(given: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let read = |(key, value): &(String, String)| {
        let value = match value.strip_prefix('@') {
            // A doubled `@` stands for a value that itself begins with `@`.
            Some(literal) if literal.starts_with('@') => literal.to_owned(),
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Error::invalid(format!("--upstream-option {key}=@{file}: {error}")))?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
            None => value.clone(),
        };
        Ok((key.clone(), value))
    };
    given.iter().map(read).collect()
}

/// The name of a setting whose secret value is given on the command line; `None` for other
/// settings.
fn shown_secret((key, value): &(String, String)) -> Option<&str> {
    let is_file = value.starts_with('@') && !value.starts_with("@@");
    (is_secret(key) && !is_file).then_some(key.as_str())
}

/// Whether the value of this setting is a secret.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let parts = ["secret", "token", "password", "sas_key", "account_key", "master_key", "encryption_key"];
    parts.iter().any(|part| key.contains(part)) || key.ends_with("access_key")
}

fn gateway_url(place: &str) -> Result<Url> {
    if place.contains("://") {
        return Url::parse(place).map_err(|e| Error::invalid(format!("--gateway {place}: {e}")).into());
    }
    let path = std::path::absolute(place).with_context(|| format!("--gateway {place}"))?;
    Url::from_file_path(&path).map_err(|()| Error::invalid(format!("--gateway {place}: not a path")).into())
}

/// Reads both variables. Returns `None` if both are unset; a single one is an error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_upstream_come_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "hush\n").unwrap();
        let option = |value: &str| vec![("aws_secret_access_key".to_owned(), value.to_owned())];
        let read = |value: &str| upstream_options(&option(value)).map(|mut options| options.remove(0).1);
        assert_eq!(read(&format!("@{}", file.display())).unwrap(), "hush");
        assert_eq!(read("@@starts-so").unwrap(), "@starts-so");
        assert_eq!(read("plain").unwrap(), "plain");
        let missing = read("@/no/such/file").unwrap_err().to_string();
        assert!(missing.contains("/no/such/file") && missing.contains("aws_secret_access_key"), "{missing}");
        for key in ["AWS_SECRET_ACCESS_KEY", "aws_session_token", "azure_storage_account_key", "azure_storage_sas_key"]
        {
            assert!(is_secret(key), "{key}");
        }
        for key in ["aws_region", "aws_access_key_id", "google_service_account", "azure_storage_account_name"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
