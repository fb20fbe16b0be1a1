//! The parts of a request that its response depends on.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use s3s::{Body, HttpResponse, S3Error};

use super::http::document::{Document, ErrorDocument};
use super::http::host::{Domains, decoded_path};

/// The id of a request, stored in its extensions. Error documents contain it.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub String);

/// The code of an error, stored in the extensions of its response.
#[derive(Clone, Debug)]
pub(crate) struct ErrorCode(pub String);

/// What a response needs of its request.
pub(crate) struct RequestContext {
    id: String,
    path: String,
    /// Whether the client waits for `100 Continue` before it sends the body.
    expects: bool,
    /// Bucket, origin and method, if a web page sent the request.
    pub origin: Option<(String, String, Method)>,
}

impl RequestContext {
    pub fn new(parts: &Parts, domains: &Domains) -> Self {
        let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let origin = origin.filter(|_| parts.method != Method::OPTIONS);
        let bucket = origin.and_then(|_| bucket_of(parts, domains));
        Self {
            id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
            path: parts.uri.path().to_owned(),
            expects: parts.headers.contains_key(EXPECT),
            origin: bucket.zip(origin).map(|(bucket, origin)| (bucket, origin.to_owned(), parts.method.clone())),
        }
    }

    /// The error response to a request that s3s did not answer.
    pub fn refuse(&self, error: &S3Error) -> HttpResponse {
        let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = self.error_response(ErrorDocument::of(error), status);
        response.headers_mut().extend(error.headers().cloned().unwrap_or_default());
        response
    }

    /// Completes a response of s3s: adds the path and id of the request to errors, and replaces the
    /// body by the [`Document`] that an operation has written itself, if there is one.
    pub fn complete(&self, mut response: HttpResponse) -> HttpResponse {
        if let Some(Document(text)) = response.extensions_mut().remove() {
            *response.body_mut() = Body::from(text);
            return response;
        }
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return response;
        }
        let Some(error) = response.body().bytes().and_then(|text| ErrorDocument::parse(&text)) else {
            return response;
        };
        let (mut head, _) = response.into_parts();
        let (written, body) = self.error_response(error, status).into_parts();
        head.headers.remove(CONTENT_LENGTH);
        head.headers.extend(written.headers);
        head.extensions.extend(written.extensions);
        HttpResponse::from_parts(head, body)
    }

    fn error_response(&self, error: ErrorDocument, status: StatusCode) -> HttpResponse {
        let code = ErrorCode(error.code.clone());
        let mut response = error.into_response(status, &self.path, &self.id);
        response.extensions_mut().insert(code);
        response
    }

    /// Closes the connection after the response, unless the body was read to its end. `was_empty`
    /// says that the request had no body, `is_over` that its body was read to the end.
    pub fn close_unless_read(&self, response: &mut HttpResponse, was_empty: bool, is_over: bool) {
        // The rest of a body would be parsed as the next request. boto3 waits for `100 Continue`
        // even if the body is empty, and then misreads the response to its next request.
        let is_misread = self.expects && (was_empty || response.status().is_client_error());
        if !is_over || is_misread {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// The bucket that a request names, if it is a valid one.
pub(crate) fn bucket_of(parts: &Parts, domains: &Domains) -> Option<String> {
    let path = domains.resolve(&parts.headers, &decoded_path(&parts.uri).ok()?).ok()?;
    path.get_bucket_name().map(str::to_owned)
}
