//! The one place where the signature of a request is verified.

use http::header::HOST;
use http::request::Parts;
use s3s::S3Result;

use super::grant::anonymous;
use super::scheme::Scheme;
use super::signer::Signer;
use super::version_4::Payload;
use super::{version_2, version_4};
use crate::Limits;
use crate::keys::Keyring;
use crate::s3::http::host::Domains;
use crate::store::now_ms;

/// Verifies the signature of a request other than an upload form. `path` is percent-decoded.
pub(crate) fn verify(
    parts: &Parts,
    path: &str,
    scheme: Scheme,
    keyring: &Keyring,
    (limits, domains): (&Limits, &Domains),
) -> S3Result<(Signer, Payload)> {
    let now_ms = i64::try_from(now_ms()).unwrap_or(i64::MAX);
    let clock = (now_ms, limits.clock_skew);
    match scheme {
        Scheme::Header => version_4::verify_header(parts, path, keyring, clock),
        Scheme::Presigned => version_4::verify_presigned(parts, path, keyring, clock),
        Scheme::PresignedVersion2 => {
            let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
            let bucket = host.and_then(|host| domains.bucket(host));
            let signer = version_2::verify(parts, keyring, bucket.as_deref(), now_ms)?;
            Ok((signer, Payload::Presigned))
        }
        Scheme::Anonymous | Scheme::Form => Err(anonymous()),
    }
}
