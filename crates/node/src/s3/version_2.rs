//! Signatures of version 2, on addresses, as boto3 still makes them unless it is told otherwise, and on forms.
//!
//! Such a signature covers method, path, time of expiry and what the answer shall look like, about as much as
//! one of version 4 that leaves the body out. s3s verifies it too, but compares it byte by byte until they
//! differ, which tells a patient attacker how far a guess was right. So it is verified here first, in constant
//! time, and s3s sees no wrong one. In headers, where clients can do better, version 2 is refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, Request};
use s3s::crypto::{Checksum as _, Sha1};
use s3s::{S3Result, s3_error};

use crate::keyring::Keyring;

/// The parameters that a signature covers, besides those that make the answer.
const COVERED: [&str; 35] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// The parameters that are the signature.
pub(super) const PARAMETERS: [&str; 3] = ["AWSAccessKeyId", "Expires", "Signature"];

/// Verifies the signature of an address, if it has one of version 2. `bucket` is the one the host names.
pub(super) fn verify<B>(request: &Request<B>, keyring: &Keyring, bucket: Option<&str>) -> S3Result<()> {
    let query = request.uri().query().unwrap_or_default();
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_ref());
    let Some(given) = value("Signature") else { return Ok(()) };
    let mut covered: Vec<String> = Vec::new();
    for name in COVERED {
        match value(name) {
            Some("") => covered.push(name.to_owned()),
            Some(value) => covered.push(format!("{name}={value}")),
            None => {}
        }
    }
    let mut text = format!("{}\n", request.method());
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    for line in [header("content-md5"), header("content-type"), value("Expires").unwrap_or_default()] {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(&amz_headers(request.headers()));
    text.extend(bucket.map(|bucket| format!("/{bucket}")));
    text.push_str(request.uri().path());
    if !covered.is_empty() {
        text.push('?');
        text.push_str(&covered.join("&"));
    }
    verify_text(keyring, value("AWSAccessKeyId").unwrap_or_default(), &text, given)
}

/// Verifies that this key signed this text.
pub(super) fn verify_text(keyring: &Keyring, access_key_id: &str, text: &str, given: &str) -> S3Result<()> {
    let key = keyring.get(access_key_id);
    let key = key.ok_or_else(|| s3_error!(InvalidAccessKeyId, "the access key does not exist on this node"))?;
    let right = BASE64_STANDARD.encode(hmac(key.credentials.secret_access_key.as_bytes(), text.as_bytes()));
    if is_same(given.as_bytes(), right.as_bytes()) {
        Ok(())
    } else {
        Err(s3_error!(SignatureDoesNotMatch, "the signature does not match what was sent"))
    }
}

fn amz_headers(headers: &HeaderMap) -> String {
    let mut names: Vec<&str> = headers.keys().map(|name| name.as_str()).filter(|n| n.starts_with("x-amz-")).collect();
    names.sort_unstable();
    let line = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::trim);
        format!("{name}:{}\n", values.collect::<Vec<_>>().join(","))
    };
    names.into_iter().map(line).collect()
}

/// HMAC with SHA-1, as RFC 2104 defines it.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 20] {
    const BLOCK: usize = 64;
    let sha1 = |parts: [&[u8]; 2]| {
        let mut hash = Sha1::new();
        parts.into_iter().for_each(|part| hash.update(part));
        hash.finalize()
    };
    let short = if key.len() > BLOCK { sha1([key, &[]]).to_vec() } else { key.to_vec() };
    let padded = |mask: u8| -> Vec<u8> {
        short.iter().copied().chain(std::iter::repeat(0)).take(BLOCK).map(|byte| byte ^ mask).collect()
    };
    sha1([&padded(0x5C), &sha1([&padded(0x36), text])])
}

/// Looks at every byte, wherever they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::super::verified::bare;
    use super::*;
    use crate::Credentials;

    #[test]
    fn the_hmac_is_that_of_rfc_2202() {
        let hex = |bytes: [u8; 20]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(hmac(b"Jefe", b"what do ya want for nothing?")), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        let long = [0xAA; 80];
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(hmac(&long, text)), "aa4ae5e15272d00e95705637ce8a3b55ed402112");
    }

    #[test]
    fn what_aws_signed_is_verified() {
        // The example of the S3 documentation.
        let keyring = Keyring::one(Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        });
        let check = |query: &str, bucket| {
            let request = Request::get(format!("/photos/puppy.jpg?{query}")).body(()).unwrap();
            verify(&request, &keyring, bucket).map_err(|error| error.code().as_str().to_owned())
        };
        let signed =
            "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D";
        assert_eq!(check(signed, Some("johnsmith")), Ok(()));
        let wrong = Err("SignatureDoesNotMatch".to_owned());
        assert_eq!(check(signed, Some("another")), wrong);
        assert_eq!(check(&signed.replace("1175139620", "1175139621"), Some("johnsmith")), wrong);
        assert_eq!(check(&format!("{signed}&acl"), Some("johnsmith")), wrong);
        assert_eq!(check(&signed.replace("%3D", ""), Some("johnsmith")), wrong);
        assert_eq!(check(&signed.replace("IOSF", "AAAA"), None), Err("InvalidAccessKeyId".to_owned()));
        assert_eq!(check("prefix=Signature", None), Ok(()));
        let uri = bare(format!("/photos/puppy.jpg?{signed}&versionId=null").parse().unwrap()).unwrap().uri;
        assert_eq!(uri, "/photos/puppy.jpg?versionId=null");
    }
}
