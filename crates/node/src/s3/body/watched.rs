//! Tracks whether the body of a request was read to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::{Body, HttpRequest, StdError};

/// The progress of a body.
pub(crate) struct Watched(Arc<AtomicBool>);

impl Watched {
    /// Watches the body of `request`.
    pub fn over(request: HttpRequest) -> (HttpRequest, Self) {
        let over = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let watched = Self(Arc::clone(&over));
        (request.map(|body| Body::http_body(Watching { body, over })), watched)
    }

    /// Whether the body was read to its end.
    pub fn is_over(&self) -> bool {
        self.0.load(Relaxed)
    }
}

struct Watching {
    body: Body,
    over: Arc<AtomicBool>,
}

impl HttpBody for Watching {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(step, Poll::Ready(None)) || self.body.is_end_stream() {
            self.over.store(true, Relaxed);
        }
        step
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
