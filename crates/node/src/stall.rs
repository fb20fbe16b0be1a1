//! Giving up on peers that stand still: a clock that runs only while we wait for the peer.
//!
//! A peer owes us something when we have bytes it does not take ([`crate::socket`]) or when we read a body it
//! does not send ([`Steady`]). While the node itself is busy no clock runs. The head of a request and idle
//! connections have a time-out of their own in the HTTP server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::record::RequestRecord;

/// What is said of a peer that stood still; also how such errors are recognised by text.
pub(crate) const STOOD_STILL: &str = "the peer stood still";

/// Measures how long a peer keeps us waiting without a break.
pub(crate) struct Clock {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    running: bool,
}

impl Clock {
    pub fn new(limit: Duration) -> Self {
        Self { limit, sleep: Box::pin(sleep(limit)), running: false }
    }

    /// Passes on what the peer did; an error when it has done nothing for too long.
    pub fn watch<T>(&mut self, cx: &mut Context<'_>, step: Poll<T>) -> Poll<io::Result<T>> {
        match step {
            Poll::Ready(done) => {
                self.running = false;
                Poll::Ready(Ok(done))
            }
            Poll::Pending => {
                if !self.running {
                    self.running = true;
                    let deadline = Instant::now() + self.limit;
                    self.sleep.as_mut().reset(deadline);
                }
                let late = || Err(io::Error::new(io::ErrorKind::TimedOut, STOOD_STILL));
                self.sleep.as_mut().poll(cx).map(|()| late())
            }
        }
    }
}

/// The body of a request, which must keep coming; what came is booked.
pub(crate) struct Steady {
    body: Incoming,
    clock: Clock,
    record: Arc<RequestRecord>,
}

impl Steady {
    pub fn new(body: Incoming, limit: Duration, record: Arc<RequestRecord>) -> Self {
        Self { body, clock: Clock::new(limit), record }
    }
}

impl Body for Steady {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        match self.clock.watch(cx, step) {
            Poll::Ready(Ok(frame)) => {
                if let Some(Ok(frame)) = &frame {
                    self.record.received(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
            }
            Poll::Ready(Err(late)) => Poll::Ready(Some(Err(late))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
