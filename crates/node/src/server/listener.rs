//! Accepts connections, bounds them, and drains them when the node stops.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use pushdowndb_tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::middleware::Middleware;
use crate::Limits;
use crate::admission::{Connection, Connections, Refused};
use crate::telemetry::{Gauge, LiveCounters};
use crate::transport::{ConnectionState, Socket, StallLimits};

/// A listening socket, and the middleware that serves its connections.
pub(crate) struct Listener {
    pub listener: TcpListener,
    pub tls: Option<Arc<Tls>>,
    pub middleware: Middleware,
    pub counting: Arc<LiveCounters>,
    pub connections: Arc<Connections>,
    pub limits: Limits,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Listener {
    /// Serves until `closing` completes, then lets requests in progress finish within a time limit.
    pub async fn serve(self, closing: impl Future<Output = ()>) {
        let mut builder = Builder::new(TokioExecutor::new()).http1_only();
        // `pipeline_flush` stays off: with it, hyper reads a whole body before the peer has
        // received anything.
        let mut http = builder.http1();
        http.timer(TokioTimer::new());
        // This timeout starts at the end of the previous response, so it includes idle time. The
        // socket bounds the time of the head itself.
        http.header_read_timeout(self.limits.idle.max(self.limits.header_read));
        http.max_buf_size(self.limits.head_bytes.max(8192));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut closing = std::pin::pin!(closing);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut closing => break,
            };
            // Finished connections are collected here, so that the set does not grow.
            while connections.try_join_next().is_some() {}
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
                Err(error) => {
                    // Most likely out of descriptors; accepting again at once would spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let admitted = tokio::select! {
                admitted = self.admit(peer) => admitted,
                () = &mut closing => break,
            };
            let Some(connection) = admitted.map(Arc::new) else { continue };
            let state = ConnectionState::first_head();
            let opening = self.open(stream, state.clone());
            let present = Gauge::new(&self.counting, |counting| &counting.connections);
            let (builder, watcher) = (builder.clone(), graceful.watcher());
            let middleware = self.middleware.for_connection(Arc::clone(&connection), state);
            connections.spawn(async move {
                let _held = present;
                let served = async {
                    let Some(stream) = opening.await else { return };
                    let serving = builder.serve_connection(TokioIo::new(stream), middleware).into_owned();
                    if let Err(error) = watcher.watch(serving).await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                };
                tokio::select! {
                    () = served => {}
                    () = connection.closing() => tracing::debug!(%peer, "a connection was closed for another"),
                }
            });
        }
        drop(self.listener);
        if tokio::time::timeout(self.limits.shutdown, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests that were still running are cut off");
        }
        connections.shutdown().await;
    }

    /// Admits a connection, after waiting while all are busy. Returns `None` if all connections
    /// that the peer address may have are busy.
    async fn admit(&self, peer: IpAddr) -> Option<Connection> {
        loop {
            let freed = self.connections.room();
            match self.connections.admit(peer) {
                Ok(connection) => return Some(connection),
                Err(Refused::Share) => {
                    tracing::debug!(%peer, "a connection was refused: its address has its share");
                    return None;
                }
                Err(Refused::Full) => freed.await,
            }
        }
    }

    /// Completes the TLS handshake if TLS is configured. Returns `None` if the handshake fails or
    /// takes too long.
    fn open(&self, stream: TcpStream, state: ConnectionState) -> impl Future<Output = Option<Box<dyn Io>>> + use<> {
        drop(stream.set_nodelay(true));
        let (counting, patience) = (Arc::clone(&self.counting), StallLimits::new(&self.limits));
        let socket = Socket::new(stream, counting, patience, state, self.limits.header_read);
        let (acceptor, patience) = (self.tls.as_ref().map(|tls| tls.acceptor()), self.limits.header_read);
        async move {
            let Some(acceptor) = acceptor else { return Some(Box::new(socket) as Box<dyn Io>) };
            match tokio::time::timeout(patience, acceptor.accept(socket)).await {
                Ok(Ok(stream)) => Some(Box::new(stream) as Box<dyn Io>),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    None
                }
                Err(_) => None,
            }
        }
    }
}
