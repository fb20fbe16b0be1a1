//! Signature version 2, in URLs and forms: boto3 presigns URLs with it by default.
//!
//! It covers method, path, expiration time and the parameters that select the response, about as
//! much as version 4 without the body. Parameters that it does not cover are refused. In headers,
//! where every client can use version 4, it is refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3Result, s3_error};

use super::signer::{Signer, unknown_key};
use super::signing::{hmac_sha1, is_same};
use super::version_4::does_not_match;
use crate::keys::Keyring;

/// The parameters that a signature covers.
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

const KEY: &str = "AWSAccessKeyId";
const EXPIRES: &str = "Expires";
const SIGNATURE: &str = "Signature";

/// The parameters that make up a signature.
pub(crate) const PARAMETERS: [&str; 3] = [KEY, EXPIRES, SIGNATURE];

/// Parameters of reads that need not be covered: they only select among what the signature allows.
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

/// Refuses a query (`pairs`) with a parameter that version 2 does not cover. Some SDKs repeat
/// headers in the URL: such a parameter is covered if the same header is sent.
pub(crate) fn check_covered(parts: &Parts, pairs: &[(String, String)]) -> S3Result<()> {
    let reads = [Method::GET, Method::HEAD].contains(&parts.method);
    for (number, (name, value)) in pairs.iter().enumerate() {
        let repeats = || parts.headers.get(name.as_str()).is_some_and(|header| header.as_bytes() == value.as_bytes());
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

/// Verifies the signature of a presigned URL. `bucket` is the one the host names, if any; `now_ms`
/// is in milliseconds since 1970.
pub(crate) fn verify(parts: &Parts, keyring: &Keyring, bucket: Option<&str>, now_ms: i64) -> S3Result<Signer> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_ref());
    let (Some(id), Some(expires), Some(given)) = (value(KEY), value(EXPIRES), value(SIGNATURE)) else {
        return Err(s3_error!(InvalidRequest, "the address must hold {}", PARAMETERS.join(", ")));
    };
    let until = expires.parse::<i64>().map_err(|_| s3_error!(InvalidRequest, "invalid parameter: {}", EXPIRES))?;
    if now_ms > until.saturating_mul(1000) {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    let mut covered: Vec<String> = Vec::new();
    for name in COVERED {
        match value(name) {
            Some("") => covered.push(name.to_owned()),
            Some(value) => covered.push(format!("{name}={value}")),
            None => {}
        }
    }
    let header = |name: &str| joined(&parts.headers, name);
    let (digest, kind, others) = (header("content-md5"), header("content-type"), amz_headers(&parts.headers));
    let lines =
        [parts.method.as_str().as_bytes(), digest.as_slice(), kind.as_slice(), expires.as_bytes(), others.as_slice()];
    let mut text = lines.join(&b'\n');
    text.extend(bucket.map(|bucket| format!("/{bucket}")).unwrap_or_default().bytes());
    text.extend(parts.uri.path().bytes());
    if !covered.is_empty() {
        text.extend(format!("?{}", covered.join("&")).bytes());
    }
    verify_text(keyring, id, &text, given)
}

/// Verifies that the key `access_key_id` signed `text` with the signature `given`.
pub(crate) fn verify_text(keyring: &Keyring, access_key_id: &str, text: &[u8], given: &str) -> S3Result<Signer> {
    let key = keyring.get(access_key_id).ok_or_else(unknown_key)?;
    let right = hmac_sha1(key.credentials.secret_access_key.as_bytes(), text);
    if is_same(given.as_bytes(), BASE64_STANDARD.encode(right).as_bytes()) {
        Ok(Signer::new(access_key_id))
    } else {
        Err(does_not_match())
    }
}

fn amz_headers(headers: &HeaderMap) -> Vec<u8> {
    let mut names: Vec<&str> = headers.keys().map(|name| name.as_str()).filter(|n| n.starts_with("x-amz-")).collect();
    names.sort_unstable();
    let line = |name: &str| [name.as_bytes(), b":", joined(headers, name).as_slice(), b"\n"].concat();
    names.into_iter().flat_map(line).collect()
}

/// Joins the values of the header `name` with commas. Values that are not valid text are included
/// as bytes, since a value that is left out would not be signed.
fn joined(headers: &HeaderMap, name: &str) -> Vec<u8> {
    let values = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
    values.collect::<Vec<_>>().join(&b',')
}

#[cfg(test)]
mod tests {
    use http::Request;

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
            check_covered(&request.body(()).unwrap().into_parts().0, &pairs).is_err()
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
            let verified = verify(&request.into_parts().0, &keyring, bucket, 1_175_139_619_000);
            verified.map(|signer| signer.access_key_id).map_err(|error| error.code().as_str().to_owned())
        };
        let id = Ok("AKIAIOSFODNN7EXAMPLE".to_owned());
        let signed =
            "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D";
        assert_eq!(check(signed, Some("johnsmith")), id);
        let wrong = Err("SignatureDoesNotMatch".to_owned());
        assert_eq!(check(signed, Some("another")), wrong);
        assert_eq!(check(&signed.replace("1175139620", "1175139621"), Some("johnsmith")), wrong);
        assert_eq!(check(&format!("{signed}&acl"), Some("johnsmith")), wrong);
        assert_eq!(check(&signed.replace("%3D", ""), Some("johnsmith")), wrong);
        assert_eq!(check(&signed.replace("IOSF", "AAAA"), None), Err("InvalidAccessKeyId".to_owned()));
        // Headers that nobody signed, whether they are text or not.
        for (name, value) in [("content-type", "text/html; é"), ("content-md5", "é"), ("x-amz-acl", "é")] {
            let request = Request::get(format!("/photos/puppy.jpg?{signed}")).header(name, value.as_bytes());
            let parts = request.body(()).unwrap().into_parts().0;
            let error = verify(&parts, &keyring, Some("johnsmith"), 1_175_139_619_000).unwrap_err();
            assert_eq!(error.code().as_str(), "SignatureDoesNotMatch", "{name}");
        }
        let request = Request::get(format!("/photos/puppy.jpg?{signed}")).body(()).unwrap().into_parts().0;
        let late = verify(&request, &keyring, Some("johnsmith"), 1_175_139_621_000).unwrap_err();
        assert_eq!(late.code().as_str(), "AccessDenied");
    }
}
