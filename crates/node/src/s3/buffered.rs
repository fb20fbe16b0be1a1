//! Bodies that are held in memory as a whole: documents, Select and fragment requests.
//!
//! What arrives is drawn from the node's memory as it arrives; what a header claims is not. The signature and the rights of
//! the request come first.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use hyper::body::Body as _;
use pushdowndb_scan::{MemoryBudget, Reservation, Shortage};
use s3s::{Body, S3Error, S3Result, s3_error};

use super::upload::body_error;
use crate::Limits;

/// A body is there as it arrived, as it is put together, and as what is made of it.
const COPIES: usize = 4;

/// What is reserved for the body of a request, until its answer is made. It travels in the extensions of the request.
#[derive(Clone, Debug)]
pub(super) struct HeldBody {
    _reserved: Arc<Reservation>,
}

/// Takes in a body of at most `limit` bytes and leaves it there to be read again. What is reserved for it is to be kept as long
/// as the bytes are.
pub(super) async fn hold(body: &mut Body, limit: usize, memory: &MemoryBudget) -> S3Result<(Bytes, HeldBody)> {
    let reserved = memory.empty();
    let mut arriving = std::mem::take(body);
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut arriving).poll_frame(cx)).await {
        let frame = frame.map_err(|error| S3Error::from(body_error(error.to_string())))?;
        // Trailers are no part of it.
        let Ok(bytes) = frame.into_data() else { continue };
        if all.len() + bytes.len() > limit {
            return Err(s3_error!(MaxMessageLengthExceeded, "Your request was too big: at most {} bytes", limit));
        }
        reserved.grow(bytes.len().saturating_mul(COPIES)).map_err(slow_down)?;
        all.extend_from_slice(&bytes);
    }
    let bytes = all.freeze();
    *body = Body::from(bytes.clone());
    Ok((bytes, HeldBody { _reserved: Arc::new(reserved) }))
}

/// Reserves what the file of a form takes, as it arrives and put together: s3s holds it.
pub(super) fn hold_form(headers: &HeaderMap, limits: &Limits, memory: &MemoryBudget) -> S3Result<HeldBody> {
    let told = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let bytes = told.unwrap_or(limits.form_bytes).min(limits.form_bytes).saturating_mul(2);
    if bytes > memory.limit() {
        return Err(s3_error!(EntityTooLarge, "the memory of the node is too little for a form of this size"));
    }
    let reserved = memory.try_reserve(bytes).map_err(slow_down)?;
    Ok(HeldBody { _reserved: Arc::new(reserved) })
}

/// The answer where memory is taken by others.
pub(super) fn slow_down(shortage: Shortage) -> S3Error {
    tracing::debug!(%shortage, "a request was refused");
    s3_error!(SlowDown, "Please reduce your request rate: the memory of the node is taken by other requests")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn held(body: Body, limit: usize, memory: &MemoryBudget) -> Result<(Bytes, HeldBody), String> {
        let mut body = body;
        let held = hold(&mut body, limit, memory).await.map_err(|error| error.code().as_str().to_owned())?;
        let again = hold(&mut body, limit, &MemoryBudget::unbounded()).await.unwrap();
        assert_eq!(again.0, held.0, "it can be read again");
        Ok(held)
    }

    #[tokio::test]
    async fn what_arrives_is_reserved_as_long_as_it_is_held() {
        let memory = MemoryBudget::new(1000);
        let (bytes, kept) = held(Body::from("x".repeat(100)), 200, &memory).await.unwrap();
        assert_eq!((bytes.len(), memory.used()), (100, 100 * COPIES));
        assert_eq!(held(Body::from("x".repeat(201)), 200, &memory).await.unwrap_err(), "MaxMessageLengthExceeded");
        assert_eq!(held(Body::from("x".repeat(200)), 200, &memory).await.unwrap_err(), "SlowDown");
        drop(kept);
        assert_eq!(memory.used(), 0);
        assert!(held(Body::empty(), 0, &memory).await.unwrap().0.is_empty());
    }
}
