//! Signatures of version 2, on addresses, as boto3 still makes them unless it is told otherwise, and on forms.
//!
//! Such a signature covers method, path, time of expiry and what the answer shall look like, about as much as
//! one of version 4 that leaves the body out: parameters that it does not cover are refused. s3s verifies it too, but compares it byte by byte until they
//! differ, which tells a patient attacker how far a guess was right. So it is verified here first, in constant
//! time, and s3s sees no wrong one. In headers, where clients can do better, version 2 is refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, Method, Request};
use s3s::{S3Result, s3_error};

use super::signing::{hmac_sha1, is_same};
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

/// Parameters of requests that read. A signature does not cover them, and they only choose among what it allows.
const OF_READS: [&str; 15] = [
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "prefix",
    "start-after",
    "upload-id-marker",
    "version-id-marker",
];

/// Refuses a request with a parameter that a signature of version 2 does not cover. Some SDKs repeat headers in the address:
/// as those they are covered, so the same header must be there.
pub(super) fn check_covered<B>(request: &Request<B>, pairs: &[(String, String)]) -> S3Result<()> {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    for (number, (name, value)) in pairs.iter().enumerate() {
        let repeats =
            || request.headers().get(name.as_str()).is_some_and(|header| header.as_bytes() == value.as_bytes());
        let is_header = name.starts_with("x-amz-") || ["content-md5", "content-type"].contains(&name.as_str());
        let covered = PARAMETERS.contains(&name.as_str())
            || COVERED.contains(&name.as_str())
            || (reads && OF_READS.contains(&name.as_str()))
            || name == "x-id"
            || (is_header && repeats());
        if !covered {
            return Err(s3_error!(AccessDenied, "a signature of version 2 does not cover the parameter: {}", name));
        }
        if pairs.iter().take(number).any(|(other, _)| other == name) {
            return Err(s3_error!(InvalidArgument, "the parameter is there twice: {}", name));
        }
    }
    Ok(())
}

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
    let right = BASE64_STANDARD.encode(hmac_sha1(key.credentials.secret_access_key.as_bytes(), text.as_bytes()));
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

#[cfg(test)]
mod tests {
    use super::super::authentication::Signature;
    use super::super::verified::bare;
    use super::*;
    use crate::Credentials;

    #[test]
    fn parameters_that_are_not_covered_are_refused() {
        let refused = |method: &str, query: &str, header: Option<(&str, &str)>| {
            let uri = format!("/b/k?AWSAccessKeyId=a&Signature=b&Expires=1&{query}");
            let pairs: Vec<_> =
                url::form_urlencoded::parse(uri.split_once('?').unwrap().1.as_bytes()).into_owned().collect();
            let request = Request::builder().method(method).uri(&uri);
            let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
            check_covered(&request.body(()).unwrap(), &pairs).is_err()
        };
        for query in [
            "ownershipControls",
            "publicAccessBlock",
            "attributes",
            "pushdowndb-fragment",
            "renameObject",
            "x-amz-copy-source=%2Fc%2Fd",
            "x-amz-meta-a=b",
            "acl&acl",
            "Expires=2",
        ] {
            assert!(refused("PUT", query, None), "{query}");
        }
        assert!(refused("PUT", "prefix=a", None) && !refused("GET", "prefix=a", None));
        assert!(!refused("PUT", "uploadId=1&partNumber=1&x-id=UploadPart", None));
        assert!(!refused("PUT", "x-amz-meta-a=b", Some(("x-amz-meta-a", "b"))));
        assert!(refused("PUT", "x-amz-meta-a=b", Some(("x-amz-meta-a", "c"))));
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
        let uri = format!("/photos/puppy.jpg?{signed}&versionId=null").parse().unwrap();
        let uri = bare(uri, Signature::AddressVersion2).unwrap().uri;
        assert_eq!(uri, "/photos/puppy.jpg?versionId=null");
    }
}
