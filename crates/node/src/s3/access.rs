//! Who may do what: signed requests, as far as the rights of their key go; anonymous ones nothing.
//!
//! A key with buckets of its own hears of other names what S3 answers: that there is no such bucket, or that it is
//! another's. So it can find out which names are taken, as everyone can in S3.
//!
//! Signatures of version 2 in headers are refused before they are compared: they do not bind the body. Two
//! kinds that end by themselves are accepted: signed addresses (`version_2`), and upload forms, where the
//! signature covers a policy that says what may be uploaded until when.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, Request};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::{S3Error, S3Result, s3_error};

use super::OPERATIONS;
use super::op::OWNER;
use crate::counters::Counting;
use crate::keyring::{Key, KeysInUse, Right};
use crate::record::{RequestRecord, Target};
use crate::store::Store;

/// Knows the secrets of the keys.
pub(super) struct Keys(pub KeysInUse);

#[async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.now().get(access_key) {
            Some(key) => Ok(SecretKey::from(key.credentials.secret_access_key.as_str())),
            None => Err(s3_error!(InvalidAccessKeyId, "the access key does not exist on this node")),
        }
    }
}

/// Lets requests in that their key has the right to make, and counts them.
pub(super) struct Access {
    pub keys: KeysInUse,
    pub store: Arc<dyn Store>,
    pub counting: Arc<Counting>,
}

impl Access {
    fn has_own(&self, signer: Option<&Credentials>) -> bool {
        signer.is_some_and(|signer| self.keys.now().get(&signer.access_key).is_some_and(Key::has_own))
    }
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let signer = cx.credentials().cloned().or_else(|| cx.extensions_mut().get().cloned());
        identify(cx, signer.as_ref());
        let operation = cx.s3_op().name();
        refuse_stray(operation, cx.uri().query().unwrap_or_default())?;
        expect_owner(cx.headers())?;
        // Every key may ask which buckets it can see.
        if let Some(bucket) = cx.s3_path().get_bucket_name() {
            // Whose bucket it would be is decided where it is made.
            if !(operation == "CreateBucket" && self.has_own(signer.as_ref())) {
                permit(&self.keys, &*self.store, signer.as_ref(), right_of(operation), bucket).await?;
            }
        } else if signer.is_none() {
            return Err(anonymous());
        }
        // Before the body is parsed: whatever it says, the answer is the same.
        if !OPERATIONS.contains(&snake(operation).as_str()) {
            return Err(s3_error!(NotImplemented, "{} is not implemented", operation));
        }
        self.counting.request(operation);
        Ok(())
    }
}

/// What s3s takes a request for if it knows no parameter of its query.
const WITHOUT_PARAMETERS: [&str; 5] = ["PutObject", "CopyObject", "DeleteObject", "CreateBucket", "DeleteBucket"];

/// Refuses requests about a part of an object or a bucket that s3s does not know: it would write, or remove, the whole.
fn refuse_stray(operation: &str, query: &str) -> S3Result<()> {
    if !WITHOUT_PARAMETERS.contains(&operation) {
        return Ok(());
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    // What has a value is a detail, as x-id is. Of uploads both are needed.
    let mut stray = named.filter(|(name, value)| value.is_empty() || ["uploadId", "partNumber"].contains(name));
    match stray.next() {
        Some((name, _)) => {
            Err(s3_error!(NotImplemented, "{} with the parameter '{}' is not implemented", operation, name))
        }
        None => Ok(()),
    }
}

/// Refuses requests that expect their bucket to be another's.
fn expect_owner(headers: &HeaderMap) -> S3Result<()> {
    let expected = ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"];
    let mut expected = expected.into_iter().filter_map(|name| headers.get(name));
    match expected.find(|owner| owner.as_bytes() != OWNER.as_bytes()) {
        Some(_) => Err(s3_error!(AccessDenied, "the buckets of this node belong to '{}'", OWNER)),
        None => Ok(()),
    }
}

/// Tells the record of the request what it is about, whether it is let in or not.
fn identify(cx: &mut S3AccessContext<'_>, signer: Option<&Credentials>) {
    let owned = |text: &str| text.to_owned();
    let target = Target {
        operation: cx.s3_op().name().to_owned(),
        bucket: cx.s3_path().get_bucket_name().map(owned),
        key: cx.s3_path().get_object_key().map(owned),
        access_key: signer.map(|signer| signer.access_key.clone()),
    };
    if let Some(record) = cx.extensions_mut().get::<Arc<RequestRecord>>() {
        record.identify(target);
    }
}

/// Whether the signer has this right on the bucket.
pub(super) async fn permit(
    keys: &KeysInUse,
    store: &dyn Store,
    signer: Option<&Credentials>,
    right: Right,
    bucket: &str,
) -> S3Result<()> {
    let id = signer.ok_or_else(anonymous)?.access_key.as_str();
    let keys = keys.now();
    let key = keys.get(id);
    if key.is_some_and(|key| key.may(right, bucket)) {
        return Ok(());
    }
    if key.is_some_and(Key::has_own) {
        match store.bucket(bucket).await {
            Ok(found) if found.settings.owner.as_deref() == Some(id) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let verb = if right == Right::Read { "read" } else { "change" };
    Err(s3_error!(AccessDenied, "this access key may not {} the bucket '{}'", verb, bucket))
}

fn anonymous() -> S3Error {
    s3_error!(AccessDenied, "requests must be signed; anonymous access is not allowed")
}

/// The name of an operation as Rust writes it: an underscore before every word.
fn snake(operation: &str) -> String {
    let mut name = String::with_capacity(operation.len() + 8);
    for letter in operation.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// S3 names what only reads by its verb.
fn right_of(operation: &str) -> Right {
    let reads = ["Get", "Head", "List", "Select"].iter().any(|verb| operation.starts_with(verb));
    if reads { Right::Read } else { Right::Write }
}

/// How long the signature of an address may be valid, in seconds: 7 days, as in S3.
pub(super) const PRESIGNED_SECONDS: u64 = 7 * 24 * 3600;

/// Refuses what s3s would accept: signatures of version 2 in headers, and addresses that are signed for longer
/// than S3 allows.
pub(super) fn refuse_early<B>(request: &Request<B>) -> S3Result<()> {
    if request.headers().get("authorization").is_some_and(|value| value.as_bytes().starts_with(b"AWS ")) {
        return Err(s3_error!(AccessDenied, "signature version 2 is not accepted; sign with version 4"));
    }
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let expires = pairs.into_iter().find_map(|pair| pair.strip_prefix("X-Amz-Expires="));
    if expires.is_some_and(|seconds| seconds.parse::<i64>().is_ok_and(|seconds| seconds <= 0)) {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    if expires.is_some_and(|seconds| !seconds.parse().is_ok_and(|seconds| (1..=PRESIGNED_SECONDS).contains(&seconds))) {
        let message = "X-Amz-Expires must be between 1 and 604800 seconds";
        return Err(s3_error!(AuthorizationQueryParametersError, "{}", message));
    }
    refuse_unsigned(request)
}

/// Refuses headers of S3 that a signature of version 4 does not cover: whoever has a signed address could add a copy's source,
/// which is read with the rights of the signer. (One of version 2 covers all of them.)
fn refuse_unsigned<B>(request: &Request<B>) -> S3Result<()> {
    let Some(signed) = signed_headers(request) else { return Ok(()) };
    let is_signed = |name: &str| signed.split(';').any(|signed| signed.eq_ignore_ascii_case(name));
    // These two are in what is signed, whether they are named or not.
    let is_bound = |name: &str| ["x-amz-content-sha256", "x-amz-date"].contains(&name);
    let names = request.headers().keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
    match names.into_iter().find(|name| !is_bound(name) && !is_signed(name)) {
        Some(name) => {
            Err(s3_error!(AccessDenied, "There were headers present in the request which were not signed: {}", name))
        }
        None => Ok(()),
    }
}

/// The names of the headers that a signature of version 4 covers.
fn signed_headers<B>(request: &Request<B>) -> Option<String> {
    let of_header = || {
        let fields = request.headers().get("authorization")?.to_str().ok()?.strip_prefix("AWS4-")?.split([' ', ',']);
        fields.into_iter().find_map(|field| field.trim().strip_prefix("SignedHeaders=")).map(str::to_owned)
    };
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "X-Amz-SignedHeaders").map(|(_, names)| names.into_owned()).or_else(of_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_change_need_the_right_to() {
        for (operation, right) in [
            ("GetObject", Right::Read),
            ("HeadBucket", Right::Read),
            ("ListObjectsV2", Right::Read),
            ("SelectObjectContent", Right::Read),
            ("PutObject", Right::Write),
            ("DeleteObjects", Right::Write),
            ("CreateMultipartUpload", Right::Write),
            ("AbortMultipartUpload", Right::Write),
            ("WriteGetObjectResponse", Right::Write),
        ] {
            assert_eq!(right_of(operation), right, "{operation}");
        }
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        let refused = |address: &str, headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(Request::builder().uri(address), |r, (name, value)| r.header(*name, *value));
            refuse_early(&request.body(()).unwrap()).is_err()
        };
        let (copy, owner) = (("x-amz-copy-source", "/a/b"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"));
        assert!(refused("/b/k?X-Amz-SignedHeaders=host&X-Amz-Signature=1", &[copy]));
        assert!(!refused("/b/k?X-Amz-SignedHeaders=host%3Bx-amz-copy-source", &[copy, owner]));
        let by_header = |names: &str| format!("AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders={names}, Signature=c");
        assert!(refused("/b/k", &[("authorization", &by_header("host;x-amz-date")), copy]));
        assert!(!refused("/b/k", &[("authorization", &by_header("host;x-amz-copy-source;x-amz-date")), copy]));
        assert!(!refused("/b/k", &[copy]), "not signed at all, which others refuse");
    }

    #[test]
    fn parts_that_are_not_known_are_not_taken_for_the_whole() {
        let refused = |operation, query| refuse_stray(operation, query).is_err();
        for query in ["encryption", "renameObject=", "x-id=PutObject&acl", "uploadId=7", "partNumber=1"] {
            assert!(refused("PutObject", query), "{query}");
        }
        assert!(refused("DeleteBucket", "metadataConfiguration") && refused("DeleteObject", "acl"));
        assert!(!refused("PutObject", "x-id=PutObject") && !refused("DeleteObject", "versionId=null"));
        assert!(!refused("PutObject", "") && !refused("UploadPart", "partNumber=1&uploadId=7"));
    }

    #[test]
    fn every_name_is_found() {
        for name in ["ListObjectsV2", "GetObject", "SelectObjectContent", "GetPublicAccessBlock", "PutBucketCors"] {
            assert!(OPERATIONS.contains(&snake(name).as_str()), "{name}");
        }
        assert!(!OPERATIONS.contains(&snake("PutBucketVersioning").as_str()));
    }
}
