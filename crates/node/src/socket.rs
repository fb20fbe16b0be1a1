//! A connection that counts its bytes, and gives up on a peer that does not read or does not finish the head of a request.

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

use crate::counters::Counting;
use crate::stall::{Clock, Patience};

/// Where a connection stands between two heads. Cheap to clone: the socket and what answers its requests share it.
#[derive(Clone, Debug)]
pub(crate) struct Reading(Arc<AtomicU8>);

/// A head is expected and has begun, or is the first of the connection.
const HEAD: u8 = 0;
/// A request is under way.
const REQUEST: u8 = 1;
/// No byte of the next head has come.
const BETWEEN: u8 = 2;

impl Reading {
    /// A connection whose first head is awaited.
    pub fn first_head() -> Self {
        Self(Arc::new(AtomicU8::new(HEAD)))
    }

    /// The head was read.
    pub fn request(&self) {
        self.0.store(REQUEST, Relaxed);
    }

    /// The answer has left, or was given up.
    pub fn between(&self) {
        self.0.store(BETWEEN, Relaxed);
    }
}

pub(crate) struct Socket {
    stream: TcpStream,
    counting: Arc<Counting>,
    clock: Clock,
    reading: Reading,
    /// How long the head of a request may take, from its first byte, or for the first one from the beginning.
    head: Duration,
    late: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub fn new(
        stream: TcpStream,
        counting: Arc<Counting>,
        patience: Patience,
        reading: Reading,
        head: Duration,
    ) -> Self {
        let late = Some(Box::pin(sleep_until(Instant::now() + head)));
        Self { stream, counting, clock: Clock::new(patience), reading, head, late }
    }

    fn written(&mut self, cx: &mut Context<'_>, step: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &step {
            self.counting.sent.fetch_add(*count as u64, Relaxed);
        }
        let bytes = |step: &io::Result<usize>| *step.as_ref().unwrap_or(&0);
        self.clock.watch(cx, step, bytes).map(Result::flatten)
    }

    /// Fails once the head of a request has taken too long.
    fn check_head(&mut self, cx: &mut Context<'_>, received: bool) -> Poll<io::Result<()>> {
        match self.reading.0.load(Relaxed) {
            HEAD => {}
            BETWEEN if received => {
                self.reading.0.store(HEAD, Relaxed);
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
