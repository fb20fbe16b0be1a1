//! A socket that counts its bytes, and fails if the peer stops reading or takes too long to send
//! the head of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::stall::{StallLimits, StallTimer};
use crate::telemetry::LiveCounters;

/// Whether a connection is in a request head, in a request, or between requests. Cheap to clone,
/// since the socket and the middleware share it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionState(Arc<AtomicU8>);

/// A head is being received, or the first one is awaited.
const HEAD: u8 = 0;
/// A request is in progress.
const REQUEST: u8 = 1;
/// No byte of the next head has arrived.
const BETWEEN: u8 = 2;

impl ConnectionState {
    /// A connection that awaits its first head.
    pub fn first_head() -> Self {
        Self(Arc::new(AtomicU8::new(HEAD)))
    }

    /// Records that the head was read.
    pub fn request(&self) {
        self.0.store(REQUEST, Relaxed);
    }

    /// Records that the response was sent or dropped.
    pub fn between(&self) {
        self.0.store(BETWEEN, Relaxed);
    }
}

pub(crate) struct Socket {
    stream: TcpStream,
    counting: Arc<LiveCounters>,
    clock: StallTimer,
    state: ConnectionState,
    /// Maximum time of a head, from its first byte or, for the first head, from the start of the
    /// connection.
    head: Duration,
    late: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub fn new(
        stream: TcpStream,
        counting: Arc<LiveCounters>,
        stall: StallLimits,
        state: ConnectionState,
        head: Duration,
    ) -> Self {
        let late = Some(Box::pin(sleep_until(Instant::now() + head)));
        Self { stream, counting, clock: StallTimer::new(stall), state, head, late }
    }

    fn written(&mut self, cx: &mut Context<'_>, step: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &step {
            self.counting.sent.fetch_add(*count as u64, Relaxed);
        }
        let bytes = |step: &io::Result<usize>| *step.as_ref().unwrap_or(&0);
        self.clock.watch(cx, step, bytes).map(Result::flatten)
    }

    /// Returns an error once the head has taken too long. `received` says whether bytes arrived.
    fn check_head(&mut self, cx: &mut Context<'_>, received: bool) -> Poll<io::Result<()>> {
        match self.state.0.load(Relaxed) {
            HEAD => {}
            BETWEEN if received => {
                self.state.0.store(HEAD, Relaxed);
                self.late = Some(Box::pin(sleep_until(Instant::now() + self.head)));
            }
            _ => {
                self.late = None;
                return Poll::Pending;
            }
        }
        let Some(late) = &mut self.late else { return Poll::Pending };
        ready!(late.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head of the request took too long")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let step = Pin::new(&mut self.stream).poll_read(cx, buf);
        let received = buf.filled().len() - before;
        self.counting.received.fetch_add(received as u64, Relaxed);
        if let Poll::Ready(Err(late)) = self.check_head(cx, received > 0) {
            return Poll::Ready(Err(late));
        }
        step
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, step)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, step)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
