//! Whether the body of a request was taken in to its end when the answer is ready.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::{Body, HttpRequest};

/// Tells of a body how far it was read.
pub(super) struct Watched(Arc<AtomicBool>);

impl Watched {
    /// The same request with its body watched.
    pub fn over(request: HttpRequest) -> (HttpRequest, Self) {
        let over = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let watched = Self(Arc::clone(&over));
        (request.map(|body| Body::http_body(Watching { body, over })), watched)
    }

    /// Whether nothing of the body is left.
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
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(step, Poll::Ready(None)) || self.body.is_end_stream() {
            self.over.store(true, Relaxed);
        }
        step.map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
