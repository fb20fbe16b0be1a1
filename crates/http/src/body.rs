//! Response bodies that are checked for their promised length and for timeliness.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind, HttpResponseBody};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::{failed, silent};
use crate::expected::Length;

/// A checked response body.
pub(crate) struct Watched {
    body: HttpResponseBody,
    length: Length,
    received: u64,
    is_over: bool,
    clock: Option<Clock>,
}

/// The timeouts of a body.
struct Clock {
    sleep: Pin<Box<Sleep>>,
    silence: Duration,
    /// The time by which the whole body must have arrived.
    end: Option<Instant>,
    waits: bool,
}

impl Clock {
    /// Returns whether the next bytes are late. `waits` says whether the body is pending.
    fn is_over(&mut self, waits: bool, context: &mut Context<'_>) -> bool {
        let waited = std::mem::replace(&mut self.waits, waits);
        if !waits {
            return self.end.is_some_and(|end| Instant::now() >= end);
        }
        if !waited {
            let next = Instant::now() + self.silence;
            self.sleep.as_mut().reset(self.end.map_or(next, |end| end.min(next)));
        }
        self.sleep.as_mut().poll(context).is_ready()
    }
}

impl Watched {
    /// Wraps `body`, whose `length` is expected. Reading it fails after `silence` without bytes,
    /// and, if the body is a document, at `end`.
    pub fn new(body: HttpResponseBody, length: Length, silence: Option<Duration>, end: Option<Instant>) -> Self {
        let clock = silence.map(|silence| {
            let sleep = Box::pin(sleep_until(Instant::now() + silence));
            Clock { sleep, silence, end: end.filter(|_| length.is_document), waits: false }
        });
        Self { body, length, received: 0, is_over: false, clock }
    }

    /// Returns what violates the expected length, if anything. `at_its_end` says whether the body
    /// has ended.
    fn wrong(&self, at_its_end: bool) -> Option<String> {
        let received = self.received;
        match self.length.exact {
            Some(exact) if received > exact => {
                Some(format!("the body is longer than the {exact} bytes that it should be"))
            }
            Some(exact) if at_its_end && received < exact => {
                Some(format!("the body ended after {received} of {exact} bytes"))
            }
            _ if received > self.length.max => Some(format!("the answer is longer than {} bytes", self.length.max)),
            _ => None,
        }
    }

    fn fail(&mut self, error: HttpError) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.is_over = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(clock) = &mut self.clock
            && clock.is_over(polled.is_pending(), context)
        {
            let silence = clock.silence;
            return self.fail(silent(silence));
        }
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                // The frame that exceeds the length is dropped.
                match self.wrong(false) {
                    Some(wrong) => self.fail(failed(HttpErrorKind::Unknown, wrong)),
                    None => Poll::Ready(Some(Ok(frame))),
                }
            }
            Poll::Ready(None) => match self.wrong(true) {
                Some(wrong) => self.fail(failed(HttpErrorKind::Interrupted, wrong)),
                None => {
                    self.is_over = true;
                    Poll::Ready(None)
                }
            },
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        // If the body claims to have ended too soon, one more poll returns the error.
        self.is_over || (self.body.is_end_stream() && self.wrong(true).is_none())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
