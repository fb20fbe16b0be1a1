//! Between the signature and the operation.
//!
//! s3s verifies who sent a request and what its headers were, and then parses it more strictly than S3 does:
//! S3 ignores a Range that is none, and a time that is none. Signed headers cannot be mended before they are
//! verified. So there are two services: the outer verifies and hands every request to [`Verified`], which
//! mends it and passes it on, with the name of its signer, to the inner, which parses and carries it out.
//! Upload forms are the exception: they are verified while they are parsed. Requests of the fragment route are no S3
//! and leave here.

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use md5::{Digest, Md5};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{SelectObjectContentRequest, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::xml::{DeError, Deserialize, Deserializer};
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use super::checksums::{HEADERS, content_md5};
use super::form_head::is_form;
use super::host::Domains;
use super::op::fragment;
use super::version_2::PARAMETERS;
use super::{Edge, encryption};
use crate::store::Hasher;

/// The headers that a client wants an answer to carry instead of the object's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides(pub HeaderMap);

/// Passes verified requests on to the service that carries them out.
pub(super) struct Verified {
    inner: S3Service,
    edge: Edge,
    domains: Domains,
}

impl Verified {
    pub fn new(inner: S3Service, edge: Edge, domains: Domains) -> Self {
        Self { inner, edge, domains }
    }
}

#[async_trait]
impl S3Route for Verified {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        !is_form(method, headers)
    }

    /// The inner service asks who may do what, when it knows what that is.
    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if fragment::is_request(&request.method, &request.uri) {
            return fragment::answer(&self.edge, &self.domains, request).await;
        }
        let S3Request {
            input: mut body, method, uri, mut headers, mut extensions, credentials, trailing_headers, ..
        } = request;
        headers.remove(AUTHORIZATION);
        forgive(&mut headers);
        let Bare { uri, overrides, hoisted } = bare(uri)?;
        headers.extend(hoisted);
        encryption::check(&method, &headers)?;
        if is_document(&method, &uri) {
            verify_document(&mut body, &headers, self.edge.limits.request_body_bytes).await?;
        } else if credentials.is_some() && is_select(&method, &uri) {
            // Who has not signed is denied first.
            check_select(&mut body, self.edge.limits.request_body_bytes).await?;
        }
        if let Some(signer) = credentials {
            extensions.insert(signer);
        }
        if let Some(trailer) = trailing_headers {
            extensions.insert(trailer);
        }
        extensions.insert(Overrides(overrides));

        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        *request.extensions_mut() = extensions;
        let response = Box::pin(self.inner.call(request)).await;
        let response = response.map_err(|error| s3_error!(InternalError, "the request failed: {:?}", error))?;
        let (head, body) = response.into_parts();
        let mut response = S3Response::with_status(body, head.status);
        (response.headers, response.extensions) = (head.headers, head.extensions);
        Ok(response)
    }
}

/// The inner service verifies nobody: what reaches it is verified, and carries no signature.
pub(super) struct Nobody;

#[async_trait]
impl S3Auth for Nobody {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(s3_error!(AccessDenied, "a request was signed twice"))
    }
}

/// Takes out what S3 ignores.
fn forgive(headers: &mut HeaderMap) {
    if headers.get(RANGE).is_some_and(|range| !is_range(range.as_bytes())) {
        headers.remove(RANGE);
    }
    let times = [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE].map(|name| name.to_string());
    let copies = ["x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-unmodified-since"].map(str::to_owned);
    for name in times.into_iter().chain(copies) {
        let is_time = |value: &HeaderValue| {
            value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_ok())
        };
        if headers.get(&name).is_some_and(|value| !is_time(value)) {
            headers.remove(&name);
        }
    }
}

/// One range of bytes; several are as good as none.
fn is_range(text: &[u8]) -> bool {
    let Some((first, last)) = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.strip_prefix("bytes="))
        .and_then(|range| range.split_once('-'))
    else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<i64>().ok();
    match (first, last) {
        _ if !digits(first) || !digits(last) => false,
        ("", last) => number(last).is_some(),
        (first, "") => number(first).is_some(),
        (first, last) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
    }
}

/// An address without its signature.
#[derive(Debug, Default)]
pub(super) struct Bare {
    pub uri: Uri,
    /// The headers that it asks the answer to carry.
    pub overrides: HeaderMap,
    /// Headers of the request that were signed as part of the address: some SDKs put metadata and tags there.
    pub hoisted: HeaderMap,
}

/// Takes an address apart.
pub(super) fn bare(uri: Uri) -> S3Result<Bare> {
    let Some(query) = uri.query() else { return Ok(Bare { uri, ..Bare::default() }) };
    let (mut overrides, mut hoisted) = (HeaderMap::new(), HeaderMap::new());
    // A signature of version 2 covers none of them.
    let may_hoist = query.split('&').any(|pair| pair.starts_with("X-Amz-Signature="));
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let Some((name, value)) = url::form_urlencoded::parse(pair.as_bytes()).next() else { continue };
        let lower = name.to_ascii_lowercase();
        let header = || {
            let value = HeaderValue::from_str(&value);
            value.map_err(|_| s3_error!(InvalidArgument, "{} holds what no header can", name))
        };
        let is_own = PARAMETERS.contains(&name.as_ref()) || SIGNATURE.contains(&lower.as_str());
        // What is sent is not known when an address is signed.
        let is_checksum = lower.starts_with("x-amz-checksum-") || lower == "x-amz-sdk-checksum-algorithm";
        if is_own || is_checksum {
            continue;
        }
        let own = lower.strip_prefix("response-").filter(|header| OVERRIDABLE.contains(header));
        let (into, known) = match own {
            Some(header) => (&mut overrides, Some(header)),
            None if lower.starts_with("x-amz-") => (&mut hoisted, Some(lower.as_str()).filter(|_| may_hoist)),
            None => {
                kept.push(pair);
                continue;
            }
        };
        if let Some(known) = known.and_then(|known| HeaderName::from_bytes(known.as_bytes()).ok()) {
            into.insert(known, header()?);
        }
    }
    if kept.len() == query.split('&').count() {
        return Ok(Bare { uri, overrides, hoisted });
    }
    let bare = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) };
    let mut parts = uri.into_parts();
    let bare = PathAndQuery::try_from(bare).map_err(|_| s3_error!(InvalidURI, "the query is malformed"))?;
    parts.path_and_query = Some(bare);
    let uri = Uri::from_parts(parts).map_err(|_| s3_error!(InvalidURI, "the address is malformed"))?;
    Ok(Bare { uri, overrides, hoisted })
}

/// The parameters that are a signature of version 4.
const SIGNATURE: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

const OVERRIDABLE: [&str; 6] =
    ["cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"];

/// Whether the body is an XML document about something, as opposed to an object's bytes. Documents that
/// complete uploads are none of these: the checksums beside them are the object's.
fn is_document(method: &Method, uri: &Uri) -> bool {
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
    let names = uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    (method == Method::PUT || method == Method::POST) && names.into_iter().any(|name| ABOUT.contains(&name))
}

fn is_select(method: &Method, uri: &Uri) -> bool {
    method == Method::POST && uri.query().unwrap_or_default().split('&').any(|pair| pair == "select-type=2")
}

/// Tells a Select request that lacks something from one that is malformed; s3s does not.
async fn check_select(body: &mut Body, limit: usize) -> S3Result<()> {
    let bytes = store_all(body, limit).await?;
    match SelectObjectContentRequest::deserialize(&mut Deserializer::new(&bytes)) {
        Err(DeError::MissingField) => {
            Err(s3_error!(MissingRequiredParameter, "The SelectRequest entity is missing a required parameter."))
        }
        _ => Ok(()),
    }
}

async fn store_all(body: &mut Body, limit: usize) -> S3Result<Bytes> {
    body.store_all_limited(limit)
        .await
        .map_err(|error| s3_error!(MaxMessageLengthExceeded, "a document has at most {} bytes: {}", limit, error))
}

/// Checks the digests that a client sends with a document.
async fn verify_document(body: &mut Body, headers: &HeaderMap, limit: usize) -> S3Result<()> {
    let md5 = content_md5(headers)?;
    let sums: Vec<_> = HEADERS.into_iter().filter_map(|(kind, name)| Some((kind, name, headers.get(name)?))).collect();
    if md5.is_none() && sums.is_empty() {
        return Ok(());
    }
    let bytes = store_all(body, limit).await?;
    if md5.is_some_and(|md5| md5 != *Md5::digest(&bytes)) {
        return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
    }
    for (kind, name, value) in sums {
        let mut hasher = Hasher::new(kind);
        hasher.update(&bytes);
        if BASE64_STANDARD.encode(hasher.finish()).as_bytes() != value.as_bytes() {
            return Err(s3_error!(BadDigest, "The {} you specified did not match what we received.", name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    #[test]
    fn only_single_ranges_are_ranges() {
        for range in ["bytes=0-5", "bytes=3-", "bytes=-7", "bytes=5-5", "bytes=-0"] {
            assert!(is_range(range.as_bytes()), "{range}");
        }
        for none in [
            "bytes=5-3",
            "bytes=x-y",
            "lines=0-5",
            "bytes",
            "bytes=0-1,5-6",
            "bytes=-",
            "bytes=1.5-2",
            "",
            "bytes=99999999999999999999-",
            "bytes=+1-2",
        ] {
            assert!(!is_range(none.as_bytes()), "{none}");
        }
    }

    #[test]
    fn addresses_lose_their_signature() {
        let with = |text: &str| bare(text.parse().unwrap()).unwrap();
        let signed =
            "X-Amz-Date=1&response-content-type=text%2Fcss&versionId=null&x-amz-meta-colour=blue&X-Amz-Signature=2";
        let Bare { uri, overrides, hoisted } = with(&format!("/b/k?{signed}&x-amz-checksum-crc32=AAAAAA%3D%3D"));
        assert_eq!(uri, "/b/k?versionId=null");
        assert_eq!(overrides[CONTENT_TYPE], "text/css");
        assert_eq!((hoisted.len(), &hoisted["x-amz-meta-colour"]), (1, &HeaderValue::from_static("blue")));
        assert_eq!(with("/b/k?X-Amz-Date=1").uri, "/b/k");
        assert!(with("/b/k?Signature=1&x-amz-meta-colour=blue").hoisted.is_empty(), "version 2 does not sign it");
        assert_eq!(with("/b?list-type=2&prefix=a%26b").uri, "/b?list-type=2&prefix=a%26b");
        assert_eq!(with("/b").uri, "/b");
        assert!(bare("/b/k?response-expires=a%0Ab".parse().unwrap()).is_err());
    }

    #[test]
    fn documents_are_told_from_objects() {
        let is = |method, text: &str| is_document(&method, &text.parse().unwrap());
        assert!(is(Method::POST, "/b?delete") && is(Method::PUT, "/b/k?tagging=") && is(Method::PUT, "/b?x=1&cors"));
        assert!(!is(Method::PUT, "/b/k") && !is(Method::POST, "/b/k?uploadId=1") && !is(Method::GET, "/b?cors"));
        assert!(!is(Method::PUT, "/b/k?x=tagging"));
    }

    #[tokio::test]
    async fn select_requests_that_lack_something_are_told_from_malformed_ones() {
        let code = async |text: &str| {
            let answer = check_select(&mut Body::from(text.to_owned()), 1000).await;
            answer.err().map(|error| error.code().as_str().to_owned())
        };
        let whole = "<SelectObjectContentRequest><Expression>x</Expression><ExpressionType>SQL</ExpressionType>\
                     <InputSerialization/><OutputSerialization/></SelectObjectContentRequest>";
        assert_eq!(code(whole).await, None);
        for part in ["<Expression>x</Expression>", "<ExpressionType>SQL</ExpressionType>", "<InputSerialization/>"] {
            assert_eq!(code(&whole.replace(part, "")).await.as_deref(), Some("MissingRequiredParameter"), "{part}");
        }
        // s3s says of these what is wrong.
        assert_eq!((code("<Select").await, code("").await), (None, None));
    }

    #[tokio::test]
    async fn documents_that_differ_from_their_digest_are_refused() {
        let check = async |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            verify_document(&mut Body::from("abc".to_owned()), &headers, 100).await.is_ok()
        };
        assert!(check("content-md5", "kAFQmDzST7DWlj99KOF/cg==").await);
        assert!(!check("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==").await);
        assert!(check("x-amz-checksum-crc32", "NSRBwg==").await);
        assert!(!check("x-amz-checksum-crc32", "AAAAAA==").await);
    }
}
