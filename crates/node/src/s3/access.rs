//! Who may do what: signed requests, as far as the rights of their key go; anonymous ones nothing.
//!
//! A key with buckets of its own hears of other names what S3 answers: that there is no such bucket, or that it is
//! another's. So it can find out which names are taken, as everyone can in S3.
//!
//! How a request may be signed is in [`super::authentication`], what its key may do in [`super::grant`].

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use super::OPERATIONS;
use super::grant::{Authorised, anonymous, authorise};
use super::op::OWNER;
use crate::Limits;
use crate::counters::Counting;
use crate::keyring::{KeysInUse, Right};
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
    pub limits: Limits,
    /// Requests that this service answers are upload forms, and nothing else.
    pub only_forms: bool,
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let signer = cx.credentials().cloned().or_else(|| cx.extensions_mut().get().cloned());
        identify(cx, signer.as_ref());
        let operation = &cx.s3_op().name().to_owned();
        refuse_stray(operation, cx.uri().query().unwrap_or_default())?;
        expect_owner(cx.headers())?;
        if self.only_forms && operation != "PostObject" {
            return Err(s3_error!(MethodNotAllowed, "a form is for uploads"));
        }
        let right = right_of(operation);
        // Every key may ask which buckets it can see.
        if let Some(bucket) = cx.s3_path().get_bucket_name().map(str::to_owned) {
            let covers = |given: &Authorised| given.right >= right && given.bucket == bucket;
            let given = cx.extensions_mut().get::<Authorised>().filter(|given| covers(given)).cloned();
            if let Some(given) = given {
                // The request may have waited since.
                given.grant.confirm(&*self.store, &bucket).await?;
            } else {
                let creates = operation == "CreateBucket";
                let asked = (right, bucket.as_str());
                let given = authorise(&self.keys, &*self.store, &self.limits, signer.as_ref(), asked, creates).await?;
                cx.extensions_mut().insert(given);
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
