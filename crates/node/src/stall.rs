//! Giving up on peers that stand still or crawl: a clock that runs only while the node waits for the peer.
//!
//! A peer owes the node something when the node has bytes that it does not take ([`crate::socket`]) or reads a body that it
//! does not send ([`Steady`]). While the node itself is busy no clock runs. Three bounds hold for each wait: silence, a least
//! rate over all waits, and the time of the whole request, which [`crate::answer`] keeps.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::Limits;
use crate::record::RequestRecord;

/// What is said of a peer that stood still; also how such errors are recognised by text.
pub(crate) const STOOD_STILL: &str = "the peer stood still";

/// How long a peer may keep the node waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Without a byte.
    pub silence: Duration,
    /// Altogether, where no bytes come. Each byte earns the time that it takes at the least rate, and no more than this is
    /// ever in hand: a peer that was fast may not crawl later.
    pub grace: Duration,
    /// The least rate, in bytes per second.
    pub rate: u64,
}

impl Patience {
    pub fn new(limits: &Limits) -> Self {
        Self { silence: limits.stall, grace: limits.rate_grace, rate: limits.least_rate.max(1) }
    }

    /// What is left of `credit` after a peer that was waited for so long moved so many bytes.
    fn after(&self, credit: Duration, waited: Duration, moved: usize) -> Duration {
        let earned = Duration::from_secs_f64(moved as f64 / self.rate as f64);
        credit.saturating_sub(waited).saturating_add(earned).min(self.grace)
    }
}

/// Measures how long a peer keeps the node waiting.
pub(crate) struct Clock {
    patience: Patience,
    sleep: Pin<Box<Sleep>>,
    /// Since when the node waits.
    since: Option<Instant>,
    /// How long the peer may still keep the node waiting.
    credit: Duration,
}

impl Clock {
    pub fn new(patience: Patience) -> Self {
        let sleep = Box::pin(sleep(patience.silence));
        Self { patience, sleep, since: None, credit: patience.grace }
    }

    /// Passes on what the peer did, which moved `bytes` of it; an error when it kept the node waiting for too long.
    pub fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: Poll<T>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match step {
            Poll::Ready(done) => {
                let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.credit = self.patience.after(self.credit, waited, bytes(&done));
                Poll::Ready(Ok(done))
            }
            Poll::Pending => {
                if self.since.is_none() {
                    let now = Instant::now();
                    self.since = Some(now);
                    self.sleep.as_mut().reset(now + self.credit.min(self.patience.silence));
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
    pub fn new(body: Incoming, patience: Patience, record: Arc<RequestRecord>) -> Self {
        Self { body, clock: Clock::new(patience), record }
    }
}

impl Body for Steady {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        let bytes = |frame: &Option<Result<Frame<Bytes>, hyper::Error>>| match frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        match self.clock.watch(cx, step, bytes) {
            Poll::Ready(Ok(frame)) => {
                self.record.received(bytes(&frame));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_crawls_is_waited_for_no_longer_than_its_bytes_are_worth() {
        let seconds = Duration::from_secs;
        let patience = Patience { silence: seconds(60), grace: seconds(30), rate: 1000 };
        // One byte every ten seconds.
        let (mut credit, mut waits) = (patience.grace, 0);
        while credit >= seconds(10) {
            credit = patience.after(credit, seconds(10), 1);
            waits += 1;
        }
        assert_eq!((waits, credit), (3, Duration::from_millis(3)));
        assert_eq!(patience.after(seconds(1), seconds(2), 0), Duration::ZERO);
        assert_eq!(patience.after(seconds(20), seconds(5), 10_000), seconds(25));
        assert_eq!(patience.after(seconds(20), seconds(0), 1 << 30), seconds(30), "a fast past is worth no more");
    }
}
