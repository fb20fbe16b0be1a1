//! Keep-alives for streams that have been silent for long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Emits an event when a stream has been silent for too long.
pub(crate) struct KeepAlive {
    max_silence: Duration,
    /// Created by the first poll, so that it belongs to the runtime that polls the stream.
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    /// Creates a timer for a stream whose producer itself sends keep-alives every `keep_alive`. The
    /// timer fires later than that, so that each silence causes only one of them.
    pub fn new(keep_alive: Duration) -> Self {
        Self { max_silence: keep_alive.saturating_add(keep_alive / 2), timer: None }
    }

    /// Returns `next`, or after a long silence the event that `sign` creates.
    pub fn poll_or<T>(
        &mut self,
        next: Poll<Option<T>>,
        cx: &mut Context<'_>,
        sign: impl FnOnce() -> T,
    ) -> Poll<Option<T>> {
        let max_silence = self.max_silence;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(max_silence)));
        if next.is_ready() {
            timer.as_mut().reset(Instant::now() + max_silence);
            return next;
        }
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                timer.as_mut().reset(Instant::now() + max_silence);
                Poll::Ready(Some(sign()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use tokio::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_silent_stream_gives_signs_of_life() {
        let (sender, mut receiver) = channel(1);
        let mut keep_alives = KeepAlive::new(Duration::from_millis(20));
        let mut events = stream::poll_fn(move |cx| keep_alives.poll_or(receiver.poll_recv(cx), cx, || "sign"));
        assert_eq!(events.next().await, Some("sign"));
        sender.send("event").await.unwrap();
        assert_eq!(events.next().await, Some("event"));
        assert_eq!(events.next().await, Some("sign"));
        drop(sender);
        assert_eq!(events.next().await, None);
    }
}
