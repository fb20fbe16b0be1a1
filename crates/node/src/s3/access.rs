//! Authorization of each operation, after s3s has determined which operation a request is.
//!
//! On buckets of other keys, a key with `own` gets the errors of S3: NoSuchBucket or AccessDenied. So
//! it can find out which names are taken, as every key can in S3.

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

/// Refuses every signature in s3s: signatures are verified and removed before a request reaches
/// s3s. s3s calls [`S3Access`] only if it has an [`S3Auth`].
pub(crate) struct NoSignatures;

#[async_trait]
impl S3Auth for NoSignatures {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(s3_error!(AccessDenied, "the request is signed more than once"))
    }
}

/// Authorizes operations by the rights of the key that signed them, and counts them.
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
        // s3s ignores headers that are not valid text, so it may see an upload form in a request
        // that was not verified as one.
        let is_form = cx.extensions_mut().get() == Some(&Scheme::Form);
        if is_form != (operation == "PostObject") {
            return Err(s3_error!(MethodNotAllowed, "forms are for uploads, and are signed by their fields"));
        }
        // ListBuckets needs no right: every key may list the buckets that it can see.
        if let Some(bucket) = cx.s3_path().get_bucket_name().map(str::to_owned) {
            let right = right_of(&operation);
            // A grant to create a bucket is valid for CreateBucket only, since the owner of an
            // existing bucket of that name was not checked.
            let creates = operation == "CreateBucket";
            let covers =
                |given: &&Authorized| given.right >= right && given.bucket == bucket && (creates || !given.creates);
            let given = cx.extensions_mut().get::<Authorized>().filter(covers).cloned();
            match given {
                // Checks again, since the request may have waited since it was authorized. For
                // writes, the store checks the bucket when it commits them.
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
        // Refuses unimplemented operations before their body is parsed.
        if !OPERATIONS.contains(&snake(&operation).as_str()) {
            return Err(s3_error!(NotImplemented, "{} is not implemented", operation));
        }
        handler.counting.request(&operation);
        Ok(())
    }
}

/// The operations that s3s assumes if it does not know the parameters of a query.
const WITHOUT_PARAMETERS: [&str; 5] = ["PutObject", "CopyObject", "DeleteObject", "CreateBucket", "DeleteBucket"];

/// Refuses requests about a subresource that s3s does not know: s3s would write or delete the whole
/// object or bucket instead.
fn refuse_stray(operation: &str, query: &str) -> S3Result<()> {
    if !WITHOUT_PARAMETERS.contains(&operation) {
        return Ok(());
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    // A parameter with a value, such as `x-id`, does not name a subresource. Parts are an
    // exception: s3s recognizes them only by both of their parameters.
    let mut stray = named.filter(|(name, value)| value.is_empty() || ["uploadId", "partNumber"].contains(name));
    match stray.next() {
        Some((name, _)) => {
            Err(s3_error!(NotImplemented, "{} with the parameter '{}' is not implemented", operation, name))
        }
        None => Ok(()),
    }
}

/// Refuses requests that expect their bucket to have another owner.
fn check_expected_owner(headers: &HeaderMap) -> S3Result<()> {
    let expected = ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"];
    let mut expected = expected.into_iter().filter_map(|name| headers.get(name));
    match expected.find(|owner| owner.as_bytes() != OWNER.as_bytes()) {
        Some(_) => Err(s3_error!(AccessDenied, "the buckets of this node belong to '{}'", OWNER)),
        None => Ok(()),
    }
}

/// Records the operation, the target and the access key in the record of the request.
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

/// The right that an operation needs. Operations that only read are recognized by the verb in their
/// name.
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
