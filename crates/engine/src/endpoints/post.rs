//! Signed POST requests to a bucket, answered by streams: shared by S3 Select and the fragment
//! route.
//!
//! Signing and transport are object_store's, so credentials, proxies, TLS and counting are the same
//! as for plain reads. Retrying is left to the callers, which may have passed on rows already.

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

/// Maximum size of an error document that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Sends requests for one bucket, to its endpoint or to a node in front of it.
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
    /// The node that the requests go to, which records their failures.
    pub(crate) node: Option<Arc<Node>>,
}

/// A refused request.
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) error: Error,
}

impl Poster {
    /// Fails if the policy does not permit reading the object `key`.
    pub(crate) fn may_read(&self, key: impl AsRef<str>) -> Result<()> {
        self.access.check(Mode::Read, key)
    }

    /// Sends a request to `path` below the bucket, which includes the query string. Returns once
    /// the server begins to answer. `location` is for errors.
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

    /// Sends a HEAD request for the bucket, whose answer shows the kind of server.
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
    // Transport failures may be retried, including a body that is cut short (a decoding error).
    // Errors of the engine's own checks may not.
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
    /// Returns the next bytes; `None` at the end. Fails if the server sends nothing for too long.
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

    /// Records a failure of the node, since the answer ended too early.
    pub(crate) fn broke_off(&self) {
        self.in_flight.iter().for_each(|request| request.node().failed());
    }
}
