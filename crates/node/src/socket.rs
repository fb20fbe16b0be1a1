//! A connection that counts its bytes and gives up on a peer that neither reads nor writes.
//!
//! While nothing is owed in either direction (the node is computing, or waits for the next request, which
//! the header time-out bounds) no clock runs here.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::counters::Counting;

pub(crate) struct Socket {
    stream: TcpStream,
    counting: Arc<Counting>,
    stall: Duration,
    /// Runs while bytes wait for the peer to take them.
    clock: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Socket {
    pub fn new(stream: TcpStream, counting: Arc<Counting>, stall: Duration) -> Self {
        Self { stream, counting, stall, clock: Box::pin(sleep(stall)), waiting: false }
    }

    fn after_write(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(result) => {
                self.waiting = false;
                if let Ok(n) = &result {
                    self.counting.sent.fetch_add(*n as u64, Relaxed);
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                if !self.waiting {
                    self.waiting = true;
                    let deadline = Instant::now() + self.stall;
                    self.clock.as_mut().reset(deadline);
                }
                match self.clock.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer stopped reading")))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.counting.received.fetch_add((buf.filled().len() - before) as u64, Relaxed);
        result
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.after_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.after_write(cx, result)
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
