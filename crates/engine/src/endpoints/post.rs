//! Signed POST requests to a bucket, answered by streams: shared by S3 Select and the fragment
//! route.
//!
//! Signing and transport are object_store's, so credentials, proxies, TLS and counting are the same
//! as for plain reads. Callers retry, since they know whether they passed on rows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderName, Method, StatusCode};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpResponse};
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_select::error_from_response;

use super::http::EndpointState;
use super::node::{InFlight, Node};
use crate::access::{Mode, StoreAccess};
use crate::error::{find_ours, from_object_store, with_cause};

/// The most bytes of an error document that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Sends requests to one bucket, at its endpoint or at a node before it.
#[derive(Clone, Debug)]
pub(crate) struct Poster {
    pub(crate) http: HttpClient,
    pub(crate) state: Arc<EndpointState>,
    pub(crate) access: StoreAccess,
    pub(crate) bucket: String,
    pub(crate) bucket_url: String,
    pub(crate) region: String,
    /// `None` sends unsigned requests.
    pub(crate) credentials: Option<AwsCredentialProvider>,
    pub(crate) requester_pays: bool,
    pub(crate) idle_timeout: Duration,
    /// The node, whose failures are noted.
    pub(crate) node: Option<Arc<Node>>,
}

/// A refused request.
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) error: Error,
}

impl Poster {
    /// Refuses a request about an object that the policy does not permit to read.
    pub(crate) fn may_read(&self, key: impl AsRef<str>) -> Result<()> {
        self.access.check(Mode::Read, key)
    }

    /// Sends a request to `path` below the bucket, its query included, and returns once the server
    /// begins to answer. `location` is for messages.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Bytes,
        location: &str,
    ) -> Result<std::result::Result<Answer, Refused>> {
        let request = self.signed(Method::POST, path, headers, body).await?;
        let in_flight = self.node.as_ref().map(Node::begin);
        let response = match tokio::time::timeout(self.idle_timeout, self.http.execute(request)).await {
            Ok(Ok(response)) => response,
            failed => {
                in_flight.iter().for_each(|request| request.node().failed());
                return Err(match failed {
                    Ok(Err(error)) => from_http(&error).context(location),
                    _ => silent(location, self.idle_timeout),
                });
            }
        };
        in_flight.iter().for_each(|request| request.node().answered());
        if response.status() != StatusCode::OK {
            return Ok(Err(self.refused(response).await));
        }
        Ok(Ok(Answer {
            body: response.into_body().bytes_stream(),
            location: location.to_owned(),
            idle_timeout: self.idle_timeout,
            in_flight,
        }))
    }

    /// Asks for the head of the bucket, to see who answers.
    pub(super) async fn head(&self) -> Result<()> {
        let request = self.signed(Method::HEAD, "", &[], Bytes::new()).await?;
        self.http.execute(request).await.map(drop).map_err(|error| from_http(&error))
    }

    async fn signed(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Bytes,
    ) -> Result<HttpRequest> {
        let mut builder = http::Request::builder().method(method).uri(format!("{}{path}", self.bucket_url));
        for (name, value) in headers {
            builder = builder.header(name, *value);
        }
        let mut request =
            builder.body(body.into()).map_err(|e| Error::internal("a request that cannot be built").with_source(e))?;
        if let Some(provider) = &self.credentials {
            let credential = provider.get_credential().await.map_err(from_object_store)?;
            AwsAuthorizer::new(&credential, "s3", &self.region)
                .with_request_payer(self.requester_pays)
                .authorize(&mut request, None);
        }
        Ok(request)
    }

    async fn refused(&self, response: HttpResponse) -> Refused {
        let status = response.status();
        let mut body = response.into_body().bytes_stream();
        let mut text = Vec::new();
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(self.idle_timeout, body.next()).await {
            text.extend_from_slice(&piece);
            if text.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        Refused { status, error: error_from_response(status.as_u16(), &text) }
    }
}

fn from_http(error: &HttpError) -> Error {
    // Transport failures, also a body cut short (a decoding error), may be retried; refusals of
    // ours may not.
    find_ours(error).unwrap_or_else(|| Error::new(ErrorKind::Unavailable, with_cause(error)))
}

fn silent(location: &str, timeout: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{location}: no answer for {} s", timeout.as_secs()))
}

/// The bytes of an answer, as they arrive.
pub(crate) struct Answer {
    body: BoxStream<'static, Result<Bytes, HttpError>>,
    pub(crate) location: String,
    idle_timeout: Duration,
    in_flight: Option<InFlight>,
}

impl Answer {
    /// The next bytes; `None` at their end. A server that is silent for too long is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        let error = match tokio::time::timeout(self.idle_timeout, self.body.next()).await {
            Ok(Some(Ok(bytes))) => return Ok(Some(bytes)),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => from_http(&error).context(&self.location),
            Err(_) => silent(&self.location, self.idle_timeout),
        };
        self.broke_off();
        Err(error)
    }

    /// Notes that the answer ended too early.
    pub(crate) fn broke_off(&self) {
        self.in_flight.iter().for_each(|request| request.node().failed());
    }
}
