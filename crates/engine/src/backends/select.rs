//! The client side of S3 Select: one request for one object, or a range of it.
//!
//! Signing and transport are object_store's, so credentials, proxies, TLS and counting are the same as for
//! plain reads. Retries are not here: a caller that may have released rows must decide about them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, StatusCode, header};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpResponse};
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pushdown::{Error, ErrorKind, Result};
use pushdowndb_select::{Event, FrameDecoder, SelectRequest, Stats, error_from_response};

use super::http::EndpointState;
use crate::error::from_object_store;

/// What SigV4 leaves as it is in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The longest error document that is read.
const ERROR_BYTES: usize = 64 * 1024;

/// S3 Select at one bucket.
#[derive(Clone, Debug)]
pub(crate) struct SelectClient {
    pub(super) http: HttpClient,
    pub(super) state: Arc<EndpointState>,
    pub(super) bucket_url: String,
    pub(super) region: String,
    /// `None` sends unsigned requests.
    pub(super) credentials: Option<AwsCredentialProvider>,
    pub(super) requester_pays: bool,
    pub(super) idle_timeout: Duration,
}

/// The object a request is for.
#[derive(Clone, Debug)]
pub(crate) struct SelectedObject {
    pub(crate) path: Path,
    /// Its address, for messages.
    pub(crate) location: String,
    /// Sent as If-Match where the server honours it.
    pub(crate) if_match: Option<String>,
}

impl SelectClient {
    /// Sends the request and returns once the server has begun to answer.
    pub(crate) async fn select(&self, object: &SelectedObject, request: &SelectRequest) -> Result<Selected> {
        let http_request = self.signed(object, request).await?;
        let response = tokio::time::timeout(self.idle_timeout, self.http.execute(http_request))
            .await
            .map_err(|_| silent(&object.location, self.idle_timeout))?
            .map_err(|e| from_http(&e).context(&object.location))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await.context(&object.location));
        }
        Ok(Selected {
            body: response.into_body().bytes_stream(),
            frames: FrameDecoder::default(),
            ended: false,
            location: object.location.clone(),
            idle_timeout: self.idle_timeout,
        })
    }

    async fn signed(&self, object: &SelectedObject, request: &SelectRequest) -> Result<HttpRequest> {
        let key = utf8_percent_encode(object.path.as_ref(), PATH);
        let mut builder = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{}/{key}?select&select-type=2", self.bucket_url))
            .header(header::CONTENT_TYPE, "application/xml");
        if let Some(etag) = &object.if_match {
            builder = builder.header(header::IF_MATCH, etag);
        }
        let mut http_request = builder
            .body(request.to_xml().into())
            .map_err(|e| Error::internal("a request that cannot be built").with_source(e))?;
        if let Some(provider) = &self.credentials {
            let credential = provider.get_credential().await.map_err(from_object_store)?;
            AwsAuthorizer::new(&credential, "s3", &self.region)
                .with_request_payer(self.requester_pays)
                .authorize(&mut http_request, None);
        }
        Ok(http_request)
    }

    async fn refused(&self, response: HttpResponse) -> Error {
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED || status == StatusCode::NOT_IMPLEMENTED {
            self.state.refuse_select();
        }
        let mut body = response.into_body().bytes_stream();
        let mut text = Vec::new();
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(self.idle_timeout, body.next()).await {
            text.extend_from_slice(&piece);
            if text.len() > ERROR_BYTES {
                break;
            }
        }
        error_from_response(status.as_u16(), &text).context("S3 Select was refused")
    }
}

fn from_http(error: &HttpError) -> Error {
    // Also a body cut short, which arrives as a decoding error: another try may mend any of them.
    Error::new(ErrorKind::Unavailable, error.to_string())
}

fn silent(location: &str, timeout: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{location}: no answer for {} s", timeout.as_secs()))
}

/// The answer to a request, as it arrives.
pub(crate) struct Selected {
    body: BoxStream<'static, Result<Bytes, HttpError>>,
    frames: FrameDecoder,
    ended: bool,
    location: String,
    idle_timeout: Duration,
}

/// A piece of an answer.
pub(crate) enum Piece {
    /// Bytes of the result; records may be cut anywhere.
    Records(Bytes),
    /// What the server says it did.
    Stats(Stats),
}

impl Selected {
    /// The next piece; `None` once the End frame was seen. An answer that stops before it is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            while let Some(event) = self.frames.next().map_err(|e| e.context(&self.location))? {
                match event {
                    Event::Records(bytes) => return Ok(Some(Piece::Records(bytes))),
                    Event::Stats(stats) => return Ok(Some(Piece::Stats(stats))),
                    Event::End => self.ended = true,
                    Event::Cont | Event::Progress(_) => {}
                }
            }
            if self.ended {
                return Ok(None);
            }
            let arrived = tokio::time::timeout(self.idle_timeout, self.body.next()).await;
            match arrived.map_err(|_| silent(&self.location, self.idle_timeout))? {
                Some(Ok(bytes)) => self.frames.feed(&bytes),
                Some(Err(e)) => return Err(from_http(&e).context(&self.location)),
                None => {
                    self.frames.finish().map_err(|e| e.context(&self.location))?;
                    return Ok(None);
                }
            }
        }
    }
}
