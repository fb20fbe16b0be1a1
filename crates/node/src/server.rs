//! Accepting connections, bounding them, and letting them finish when the node stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Limits;
use crate::answer::Answers;
use crate::counters::{Counting, Present};
use crate::socket::Socket;
use crate::tls::Tls;

/// A place where connections come in.
pub(crate) struct Entrance {
    pub listener: TcpListener,
    pub tls: Option<Arc<Tls>>,
    pub answers: Answers,
    pub counting: Arc<Counting>,
    /// Open connections.
    pub connections: usize,
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
        http.header_read_timeout(self.limits.header_read);
        http.max_buf_size(self.limits.head_bytes);
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(self.connections));
        let mut connections = JoinSet::new();
        let mut closing = std::pin::pin!(closing);
        loop {
            let slot = tokio::select! {
                slot = Arc::clone(&slots).acquire_owned() => slot,
                () = &mut closing => break,
            };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut closing => break,
            };
            // Finished connections are collected here, so that the set does not grow.
            while connections.try_join_next().is_some() {}
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely; accepting again at once would spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let opening = self.open(stream);
            let present = Present::new(&self.counting, |counting| &counting.connections);
            let (builder, answers, watcher) = (builder.clone(), self.answers.clone(), graceful.watcher());
            connections.spawn(async move {
                let _held = (slot, present);
                let Some(stream) = opening.await else { return };
                let connection = builder.serve_connection(TokioIo::new(stream), answers).into_owned();
                if let Err(error) = watcher.watch(connection).await {
                    tracing::debug!(%error, "a connection ended early");
                }
            });
        }
        drop(self.listener);
        if tokio::time::timeout(self.limits.shutdown, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests that were still running are cut off");
        }
        connections.shutdown().await;
    }

    /// Makes the connection ready for HTTP; nothing if the peer does not get that far.
    fn open(&self, stream: TcpStream) -> impl Future<Output = Option<Box<dyn Io>>> + use<> {
        drop(stream.set_nodelay(true));
        let socket = Socket::new(stream, Arc::clone(&self.counting), self.limits.stall);
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
