//! Bodies that are held in memory as a whole: XML documents, Select and fragment requests.
//!
//! Their memory is reserved as they arrive, not by what a header claims, and only for requests that
//! were authorized.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Uri};
use hyper::body::Body as _;
use md5::{Digest, Md5};
use pushdowndb_scan::{MemoryBudget, Reservation, Shortage};
use s3s::dto::SelectObjectContentRequest;
use s3s::xml::{DeError, Deserialize, Deserializer};
use s3s::{Body, S3Error, S3Result, s3_error};

use super::checksums::{HEADERS, content_md5};
use super::error::body_error;
use crate::Limits;
use crate::store::Hasher;

/// Memory reserved per byte of a body, for the copies that exist at once: received, assembled, and
/// parsed.
const COPIES: usize = 4;

/// The memory reserved for a body. It is stored in the request's extensions until the response is
/// complete.
#[derive(Clone, Debug)]
pub(crate) struct HeldBody {
    _reserved: Arc<Reservation>,
}

/// Reads all of `body`, at most `limit` bytes, and replaces it so that it can be read again. The
/// memory stays reserved as long as the [`HeldBody`] lives.
pub(crate) async fn hold(body: &mut Body, limit: usize, memory: &MemoryBudget) -> S3Result<(Bytes, HeldBody)> {
    let reserved = memory.empty();
    let mut arriving = std::mem::take(body);
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut arriving).poll_frame(cx)).await {
        let frame = frame.map_err(|error| S3Error::from(body_error(error)))?;
        // HTTP trailers are not part of the body.
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

/// Reserves memory for the file of a form, which s3s holds twice: as received and assembled.
pub(crate) fn hold_form(headers: &HeaderMap, limits: &Limits, memory: &MemoryBudget) -> S3Result<HeldBody> {
    let claimed = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let bytes = claimed.unwrap_or(limits.form_bytes).min(limits.form_bytes).saturating_mul(2);
    if bytes > memory.limit() {
        return Err(s3_error!(EntityTooLarge, "the memory of the node is too little for a form of this size"));
    }
    let reserved = memory.try_reserve(bytes).map_err(slow_down)?;
    Ok(HeldBody { _reserved: Arc::new(reserved) })
}

/// The error for a request that finds too little free memory.
pub(crate) fn slow_down(shortage: Shortage) -> S3Error {
    tracing::debug!(%shortage, "a request was refused");
    s3_error!(SlowDown, "Please reduce your request rate: the memory of the node is taken by other requests")
}

/// Whether the body is an XML document about a bucket or an object. The document of
/// CompleteMultipartUpload is not one of these: the checksums in its headers are those of the
/// object.
pub(crate) fn is_document(method: &Method, uri: &Uri) -> bool {
    const ABOUT: [&str; 9] = [
        "acl",
        "cors",
        "delete",
        "lifecycle",
        "ownershipControls",
        "policy",
        "publicAccessBlock",
        "tagging",
        "versioning",
    ];
    (method == Method::PUT || method == Method::POST) && pairs(uri).any(|(name, _)| ABOUT.contains(&name.as_ref()))
}

/// Whether a request is SelectObjectContent.
pub(crate) fn is_select(method: &Method, uri: &Uri) -> bool {
    method == Method::POST && pairs(uri).any(|(name, value)| name == "select-type" && value == "2")
}

/// The decoded query parameters of `uri`, parsed as the verification and s3s do.
fn pairs(uri: &Uri) -> url::form_urlencoded::Parse<'_> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Refuses a Select request that lacks a required element; s3s would report it as malformed XML.
pub(crate) fn check_select(document: &[u8]) -> S3Result<()> {
    match SelectObjectContentRequest::deserialize(&mut Deserializer::new(document)) {
        Err(DeError::MissingField) => {
            Err(s3_error!(MissingRequiredParameter, "The SelectRequest entity is missing a required parameter."))
        }
        _ => Ok(()),
    }
}

/// Like [`hold`], but bounded by the time limit for documents, and requires a Content-Length unless
/// the body is empty.
pub(crate) async fn read_document(
    body: &mut Body,
    headers: &HeaderMap,
    limit: usize,
    limits: &Limits,
    memory: &MemoryBudget,
) -> S3Result<(Bytes, HeldBody)> {
    let seconds = limits.document_time.as_secs();
    let read = tokio::time::timeout(limits.document_time, hold(body, limit, memory)).await;
    let (bytes, held) =
        read.map_err(|_| s3_error!(RequestTimeout, "the body took more than {} s to arrive", seconds))??;
    if !bytes.is_empty() && !headers.contains_key(CONTENT_LENGTH) {
        return Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."));
    }
    Ok((bytes, held))
}

/// Checks a document against the digests in `headers`.
pub(crate) fn verify_document(document: &[u8], headers: &HeaderMap) -> S3Result<()> {
    if content_md5(headers)?.is_some_and(|md5| md5 != *Md5::digest(document)) {
        return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
    }
    for (kind, name) in HEADERS {
        let Some(value) = headers.get(name) else { continue };
        let mut hasher = Hasher::new(kind);
        hasher.update(document);
        if BASE64_STANDARD.encode(hasher.finish()).as_bytes() != value.as_bytes() {
            return Err(s3_error!(BadDigest, "The {} you specified did not match what we received.", name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

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

    #[test]
    fn documents_are_told_from_objects() {
        let is = |method, text: &str| is_document(&method, &text.parse().unwrap());
        assert!(is(Method::POST, "/b?delete") && is(Method::PUT, "/b/k?tagging=") && is(Method::PUT, "/b?x=1&cors"));
        assert!(
            is(Method::PUT, "/b/k?%74agging") && is_select(&Method::POST, &"/b/k?select%2Dtype=%32".parse().unwrap())
        );
        assert!(!is(Method::PUT, "/b/k") && !is(Method::POST, "/b/k?uploadId=1") && !is(Method::GET, "/b?cors"));
        assert!(!is(Method::PUT, "/b/k?x=tagging"));
    }

    #[test]
    fn select_requests_that_lack_something_are_told_from_malformed_ones() {
        let code = |text: &str| check_select(text.as_bytes()).err().map(|error| error.code().as_str().to_owned());
        let whole = "<SelectObjectContentRequest><Expression>x</Expression><ExpressionType>SQL</ExpressionType>\
                     <InputSerialization/><OutputSerialization/></SelectObjectContentRequest>";
        assert_eq!(code(whole), None);
        for part in ["<Expression>x</Expression>", "<ExpressionType>SQL</ExpressionType>", "<InputSerialization/>"] {
            assert_eq!(code(&whole.replace(part, "")).as_deref(), Some("MissingRequiredParameter"), "{part}");
        }
        // s3s refuses these itself.
        assert_eq!((code("<Select"), code("")), (None, None));
    }

    #[test]
    fn documents_that_differ_from_their_digest_are_refused() {
        let check = |name: &'static str, value: &'static str| {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            verify_document(b"abc", &headers).is_ok()
        };
        assert!(check("content-md5", "kAFQmDzST7DWlj99KOF/cg=="));
        assert!(!check("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="));
        assert!(check("x-amz-checksum-crc32", "NSRBwg=="));
        assert!(!check("x-amz-checksum-crc32", "AAAAAA=="));
    }

    #[tokio::test]
    async fn documents_arrive_in_time_and_within_their_size() {
        let limits = Limits { document_time: std::time::Duration::from_millis(20), ..Limits::default() };
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from_static("3"))]);
        let read = async |mut body: Body, headers: &HeaderMap| {
            let read = read_document(&mut body, headers, 3, &limits, &MemoryBudget::new(100)).await;
            read.map(|(bytes, _)| bytes.len()).map_err(|error| error.code().as_str().to_owned())
        };
        assert_eq!(read(Body::from("abc".to_owned()), &headers).await, Ok(3));
        assert_eq!(read(Body::from("abc".to_owned()), &HeaderMap::new()).await, Err("MissingContentLength".to_owned()));
        assert_eq!(read(Body::from("abcd".to_owned()), &headers).await, Err("MaxMessageLengthExceeded".to_owned()));
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let never = Body::from(s3s::dto::StreamingBlob::wrap(never));
        assert_eq!(read(never, &headers).await, Err("RequestTimeout".to_owned()));
    }
}
