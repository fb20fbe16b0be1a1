//! The headers that describe a chunked body, and those in its trailer.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;

/// The header that announces the trailer.
pub(crate) const TRAILER: &str = "x-amz-trailer";

/// The header with the length of the bytes within chunks.
pub(crate) const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// The headers of the trailer, set when the body has been read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailer(Arc<OnceLock<HeaderMap>>);

impl Trailer {
    pub fn set(&self, headers: HeaderMap) {
        drop(self.0.set(headers));
    }

    pub fn get(&self) -> Option<&HeaderMap> {
        self.0.get()
    }
}

/// The length of the bytes within the chunks, as declared in the head.
pub(crate) fn decoded_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(DECODED_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The header that the request head announces for the trailer, if any.
pub(crate) fn announced(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(TRAILER)?.to_str().ok()?.trim();
    Some(name).filter(|name| !name.is_empty())
}
