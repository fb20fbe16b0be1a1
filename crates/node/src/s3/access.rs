//! Authorization of each operation, once s3s has parsed which one it is.
//!
//! For other buckets, a key with buckets of its own gets the answers of S3: no such bucket, or
//! access denied. So it can find out which names are taken, as every key can in S3.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use super::auth::grant::{Authorized, anonymous, authorize};
use super::auth::scheme::Scheme;
use super::auth::signer::Signer;
use super::op::OPERATIONS;
use super::op::handler::S3Handler;
use super::op::request::OWNER;
use crate::keys::Right;
use crate::telemetry::{RequestRecord, Target};

/// Refuses every signature: requests that reach s3s were verified, and carry none any more. s3s
/// authorizes operations only where it can look keys up.
pub(crate) struct NoSignatures;

#[async_trait]
impl S3Auth for NoSignatures {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(s3_error!(AccessDenied, "the request is signed more than once"))
    }
}

/// Admits operations that their key has the right to, and counts them.
pub(crate) struct Access(pub S3Handler);

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Self(handler) = self;
        let signer = cx.extensions_mut().get::<Signer>().cloned();
        let signer = signer.ok_or_else(anonymous)?;
        identify(cx, &signer);
        let operation = cx.s3_op().name().to_owned();
        refuse_stray(&operation, cx.uri().query().unwrap_or_default())?;
        check_expected_owner(cx.headers())?;
        // s3s skips headers that are no text, and so may see a form where none was verified.
        let is_form = cx.extensions_mut().get() == Some(&Scheme::Form);
        if is_form != (operation == "PostObject") {
            return Err(s3_error!(MethodNotAllowed, "forms are for uploads, and are signed by their fields"));
        }
        // Every key may list the buckets that it can see.
        if let Some(bucket) = cx.s3_path().get_bucket_name().map(str::to_owned) {
            let right = right_of(&operation);
            // The owner of a bucket that is created was not looked up: its grant is for nothing else.
            let creates = operation == "CreateBucket";
            let covers =
                |given: &&Authorized| given.right >= right && given.bucket == bucket && (creates || !given.creates);
            let given = cx.extensions_mut().get::<Authorized>().filter(covers).cloned();
            match given {
                // The request may have waited since it was authorized. Changes check their bucket
                // where they are committed.
                Some(given) if right == Right::Write => given.grant.check_key()?,
                Some(given) => given.grant.confirm(&*handler.store, &bucket).await?,
                None => {
                    let asked = (right, bucket.as_str());
                    let (keys, store, limits) = (&handler.keys, &*handler.store, &handler.limits);
                    let given = authorize(keys, store, limits, Some(&signer), asked, creates).await?;
                    cx.extensions_mut().insert(given);
                }
            }
        }
        // Before the body is parsed, whatever it holds.
        if !OPERATIONS.contains(&snake(&operation).as_str()) {
            return Err(s3_error!(NotImplemented, "{} is not implemented", operation));
        }
        handler.counting.request(&operation);
        Ok(())
    }
}

/// The operations that s3s takes a request for if it knows no parameter of the query.
const WITHOUT_PARAMETERS: [&str; 5] = ["PutObject", "CopyObject", "DeleteObject", "CreateBucket", "DeleteBucket"];

/// Refuses requests about a subresource that s3s does not know: it would write, or delete, the
/// whole object or bucket.
fn refuse_stray(operation: &str, query: &str) -> S3Result<()> {
    if !WITHOUT_PARAMETERS.contains(&operation) {
        return Ok(());
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    // A parameter with a value is a detail, such as x-id. Parts need both of theirs.
    let mut stray = named.filter(|(name, value)| value.is_empty() || ["uploadId", "partNumber"].contains(name));
    match stray.next() {
        Some((name, _)) => {
            Err(s3_error!(NotImplemented, "{} with the parameter '{}' is not implemented", operation, name))
        }
        None => Ok(()),
    }
}

/// Refuses requests that expect another owner of their bucket.
fn check_expected_owner(headers: &HeaderMap) -> S3Result<()> {
    let expected = ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"];
    let mut expected = expected.into_iter().filter_map(|name| headers.get(name));
    match expected.find(|owner| owner.as_bytes() != OWNER.as_bytes()) {
        Some(_) => Err(s3_error!(AccessDenied, "the buckets of this node belong to '{}'", OWNER)),
        None => Ok(()),
    }
}

/// Books operation, target and key in the record of the request.
fn identify(cx: &mut S3AccessContext<'_>, signer: &Signer) {
    let owned = |text: &str| text.to_owned();
    let target = Target {
        operation: cx.s3_op().name().to_owned(),
        bucket: cx.s3_path().get_bucket_name().map(owned),
        key: cx.s3_path().get_object_key().map(owned),
        access_key: Some(signer.access_key_id.clone()),
    };
    if let Some(record) = cx.extensions_mut().get::<Arc<RequestRecord>>() {
        record.identify(target);
    }
}

/// The name of an operation in snake case.
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

/// The right that an operation needs: S3 names those that only read by their verb.
fn right_of(operation: &str) -> Right {
    let reads = ["Get", "Head", "List", "Select"].iter().any(|verb| operation.starts_with(verb));
    if reads { Right::Read } else { Right::Write }
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
