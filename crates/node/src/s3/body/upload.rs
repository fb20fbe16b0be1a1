//! Receiving a body into the store: its digests are checked before anything becomes visible.

use futures::{StreamExt, stream};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use s3s::dto::StreamingBlob;
use s3s::{S3Result, s3_error};

use super::checksums::{HEADERS, algorithm, content_md5};
use super::document::slow_down;
use super::error::body_error;
use super::trailer::{Trailer, announced, decoded_length};
use crate::admission::NodeMemory;
use crate::store::{Algorithm, Body, Checksum, Staged, Store, StoreError};

/// The digests and sizes that a client declares for the bytes it sends.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub md5: Option<[u8; 16]>,
    pub checksum: Option<Checksum>,
    /// The checksum to compute. Its value is in `checksum`, in the trailer, or chosen by the node.
    pub algorithm: Option<Algorithm>,
    /// Set if the body is chunked.
    trailer: Option<Trailer>,
    /// The checksum that the trailer must contain.
    announced: Option<Algorithm>,
    /// Bytes within the chunks.
    size: Option<u64>,
}

impl Declared {
    pub fn new(
        checksum: Option<Checksum>,
        named: Option<&str>,
        headers: &HeaderMap,
        trailer: Option<Trailer>,
    ) -> S3Result<Self> {
        // The name is in either of two headers, of which s3s reads only one.
        let named = named.or_else(|| headers.get("x-amz-sdk-checksum-algorithm")?.to_str().ok());
        let named = named.map(algorithm).transpose()?;
        let size = decoded_length(headers).filter(|_| trailer.is_some());
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
        let headers = self.trailer.as_ref().and_then(Trailer::get).cloned().unwrap_or_default();
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

/// Refuses a body with neither a Content-Length nor a Transfer-Encoding.
pub(crate) fn require_length(headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING) {
        return Ok(());
    }
    Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))
}

/// Stages `body` in `store` and checks it against `declared`.
pub(crate) async fn receive(
    store: &dyn Store,
    memory: &NodeMemory,
    body: Option<StreamingBlob>,
    declared: Declared,
) -> S3Result<Staged> {
    let _blocks = memory.transfer().await.map_err(slow_down)?;
    let body: Body = match body {
        Some(body) => Box::pin(body.map(|chunk| chunk.map_err(body_error))),
        None => Box::pin(stream::empty()),
    };
    let staged = store.stage(body, declared.algorithm).await?;
    declared.verify(&staged)?;
    Ok(staged)
}
