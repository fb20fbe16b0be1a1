//! A connection that counts its bytes and gives up on a peer that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::counters::Counting;
use crate::stall::Clock;

pub(crate) struct Socket {
    stream: TcpStream,
    counting: Arc<Counting>,
    clock: Clock,
}

impl Socket {
    /// `stall` is how long the peer may leave bytes untaken.
    pub fn new(stream: TcpStream, counting: Arc<Counting>, stall: Duration) -> Self {
        Self { stream, counting, clock: Clock::new(stall) }
    }

    fn written(&mut self, cx: &mut Context<'_>, step: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &step {
            self.counting.sent.fetch_add(*count as u64, Relaxed);
        }
        self.clock.watch(cx, step).map(Result::flatten)
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let step = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.counting.received.fetch_add((buf.filled().len() - before) as u64, Relaxed);
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
