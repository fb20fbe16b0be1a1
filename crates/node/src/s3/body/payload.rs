//! Verification of bodies against the signed head while they are read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::{Body, S3Error, S3Result, StdError, s3_error};

use super::chunked::Chunked;
use super::trailer::{DECODED_LENGTH, TRAILER, Trailer, decoded_length};
use crate::s3::auth::version_4::Payload;
use crate::store::StoreError;

/// Wraps `body` so that it ends with an error if it does not match `payload`. For a chunked body,
/// Content-Length becomes the length of the bytes within the chunks.
pub(crate) fn verified(body: Body, payload: Payload, headers: &mut HeaderMap) -> S3Result<(Body, Option<Trailer>)> {
    let has_length = headers.contains_key(CONTENT_LENGTH) || HttpBody::size_hint(&body).exact().is_some();
    match payload {
        Payload::Presigned => Ok((body, None)),
        Payload::Unsigned | Payload::Digest(_) if !has_length => Err(no_length("content-length")),
        Payload::Unsigned => Ok((body, None)),
        Payload::Digest(digest) => Ok((Body::http_body(Digested { body, digest, hash: Some(Sha256::new()) }), None)),
        Payload::Chunks { chain, is_signed } => {
            let kind = headers.get("x-amz-content-sha256").map(HeaderValue::as_bytes).unwrap_or_default();
            if is_signed && kind.ends_with(b"-TRAILER") && !headers.contains_key(TRAILER) {
                return Err(s3_error!(InvalidRequest, "missing header: {}", TRAILER));
            }
            let length = headers.get(DECODED_LENGTH).cloned().ok_or_else(|| no_length(DECODED_LENGTH))?;
            if decoded_length(headers).is_none() {
                return Err(s3_error!(InvalidRequest, "invalid header: {}", DECODED_LENGTH));
            }
            if let Some(given) = headers.get_mut(CONTENT_LENGTH) {
                *given = length;
            }
            let trailer = Trailer::default();
            let chunked = Chunked::new(body, chain, is_signed, trailer.clone());
            Ok((Body::http_body(chunked), Some(trailer)))
        }
    }
}

fn no_length(name: &str) -> S3Error {
    s3_error!(MissingContentLength, "missing header: {}", name)
}

/// A body that ends with an error unless its SHA-256 is `digest`.
struct Digested {
    body: Body,
    digest: [u8; 32],
    /// `None` after the comparison.
    hash: Option<Sha256>,
}

impl HttpBody for Digested {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(hash), Some(data)) = (&mut self.hash, frame.data_ref()) {
                    hash.update(data);
                }
            }
            Some(Err(_)) => {}
            None => {
                let digest = self.digest;
                if self.hash.take().is_some_and(|hash| hash.finalize() != digest) {
                    let wrong = StoreError::BadDigest("x-amz-content-sha256");
                    return Poll::Ready(Some(Err(wrong.into())));
                }
            }
        }
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::hold;
    use super::*;
    use crate::s3::auth::signing::sha256;
    use pushdowndb_scan::MemoryBudget;

    #[tokio::test]
    async fn bodies_with_another_digest_end_with_an_error() {
        let read = async |text: &str, digest: [u8; 32]| {
            let body = Body::from(text.to_owned());
            let (mut body, _) = verified(body, Payload::Digest(digest), &mut HeaderMap::new()).unwrap();
            let held = hold(&mut body, 100, &MemoryBudget::unbounded()).await;
            held.map(|(bytes, _)| bytes.len()).map_err(|error| error.code().as_str().to_owned())
        };
        let wrong = Err("XAmzContentSHA256Mismatch".to_owned());
        for text in ["", "abc"] {
            assert_eq!(read(text, sha256(text.as_bytes())).await, Ok(text.len()));
            assert_eq!(read(text, sha256(b"other")).await, wrong, "{text}");
        }
    }
}
