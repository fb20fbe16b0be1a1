//! Clients of S3.

use bytes::Bytes;
use http::{HeaderName, Request};
use object_store::PutPayload;
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};

/// The region of every node in a test.
pub const REGION: &str = "us-east-1";

/// The id and the secret of an access key.
pub type Keys<'a> = (&'a str, &'a str);

/// Returns a builder of clients of a `bucket`.
pub fn bucket(endpoint: impl Into<String>, bucket: &str, (id, secret): Keys<'_>) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region(REGION)
        .with_bucket_name(bucket)
        .with_access_key_id(id)
        .with_secret_access_key(secret)
}

/// The body of a request, by how it is signed.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// The signature covers these bytes.
    Signed(&'a [u8]),
    /// The signature does not cover the body, which may be any bytes of this length.
    Unsigned(usize),
    /// The body is signed chunk by chunk; this is its encoded length.
    Chunked(usize),
}

/// Returns the head of a signed request to the server at `address` (host and port), for use with
/// plain sockets: in tests that read slowly, disconnect, or send another body than announced.
pub fn signed_head(
    address: &str,
    (id, secret): Keys<'_>,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    payload: Payload<'_>,
) -> String {
    let (body, length): (HttpRequestBody, usize) = match payload {
        Payload::Signed(bytes) => (bytes.to_owned().into(), bytes.len()),
        Payload::Unsigned(length) => (HttpRequestBody::empty(), length),
        // A body in several parts is signed chunk by chunk.
        Payload::Chunked(length) => (PutPayload::from_iter(["x", "y"].map(Bytes::from)).into(), length),
    };
    let mut request: HttpRequest =
        Request::builder().method(method).uri(format!("http://{address}{target}")).body(body).expect("a request");
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("the name of a header");
        request.headers_mut().insert(name, value.parse().expect("the value of a header"));
    }
    let credential = AwsCredential { key_id: id.to_owned(), secret_key: secret.to_owned(), token: None };
    AwsAuthorizer::new(&credential, "s3", REGION)
        .with_sign_payload(!matches!(payload, Payload::Unsigned(_)))
        .authorize(&mut request, None);
    let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n");
    if !request.headers().contains_key("host") {
        head += &format!("Host: {address}\r\n");
    }
    for (name, value) in request.headers() {
        head += &format!("{name}: {}\r\n", value.to_str().expect("the value of a header"));
    }
    head + "\r\n"
}
