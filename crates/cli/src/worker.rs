//! `worker`: runs stages of other processes' queries until it is stopped.

use anyhow::{Context, Result};
use pushdowndb_cluster::{TlsFiles, Token, Worker, WorkerConfig, serve as start};
use pushdowndb_engine::EngineConfig;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::WorkerArgs;
use crate::interrupt::Interrupts;
use crate::notice::Notices;
use crate::print;
use crate::session::connection_config;

/// Serves until SIGINT or SIGTERM; SIGHUP reloads the certificate.
pub async fn serve(args: WorkerArgs, notices: Notices) -> Result<()> {
    let has_tls = args.tls_cert.is_some();
    let config = WorkerConfig {
        listen: args.listen,
        token: Token::from_file(&args.token_file)?,
        tls: args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key }),
        authorities: args.workers_ca,
        engine: EngineConfig {
            access: args.access.policy(),
            connection: connection_config(&args.connection),
            settings: args.settings,
            ..EngineConfig::default()
        },
    };
    let is_local = config.listen.ip().is_loopback();
    // Registered before the start, so that no signal during the start is lost.
    let interrupts = Interrupts::all()?;
    let hangups = signal(SignalKind::hangup()).context("listening for signals")?;
    let worker = start(config).await?;

    // Scripts wait for this line, which contains the actual port if the configured one is 0.
    print::print_line(format_args!("serving stages on {}", worker.url()))?;
    if !is_local && !has_tls {
        notices.warn("warning: there is no --tls-cert: the token and rows cross the network as plain text");
    }
    tokio::select! {
        () = interrupts.received() => {}
        () = reload_at(hangups, &worker, notices) => {}
    }
    notices.info("stopping: stages under way are finished first; a second signal stops at once");
    tokio::select! {
        () = worker.shutdown() => {}
        () = interrupts.received() => {}
    }
    Ok(())
}

/// Reloads the certificate at each SIGHUP. If it is invalid, the old one stays in use.
async fn reload_at(mut hangups: Signal, worker: &Worker, notices: Notices) {
    while hangups.recv().await.is_some() {
        match worker.reload_certificate().await {
            Ok(true) => notices.info("certificate: read again"),
            Ok(false) => {}
            Err(error) => notices.warn(&format!("certificate: the old one stays in use: {error}")),
        }
    }
}
