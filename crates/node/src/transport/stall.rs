//! Timeouts for peers that stall or crawl. The timer runs only while the node waits for the peer.
//!
//! The node waits for a peer that does not accept bytes ([`super::socket`]) or does not send the
//! body that is being read ([`TimedBody`]). While the node itself is busy, no timer runs. A wait is
//! bounded by a time without bytes, by a minimum rate over all waits, and by the time limit of the
//! whole request, which the middleware of `server` enforces.

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
use crate::telemetry::RequestRecord;

/// The error of a peer that kept the node waiting for too long.
#[derive(Debug, thiserror::Error)]
#[error("the peer stood still")]
pub(crate) struct PeerStalled;

/// Limits on how long a peer may keep the node waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallLimits {
    /// Maximum time without a byte.
    pub silence: Duration,
    /// Initial and maximum credit of waiting time. Each byte adds the time that it takes at the
    /// minimum rate; the maximum keeps a peer that was fast from crawling later.
    pub grace: Duration,
    /// Minimum rate, in bytes per second.
    pub rate: u64,
}

impl StallLimits {
    pub fn new(limits: &Limits) -> Self {
        Self { silence: limits.stall, grace: limits.rate_grace, rate: limits.least_rate.max(1) }
    }

    /// The credit that remains after waiting for `waited`, in which `moved` bytes were transferred.
    fn after(&self, credit: Duration, waited: Duration, moved: usize) -> Duration {
        let earned = Duration::from_secs_f64(moved as f64 / self.rate as f64);
        credit.saturating_sub(waited).saturating_add(earned).min(self.grace)
    }
}

/// Measures how long a peer keeps the node waiting.
pub(crate) struct StallTimer {
    limits: StallLimits,
    sleep: Pin<Box<Sleep>>,
    /// The start of the current wait.
    since: Option<Instant>,
    /// The time that the peer may still keep the node waiting.
    credit: Duration,
}

impl StallTimer {
    pub fn new(limits: StallLimits) -> Self {
        let sleep = Box::pin(sleep(limits.silence));
        Self { limits, sleep, since: None, credit: limits.grace }
    }

    /// Returns `step`, in whose result `bytes` counts the transferred bytes, or an error if the
    /// peer kept the node waiting too long.
    pub fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: Poll<T>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match step {
            Poll::Ready(done) => {
                let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.credit = self.limits.after(self.credit, waited, bytes(&done));
                Poll::Ready(Ok(done))
            }
            Poll::Pending => {
                if self.since.is_none() {
                    let now = Instant::now();
                    self.since = Some(now);
                    self.sleep.as_mut().reset(now + self.credit.min(self.limits.silence));
                }
                let late = || Err(io::Error::new(io::ErrorKind::TimedOut, PeerStalled));
                self.sleep.as_mut().poll(cx).map(|()| late())
            }
        }
    }
}

/// A request body with a stall timer; it also counts received bytes.
pub(crate) struct TimedBody {
    body: Incoming,
    clock: StallTimer,
    record: Arc<RequestRecord>,
}

impl TimedBody {
    pub fn new(body: Incoming, limits: StallLimits, record: Arc<RequestRecord>) -> Self {
        Self { body, clock: StallTimer::new(limits), record }
    }
}

impl Body for TimedBody {
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
        let limits = StallLimits { silence: seconds(60), grace: seconds(30), rate: 1000 };
        // One byte every ten seconds.
        let (mut credit, mut waits) = (limits.grace, 0);
        while credit >= seconds(10) {
            credit = limits.after(credit, seconds(10), 1);
            waits += 1;
        }
        assert_eq!((waits, credit), (3, Duration::from_millis(3)));
        assert_eq!(limits.after(seconds(1), seconds(2), 0), Duration::ZERO);
        assert_eq!(limits.after(seconds(20), seconds(5), 10_000), seconds(25));
        assert_eq!(limits.after(seconds(20), seconds(0), 1 << 30), seconds(30), "a fast past is worth no more");
    }
}
