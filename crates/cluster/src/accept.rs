//! The connections of a worker, before their callers are authenticated.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::transport::server::Connected;

/// Limits on connections.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum open connections; each process that uses a worker keeps one open.
    connections: usize,
    /// Maximum time until the first bytes and the end of a TLS handshake.
    handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 1024, handshake: Duration::from_secs(10) }
    }
}

/// Maximum connections that have completed the handshake and wait for the server.
const WAITING_CONNECTIONS: usize = 64;

/// Pause after a failed accept, such as when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the connections of `listener`. Each runs its own `handshake`, so that none waits for
/// another's. A connection beyond the maximum number is closed at once.
pub(crate) fn accept<C, F>(
    listener: TcpListener,
    limits: Limits,
    handshake: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (impl Stream<Item = io::Result<Open<C>>>, JoinHandle<()>)
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
{
    let (ready, waiting) = mpsc::channel::<Open<C>>(WAITING_CONNECTIONS);
    let (places, handshake) = (Arc::new(Semaphore::new(limits.connections)), Arc::new(handshake));
    let accepting = tokio::spawn(async move {
        loop {
            let connection = match listener.accept().await {
                Ok((connection, _)) => connection,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(limits.connections, "a connection is refused: as many are open as may be");
                continue;
            };
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(%error, "a connection delays small messages");
            }
            let (ready, handshake) = (ready.clone(), Arc::clone(&handshake));
            tokio::spawn(async move {
                let begun = async {
                    // Waits for the first bytes under the time limit; the server itself would wait
                    // for them without end.
                    connection.peek(&mut [0]).await?;
                    handshake(connection).await
                };
                match tokio::time::timeout(limits.handshake, begun).await {
                    // An error means that the server has stopped.
                    Ok(Ok(connection)) => drop(ready.send(Open { connection, _place: place }).await),
                    Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                    Err(_) => tracing::debug!("a handshake took too long"),
                }
            });
        }
    });
    let incoming = stream::unfold(waiting, |mut waiting| async move {
        let connection = waiting.recv().await?;
        Some((Ok(connection), waiting))
    });
    (incoming, accepting)
}

/// An open connection, which holds its permit until it is dropped.
pub(crate) struct Open<C> {
    connection: C,
    _place: OwnedSemaphorePermit,
}

impl<C: Connected> Connected for Open<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Open<C> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, into)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Open<C> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn connections_are_bounded_and_must_begin() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { connections: 2, handshake: Duration::from_millis(500) };
        let (incoming, accepting) = accept(listener, limits, |connection| async move { Ok(connection) });
        let mut incoming = std::pin::pin!(incoming);
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"a").await.unwrap();
        // The silent connection holds the other permit, but does not keep the server waiting.
        let mut served = incoming.next().await.unwrap().unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'a');
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        drop(served);
        assert_eq!(asking.read(&mut [0]).await.unwrap(), 0);
        let mut next = TcpStream::connect(address).await.unwrap();
        next.write_all(b"b").await.unwrap();
        assert_eq!(incoming.next().await.unwrap().unwrap().read_u8().await.unwrap(), b'b');
        // The silent connection never sends anything, so it is closed after the time limit.
        assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
        accepting.abort();
    }
}
