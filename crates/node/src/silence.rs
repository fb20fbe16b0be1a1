//! Signs of life in a stream that has had nothing to say for long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Notices that nothing came for some time.
pub(crate) struct Silence {
    most: Duration,
    /// Made by the first poll, so that it belongs to the runtime which polls and not to that of the work.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Who sends events sends signs of life of its own, each `keep_alive`; these come a little later, so that there
    /// is no
    /// more than one.
    pub fn new(keep_alive: Duration) -> Self {
        Self { most: keep_alive.saturating_add(keep_alive / 2), timer: None }
    }

    /// What came, or if nothing has come for long, what `sign` gives.
    pub fn unless<T>(
        &mut self,
        next: Poll<Option<T>>,
        cx: &mut Context<'_>,
        sign: impl FnOnce() -> T,
    ) -> Poll<Option<T>> {
        let most = self.most;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(most)));
        if next.is_ready() {
            timer.as_mut().reset(Instant::now() + most);
            return next;
        }
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                timer.as_mut().reset(Instant::now() + most);
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
        let mut silence = Silence::new(Duration::from_millis(20));
        let mut events = stream::poll_fn(move |cx| silence.unless(receiver.poll_recv(cx), cx, || "sign"));
        assert_eq!(events.next().await, Some("sign"));
        sender.send("event").await.unwrap();
        assert_eq!(events.next().await, Some("event"));
        assert_eq!(events.next().await, Some("sign"));
        drop(sender);
        assert_eq!(events.next().await, None);
    }
}
