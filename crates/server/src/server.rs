//! The server: its parts, start, reload and stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_engine::{AccessPolicy, Engine, EngineConfig};
use pushdowndb_tls::{Tls, TlsFiles};
use rand::RngCore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::activity::admission::Admission;
use crate::admin;
use crate::postgres::listener;
use crate::shared::{Server, ServerLimits};
use crate::users::{CurrentUsers, Users};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address for the PostgreSQL protocol; port 0 selects a free port.
    pub postgres: Option<SocketAddr>,
    /// The address for Flight SQL; port 0 selects a free port.
    pub flight: Option<SocketAddr>,
    /// The address for `/healthz`, `/readyz` and `/metrics`, without TLS.
    pub admin: Option<SocketAddr>,
    /// The file of users. Without one, everyone may connect, but only on loopback addresses.
    pub users: Option<PathBuf>,
    /// The locations that SQL may use, except for users who have locations of their own.
    pub access: AccessPolicy,
    /// The certificate. If it is set, the server accepts TLS only.
    pub tls: Option<TlsFiles>,
    /// The engine that all sessions share: the connection to storage, the initial settings, the
    /// catalog of declared tables, the cache. Its access policy is that of the server itself.
    pub engine: EngineConfig,
    /// Limits on the resources that clients can use.
    pub limits: ServerLimits,
}

/// A running server.
pub struct SqlServer {
    server: Arc<Server>,
    postgres: Option<SocketAddr>,
    flight: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for SqlServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlServer")
            .field("postgres", &self.postgres)
            .field("flight", &self.flight)
            .finish_non_exhaustive()
    }
}

/// Starts a server.
///
/// # Errors
///
/// The server cannot listen on an address, or a file is invalid. Without a file of users, an
/// address that is not a loopback address is an error.
pub async fn start(config: ServerConfig) -> Result<SqlServer> {
    let addresses = [config.postgres, config.flight];
    let is_reached = addresses.into_iter().flatten().find(|address| !address.ip().is_loopback());
    if let (None, Some(address)) = (&config.users, is_reached) {
        return Err(Error::invalid(format!(
            "without --users everyone is let in, so the server listens on this machine only: {address} is reached \
             from others; give --users FILE, or an address such as 127.0.0.1:{}",
            address.port()
        )));
    }
    if addresses == [None, None] {
        return Err(Error::invalid("there is no address to listen on: give --postgres or --flight ADDRESS:PORT"));
    }
    let users = match &config.users {
        Some(path) => Users::load(path, &config.access)?,
        None => Users::anyone(config.access.clone()),
    };
    // gRPC clients require HTTP/2 by ALPN, while those of PostgreSQL offer another protocol.
    let flight_tls = config.tls.clone().filter(|_| config.flight.is_some());
    let flight_tls = flight_tls.map(|files| Tls::load(files, &[b"h2"])).transpose()?;
    let tls = config.tls.map(|files| Tls::load(files, &[])).transpose()?;
    let engine = Engine::new(config.engine).await?;
    let limits = config.limits;
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let server = Arc::new(Server {
        engine,
        users: CurrentUsers::new(users),
        sessions: Arc::default(),
        admission: Admission::new(limits.queries, limits.waiting, limits.patience),
        counters: Arc::default(),
        tls,
        flight_tls,
        limits,
        secret,
        users_file: config.users,
        access: config.access,
    });
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let (mut postgres, mut flight, mut admin) = (None, None, None);
    if let Some(address) = config.postgres {
        let (listener, address) = listen(address).await?;
        tasks.push(tokio::spawn(listener::serve(Arc::clone(&server), listener, stopped.clone())));
        postgres = Some(address);
    }
    if let Some(address) = config.flight {
        let (listener, address) = listen(address).await?;
        tasks.push(tokio::spawn(crate::flight::listener::serve(Arc::clone(&server), listener, stopped.clone())));
        flight = Some(address);
    }
    if let Some(address) = config.admin {
        let (listener, address) = listen(address).await?;
        tasks.push(tokio::spawn(admin::serve(Arc::clone(&server), listener, stopped)));
        admin = Some(address);
    }
    Ok(SqlServer { server, postgres, flight, admin, stop, tasks })
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Unavailable, format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl SqlServer {
    /// The address of the PostgreSQL protocol, if it is served.
    pub fn postgres_address(&self) -> Option<SocketAddr> {
        self.postgres
    }

    /// The address of Flight SQL, if it is served.
    pub fn flight_address(&self) -> Option<SocketAddr> {
        self.flight
    }

    /// The address of health and metrics, if they are served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The number of queries that have ended.
    pub fn queries(&self) -> u64 {
        self.server.counters.outcomes().values().sum()
    }

    /// Reloads the file of users, for new connections. An error keeps the old users. Returns false
    /// if there is no such file.
    pub async fn reload_users(&self) -> Result<bool> {
        let Some(path) = self.server.users_file.clone() else { return Ok(false) };
        let access = self.server.access.clone();
        let users = blocking(move || Users::load(&path, &access)).await?;
        self.server.users.replace(users);
        Ok(true)
    }

    /// Reloads the certificate, for new connections. An error keeps the old one. Returns false if
    /// there is none.
    pub async fn reload_certificate(&self) -> Result<bool> {
        let server = Arc::clone(&self.server);
        blocking(move || {
            let mut all = [&server.tls, &server.flight_tls].into_iter().flatten();
            all.try_for_each(Tls::reload).map(|()| server.tls.is_some())
        })
        .await
    }

    /// Stops the server. Sessions that wait for their clients end at once, running queries may
    /// continue for a while. Returns after the data that queries spilled is deleted.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        let aborts: Vec<_> = self.tasks.iter().map(JoinHandle::abort_handle).collect();
        let ended = futures::future::join_all(self.tasks);
        if tokio::time::timeout(self.server.limits.shutdown, ended).await.is_err() {
            self.server.sessions.all().iter().for_each(|entry| entry.terminate());
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        self.server.engine.settle().await;
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal("reading a file").with_source(error))?
}
