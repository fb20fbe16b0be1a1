//! Signatures and policies of upload forms.
//!
//! The signature is over the policy, and the policy says what the other fields may hold. s3s checks
//! the rest of a policy once it has the file: its expiration, the length of the file, stray fields.

use std::time::Duration;

use s3s::post_policy::{PostPolicy, PostPolicyCondition};
use s3s::{S3Error, S3Result, s3_error};

use super::grant::anonymous;
use super::scheme::{MAX_PRESIGNED_S, version_2_is_off};
use super::signer::Signer;
use super::signing::{hex, hmac_sha256, is_same};
use super::version_2::verify_text;
use super::version_4::{ALGORITHM, Credential, SignedTime, check_skew, does_not_match};
use crate::keys::Keyring;
use crate::s3::http::form::Form;

/// Verifies the signature over the policy of `form`. Version 2 is refused unless `version_2` is
/// set.
pub(crate) fn verify(form: &Form, keyring: &Keyring, version_2: bool) -> S3Result<Signer> {
    form.require("key")?;
    let in_version_2 = form.field("AWSAccessKeyId").is_some() || form.field("signature").is_some();
    match (in_version_2, is_version_4(form)) {
        (true, true) => Err(s3_error!(InvalidArgument, "the form is signed twice")),
        (false, false) => Err(anonymous()),
        (true, false) if !version_2 => Err(version_2_is_off()),
        (true, false) => {
            let id = form.require("AWSAccessKeyId")?;
            verify_text(keyring, id, form.require("policy")?.as_bytes(), form.require("signature")?)
        }
        (false, true) => {
            let credential = credential(form)?;
            let key = credential.signing_key(keyring)?;
            let right = hex(&hmac_sha256(&key, form.require("policy")?.as_bytes()));
            if is_same(form.require("x-amz-signature")?.as_bytes(), right.as_bytes()) {
                Ok(Signer::new(credential.access_key_id))
            } else {
                Err(does_not_match())
            }
        }
    }
}

fn is_version_4(form: &Form) -> bool {
    form.field("x-amz-signature").is_some() || form.field("x-amz-credential").is_some()
}

fn credential(form: &Form) -> S3Result<Credential<'_>> {
    Credential::parse(form.require("x-amz-credential")?).ok_or_else(|| invalid("x-amz-credential"))
}

fn invalid(field: &str) -> S3Error {
    s3_error!(InvalidRequest, "invalid field: {}", field)
}

/// Checks the fields of `form`, sent to `bucket`, against its policy. `now_ms` is in milliseconds
/// since 1970.
pub(crate) fn check_policy(form: &Form, bucket: &str, now_ms: i64) -> S3Result<()> {
    let policy = PostPolicy::from_base64(form.require("policy")?);
    let policy = policy.map_err(|error| s3_error!(error, InvalidPolicyDocument, "failed to parse POST policy"))?;
    if is_version_4(form) {
        check_signed_fields(form, &policy, now_ms)?;
    }
    let mut names_bucket = false;
    for condition in &policy.conditions {
        let (field, wanted, is_prefix) = match condition {
            PostPolicyCondition::Eq { field, value } => (field, value, false),
            PostPolicyCondition::StartsWith { field, prefix } => (field, prefix, true),
            PostPolicyCondition::ContentLengthRange { .. } => continue,
        };
        let given = if field == "bucket" { Some(bucket.into()) } else { form.value(field) };
        names_bucket |= field == "bucket";
        let holds = match is_prefix {
            true => given.as_deref().unwrap_or_default().starts_with(wanted.as_str()),
            false => given.as_deref() == Some(wanted.as_str()),
        };
        if !holds {
            let kind = if is_prefix { "starts-with" } else { "eq" };
            return Err(s3_error!(
                AccessDenied,
                "Invalid according to Policy: condition '{}' for field '{}' failed: expected '{}', got '{}'",
                kind,
                field,
                wanted,
                given.as_deref().unwrap_or_default()
            ));
        }
    }
    if !names_bucket {
        return Err(s3_error!(AccessDenied, "Invalid according to Policy: it has no condition on the bucket"));
    }
    Ok(())
}

/// Checks the fields of a version 4 signature, which the policy must repeat. The expiration of the
/// policy limits how long a form may be used; in addition, the form must not be older than the
/// longest validity of a presigned URL.
fn check_signed_fields(form: &Form, policy: &PostPolicy, now_ms: i64) -> S3Result<()> {
    if form.require("x-amz-algorithm")? != ALGORITHM {
        return Err(s3_error!(NotImplemented, "x-amz-algorithm other than {} is not implemented", ALGORITHM));
    }
    for name in ["x-amz-date", "x-amz-credential", "x-amz-algorithm"] {
        let in_policy = policy.conditions.iter().find_map(|condition| match condition {
            PostPolicyCondition::Eq { field, value } if field == name => Some(value.as_str()),
            _ => None,
        });
        if in_policy != Some(form.require(name)?) {
            return Err(s3_error!(InvalidPolicyDocument, "{} does not match policy", name));
        }
    }
    let time = SignedTime::parse(form.require("x-amz-date")?).ok_or_else(|| invalid("x-amz-date"))?;
    time.check_scope(&credential(form)?)?;
    check_skew(&time, now_ms, Duration::from_secs(MAX_PRESIGNED_S))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    #[test]
    fn forms_are_signed_once() {
        let credentials = Credentials { access_key_id: "a".into(), secret_access_key: "12345678".into() };
        let keyring = Keyring::one(credentials);
        let verify = |fields: &[(&str, &str)]| {
            let verified = verify(&Form::of(fields), &keyring, true);
            verified.map(|signer| signer.access_key_id).map_err(|error| error.code().as_str().to_owned())
        };
        let (key, policy) = (("key", "k"), ("policy", "e30="));
        let credential = ("x-amz-credential", "a/20260101/us-east-1/s3/aws4_request");
        let key_of = Credential::parse(credential.1).unwrap().signing_key(&keyring).unwrap();
        let right = hex(&hmac_sha256(&key_of, b"e30="));
        let signature = ("x-amz-signature", right.as_str());
        assert_eq!(verify(&[key, policy, credential, signature]).as_deref(), Ok("a"));
        for (fields, code) in [
            (&[policy, credential, signature][..], "InvalidArgument"),
            (&[key, policy][..], "AccessDenied"),
            (&[key, policy, credential][..], "InvalidArgument"),
            (&[key, ("policy", "e30"), credential, signature][..], "SignatureDoesNotMatch"),
            (&[key, policy, credential, signature, ("AWSAccessKeyId", "a")][..], "InvalidArgument"),
            (&[key, policy, ("AWSAccessKeyId", "a"), ("signature", "x")][..], "SignatureDoesNotMatch"),
            (
                &[key, policy, ("x-amz-credential", "b/20260101/us-east-1/s3/aws4_request"), signature][..],
                "InvalidAccessKeyId",
            ),
            (
                &[key, policy, ("x-amz-credential", "a/20260101/us-east-1/sts/aws4_request"), signature][..],
                "InvalidRequest",
            ),
        ] {
            assert_eq!(verify(fields), Err(code.to_owned()), "{fields:?}");
        }
    }
}
