//! Accepting connections, bounding them, and letting them finish when the node stops.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Limits;
use crate::admission::{Connection, Connections, Refused};
use crate::answer::Answers;
use crate::counters::{Counting, Present};
use crate::socket::{Reading, Socket};
use crate::stall::Patience;
use crate::tls::Tls;

/// A place where connections come in.
pub(crate) struct Entrance {
    pub listener: TcpListener,
    pub tls: Option<Arc<Tls>>,
    pub answers: Answers,
    pub counting: Arc<Counting>,
    pub connections: Arc<Connections>,
    pub limits: Limits,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Entrance {
    /// Serves until `closing` is over, then lets requests under way finish for a while.
    pub async fn serve(self, closing: impl Future<Output = ()>) {
        let mut builder = Builder::new(TokioExecutor::new()).http1_only();
        // Never `pipeline_flush`: with it hyper takes in a whole body before the peer has read any of it.
        let mut http = builder.http1();
        http.timer(TokioTimer::new());
        // From the end of the answer before; the socket has the time for a head.
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
                    // Out of descriptors, most likely; accepting again at once would spin.
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
            let reading = Reading::first_head();
            let opening = self.open(stream, reading.clone());
            let present = Present::new(&self.counting, |counting| &counting.connections);
            let (builder, watcher) = (builder.clone(), graceful.watcher());
            let answers = self.answers.for_connection(Arc::clone(&connection), reading);
            connections.spawn(async move {
                let _held = present;
                let served = async {
                    let Some(stream) = opening.await else { return };
                    let serving = builder.serve_connection(TokioIo::new(stream), answers).into_owned();
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

    /// Takes a connection; waits while all are busy. `None` if its address has its share of busy ones.
    async fn admit(&self, peer: IpAddr) -> Option<Connection> {
        loop {
            let freed = self.connections.freed();
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

    /// Makes the connection ready for HTTP; nothing if the peer does not get that far.
    fn open(&self, stream: TcpStream, reading: Reading) -> impl Future<Output = Option<Box<dyn Io>>> + use<> {
        drop(stream.set_nodelay(true));
        let (counting, patience) = (Arc::clone(&self.counting), Patience::new(&self.limits));
        let socket = Socket::new(stream, counting, patience, reading, self.limits.header_read);
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
