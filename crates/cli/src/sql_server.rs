//! `sql-server`: runs an SQL server until it is stopped.

use std::io::{BufRead, stdin};

use anyhow::{Context, Result, bail};
use pushdowndb_contract::Error;
use pushdowndb_engine::{AccessPolicy, EngineConfig};
use pushdowndb_server::{ServerConfig, ServerLimits, SqlServer, TlsFiles, Verifier, start};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::SqlServerArgs;
use crate::cluster::cluster;
use crate::interrupt::Interrupts;
use crate::notice::Notices;
use crate::print;
use crate::session::connection_config;

/// Serves until SIGINT or SIGTERM; SIGHUP reloads the users and the certificate.
pub async fn serve(args: SqlServerArgs, notices: Notices) -> Result<()> {
    if args.make_password {
        return make_password();
    }
    let (has_users, has_tls) = (args.users.is_some(), args.tls_cert.is_some());
    let config = config(args)?;
    let is_local = [config.postgres, config.flight].iter().flatten().all(|address| address.ip().is_loopback());
    // Registered before the start, so that no signal during the start is lost.
    let interrupts = Interrupts::all()?;
    let hangups = signal(SignalKind::hangup()).context("listening for signals")?;
    let server = start(config).await?;

    // Scripts wait for these lines, which contain the actual ports if the configured ones are 0.
    if let Some(address) = server.flight_address() {
        let scheme = if has_tls { "grpc+tls" } else { "grpc" };
        print::print_line(format_args!("serving Flight SQL on {scheme}://{address}"))?;
    }
    if let Some(address) = server.postgres_address() {
        print::print_line(format_args!("serving SQL on postgres://{address}"))?;
    }
    if !has_users {
        notices.warn("warning: there is no --users: everyone on this machine is let in, by any name, as administrator");
    }
    if !is_local && !has_tls {
        notices.warn("warning: there is no --tls-cert: queries and rows cross the network as plain text");
    }
    if let Some(address) = server.admin_address() {
        notices.info(&format!("metrics: on http://{address}/metrics"));
    }
    tokio::select! {
        () = interrupts.received() => {}
        () = reload_at(hangups, &server, notices) => {}
    }
    notices.info("stopping: queries under way are finished first; a second signal stops at once");
    tokio::select! {
        () = server.shutdown() => {}
        () = interrupts.received() => {}
    }
    Ok(())
}

/// Reloads the users and the certificate at each SIGHUP. If they are invalid, the old ones stay in
/// use.
async fn reload_at(mut hangups: Signal, server: &SqlServer, notices: Notices) {
    while hangups.recv().await.is_some() {
        match server.reload_certificate().await {
            Ok(true) => notices.info("certificate: read again"),
            Ok(false) => {}
            Err(error) => notices.warn(&format!("certificate: the old one stays in use: {error}")),
        }
        match server.reload_users().await {
            Ok(true) => notices.info("users: read again"),
            Ok(false) => {}
            Err(error) => notices.warn(&format!("users: the old ones stay in use: {error}")),
        }
    }
}

fn config(args: SqlServerArgs) -> Result<ServerConfig> {
    let access = match args.access.is_given() {
        true => args.access.policy(),
        false => AccessPolicy::nothing().and_read("s3://")?,
    };
    let limits = ServerLimits::default();
    let limits = ServerLimits {
        queries: args.max_queries.unwrap_or(limits.queries),
        connections: args.max_connections.unwrap_or(limits.connections),
        ..limits
    };
    Ok(ServerConfig {
        postgres: args.postgres,
        flight: args.flight,
        admin: args.admin_listen,
        users: args.users,
        access,
        tls: args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key }),
        engine: EngineConfig {
            connection: connection_config(&args.connection),
            settings: args.settings,
            catalog: args.catalog,
            cache: args.cache,
            cluster: cluster(&args.cluster)?,
            ..EngineConfig::unrestricted()
        },
        limits,
    })
}

/// Prints the verifier for a password that is read from stdin.
fn make_password() -> Result<()> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line).context("reading stdin")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!(Error::invalid("no password was given: write it to stdin"));
    }
    print::print_line(format_args!("{}", Verifier::new(password)))
}
