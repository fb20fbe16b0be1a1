//! Between the signature and the operation: authorisation, a place among the requests under way, and only then the body.
//!
//! s3s verifies who sent a request and what its headers were, and then parses it more strictly than S3 does:
//! S3 ignores a Range that is none, and a time that is none. Signed headers cannot be mended before they are
//! verified. So there are two services: the outer verifies and hands every request to [`Verified`], which
//! mends it and passes it on, with the name of its signer, to the inner, which parses and carries it out.
//! Upload forms take another way ([`super::form_head`]). Requests of the fragment route are no S3 and leave here.

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use md5::{Digest, Md5};
use pushdowndb_scan::MemoryBudget;
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{SelectObjectContentRequest, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::xml::{DeError, Deserialize, Deserializer};
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use super::authentication::{Signature, VERSION_4, is_form};
use super::buffered::{HeldBody, hold};
use super::checksums::{HEADERS, content_md5};
use super::grant::{anonymous, authorise};
use super::host::Domains;
use super::op::fragment;
use super::version_2::PARAMETERS;
use super::{Edge, admit, authenticated, encryption};
use crate::Limits;
use crate::keyring::Right;
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
        // Nothing is read, and nothing is waited for, of a request that nobody signed.
        let signature = request.extensions.get::<Signature>().copied().unwrap_or(Signature::None);
        if request.credentials.is_none() || matches!(signature, Signature::None | Signature::Form) {
            return Err(anonymous());
        }
        authenticated(&request.extensions);
        if fragment::is_request(&request.method, &request.uri) {
            return fragment::answer(&self.edge, &self.domains, request).await;
        }
        let S3Request {
            input: mut body, method, uri, mut headers, mut extensions, credentials, trailing_headers, ..
        } = request;
        let signer = credentials.ok_or_else(anonymous)?;
        headers.remove(AUTHORIZATION);
        forgive(&mut headers);
        let Bare { uri, overrides, hoisted } = bare(uri, signature)?;
        headers.extend(hoisted);
        let (bucket, has_key) = self.domains.bucket_of(&uri, &headers);
        let is_document = is_document(&method, &uri);
        let edge = &self.edge;
        if let Some(bucket) = bucket {
            let reads = [Method::GET, Method::HEAD].contains(&method) || is_select(&method, &uri) && !is_document;
            let right = if reads { Right::Read } else { Right::Write };
            let creates = method == Method::PUT && !has_key && !is_document;
            let asked = (right, bucket.as_str());
            let given = authorise(&edge.keys, &*edge.store, &edge.limits, Some(&signer), asked, creates).await?;
            extensions.insert(given);
        }
        admit(&mut extensions, &edge.keys, &signer).await?;
        encryption::check(&method, &headers)?;
        if method == Method::POST || (method == Method::PUT && (is_document || !has_key)) {
            let (limit, memory) = (edge.limits.request_body_bytes, edge.memory.bodies(&signer.access_key));
            let (document, held) = read_document(&mut body, &headers, limit, &edge.limits, &memory).await?;
            extensions.insert(held);
            if is_document {
                verify_document(&document, &headers)?;
            } else if is_select(&method, &uri) {
                check_select(&document)?;
            }
        }
        extensions.insert(signer);
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

/// Takes an address apart, with what its signature covers.
pub(super) fn bare(uri: Uri, signature: Signature) -> S3Result<Bare> {
    let Some(query) = uri.query() else { return Ok(Bare { uri, ..Bare::default() }) };
    let (mut overrides, mut hoisted) = (HeaderMap::new(), HeaderMap::new());
    let may_hoist = signature == Signature::Address;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let Some((name, value)) = url::form_urlencoded::parse(pair.as_bytes()).next() else { continue };
        let lower = name.to_ascii_lowercase();
        let header = || {
            let value = HeaderValue::from_str(&value);
            value.map_err(|_| s3_error!(InvalidArgument, "{} holds what no header can", name))
        };
        let is_own = PARAMETERS.contains(&name.as_ref()) || VERSION_4.contains(&lower.as_str());
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
fn check_select(document: &[u8]) -> S3Result<()> {
    match SelectObjectContentRequest::deserialize(&mut Deserializer::new(document)) {
        Err(DeError::MissingField) => {
            Err(s3_error!(MissingRequiredParameter, "The SelectRequest entity is missing a required parameter."))
        }
        _ => Ok(()),
    }
}

/// Reads a body of at most `limit` bytes whole, within the time for documents; it stays in `body` as well. What is drawn from
/// `memory` for it is to be kept as long as the bytes are.
pub(super) async fn read_document(
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

/// Checks the digests that a client sends with a document.
fn verify_document(document: &[u8], headers: &HeaderMap) -> S3Result<()> {
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
        let with = |text: &str| bare(text.parse().unwrap(), Signature::Address).unwrap();
        let signed =
            "X-Amz-Date=1&response-content-type=text%2Fcss&versionId=null&x-amz-meta-colour=blue&X-Amz-Signature=2";
        let Bare { uri, overrides, hoisted } = with(&format!("/b/k?{signed}&x-amz-checksum-crc32=AAAAAA%3D%3D"));
        assert_eq!(uri, "/b/k?versionId=null");
        assert_eq!(overrides[CONTENT_TYPE], "text/css");
        assert_eq!((hoisted.len(), &hoisted["x-amz-meta-colour"]), (1, &HeaderValue::from_static("blue")));
        assert_eq!(with("/b/k?X-Amz-Date=1").uri, "/b/k");
        let version_2 = "/b/k?Signature=1&X-Amz-Signature=x&x-amz-copy-source=%2Fc%2Fd";
        for signature in [Signature::AddressVersion2, Signature::Header, Signature::None] {
            let bare = bare(version_2.parse().unwrap(), signature).unwrap();
            assert!(bare.hoisted.is_empty(), "{signature:?} does not sign it");
        }
        assert_eq!(with("/b?list-type=2&prefix=a%26b").uri, "/b?list-type=2&prefix=a%26b");
        assert_eq!(with("/b").uri, "/b");
        assert!(bare("/b/k?response-expires=a%0Ab".parse().unwrap(), Signature::Address).is_err());
    }

    #[test]
    fn documents_are_told_from_objects() {
        let is = |method, text: &str| is_document(&method, &text.parse().unwrap());
        assert!(is(Method::POST, "/b?delete") && is(Method::PUT, "/b/k?tagging=") && is(Method::PUT, "/b?x=1&cors"));
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
        // s3s says of these what is wrong.
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
