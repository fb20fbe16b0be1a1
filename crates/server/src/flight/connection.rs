//! A connection, and the state that its calls share.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use super::session::FlightSession;

/// The byte stream of a socket, with TLS or without.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A session, and the digest of the password that its calls are sent with.
type OwnSession = (Option<Vec<u8>>, Arc<FlightSession>);

/// The state that the calls of a connection share.
pub(super) struct Connection {
    /// The address of the client.
    pub client: SocketAddr,
    /// The session of calls without a token.
    pub own: Mutex<Option<OwnSession>>,
    is_known: AtomicBool,
}

impl Connection {
    /// A connection of a client that is not authenticated yet.
    pub fn new(client: SocketAddr) -> Arc<Self> {
        Arc::new(Self { client, own: Mutex::default(), is_known: AtomicBool::new(false) })
    }

    /// Records that a call was authenticated, which lifts the time limit of the connection.
    pub fn authenticated(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }
}

/// A socket that is closed if no call is authenticated in time.
pub(super) struct Socket {
    bytes: Box<dyn Bytes>,
    connection: Arc<Connection>,
    deadline: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Socket {
    /// Creates the socket of a connection. `place` is the permit of the connection, held until the
    /// socket is closed.
    pub fn new(
        bytes: Box<dyn Bytes>,
        connection: Arc<Connection>,
        patience: Duration,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self { bytes, connection, deadline: Box::pin(sleep(patience)), _place: place }
    }
}

impl Connected for Socket {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.connection)
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.connection.is_known.load(Ordering::Relaxed) && self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not log in in time")));
        }
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}
