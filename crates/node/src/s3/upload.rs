//! Receiving bytes: the digests a client sends are checked before anything becomes visible.

use futures::{StreamExt, stream};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use s3s::dto::StreamingBlob;
use s3s::{S3Request, S3Result, TrailingHeaders, s3_error};

use super::Edge;
use super::buffered::slow_down;
use super::checksums::{HEADERS, algorithm, content_md5};
use super::chunked::announced;
use crate::stall::STOOD_STILL;
use crate::store::{Algorithm, Body, Checksum, Staged, StoreError};

/// What a client says of the bytes it sends.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub md5: Option<[u8; 16]>,
    pub checksum: Option<Checksum>,
    /// Named without a value: it is in the trailer, or the client leaves it to us to make one.
    pub algorithm: Option<Algorithm>,
    /// Arrives after the body.
    pub trailer: Option<TrailingHeaders>,
    /// The checksum that the trailer will hold.
    announced: Option<Algorithm>,
    /// The size of the bytes within the chunks.
    size: Option<u64>,
}

impl Declared {
    pub fn new(
        checksum: Option<Checksum>,
        named: Option<&str>,
        headers: &HeaderMap,
        trailer: Option<TrailingHeaders>,
    ) -> S3Result<Self> {
        // s3s reads the name from one of its two headers only.
        let named = named.or_else(|| headers.get("x-amz-sdk-checksum-algorithm")?.to_str().ok());
        let named = named.map(algorithm).transpose()?;
        let size = headers.get("x-amz-decoded-content-length").filter(|_| trailer.is_some());
        let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
        let mut declared =
            Self { md5: content_md5(headers)?, checksum, algorithm: named, trailer, announced: None, size };
        if let Some(name) = announced(headers) {
            let known = HEADERS.into_iter().find(|(_, header)| header.eq_ignore_ascii_case(name));
            let (algorithm, _) = known.ok_or_else(|| {
                s3_error!(InvalidRequest, "The value specified in the x-amz-trailer header is not supported")
            })?;
            (declared.algorithm, declared.announced) = (Some(algorithm), Some(algorithm));
        }
        if let Some(checksum) = &declared.checksum {
            if named.is_some_and(|named| named != checksum.algorithm) {
                return Err(s3_error!(
                    InvalidRequest,
                    "Value for x-amz-sdk-checksum-algorithm header is invalid: the checksum has another"
                ));
            }
            declared.algorithm = Some(checksum.algorithm);
        }
        Ok(declared)
    }

    fn verify(mut self, staged: &Staged) -> Result<(), StoreError> {
        if self.md5.is_some_and(|md5| md5 != staged.md5) {
            return Err(StoreError::BadDigest("Content-MD5"));
        }
        if self.size.is_some_and(|size| size != staged.size) {
            return Err(StoreError::Body("it is not as long as x-amz-decoded-content-length says".to_owned()));
        }
        let headers = self.trailer.and_then(|trailer| trailer.take()).unwrap_or_default();
        if self.announced.is_none() && !headers.is_empty() {
            return Err(StoreError::Body("it has a trailer that was not announced".to_owned()));
        }
        if let Some(announced) = self.announced {
            let value = HEADERS.into_iter().find(|(algorithm, _)| *algorithm == announced);
            let value = value.and_then(|(_, name)| headers.get(name)?.to_str().ok()?.to_owned().into());
            let value =
                value.ok_or_else(|| StoreError::Body("the trailer lacks the checksum it announced".to_owned()))?;
            self.checksum = self.checksum.or(Some(Checksum { algorithm: announced, value }));
        }
        match self.checksum {
            Some(checksum) if staged.checksum.as_ref() != Some(&checksum) => Err(StoreError::BadDigest("checksum")),
            _ => Ok(()),
        }
    }
}

/// The trailer of a request, as the outer or the inner service knows it.
pub(super) fn trailer<T>(req: &S3Request<T>) -> Option<TrailingHeaders> {
    req.trailing_headers.clone().or_else(|| req.extensions.get().cloned())
}

/// A body whose end is not told beforehand is no body of S3.
pub(super) fn require_length(headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING) {
        return Ok(());
    }
    Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))
}

/// Takes in a body and checks it against what was declared of it.
pub(super) async fn receive(edge: &Edge, body: Option<StreamingBlob>, declared: Declared) -> S3Result<Staged> {
    let _blocks = edge.memory.transfer().await.map_err(slow_down)?;
    let body: Body = match body {
        Some(body) => Box::pin(body.map(|chunk| chunk.map_err(|error| body_error(error.to_string())))),
        None => Box::pin(stream::empty()),
    };
    let staged = edge.store.stage(body, declared.algorithm).await?;
    declared.verify(&staged)?;
    Ok(staged)
}

/// s3s verifies signed bodies as they are read; what went wrong comes through it as text only.
pub(super) fn body_error(text: String) -> StoreError {
    if text.contains("Sha256Mismatch") {
        StoreError::BadDigest("x-amz-content-sha256")
    } else if text.contains("SignatureMismatch") {
        StoreError::ChunkSignature
    } else if text.contains(STOOD_STILL) {
        StoreError::Stalled
    } else {
        StoreError::Body(text)
    }
}
