//! Signature version 4, in headers and in presigned URLs.
//!
//! The S3 reference specifies what is signed ("Authenticating requests: AWS Signature Version 4").
//! Two deviations serve clients that need them: values of one query parameter are signed in the
//! order they are sent, and a path with unencoded reserved characters may be signed as it is sent.

use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};

use super::chunk_chain::Chain;
use super::signer::{Signer, unknown_key};
use super::signing::{hex, hmac_sha256, is_same, sha256, unhex};
use crate::keys::Keyring;
use crate::s3::convert::attributes::epoch_seconds;

pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Characters that are percent-encoded in the text that is signed.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const ENCODED_IN_PATHS: &AsciiSet = &ENCODED.remove(b'/');

/// How a signature covers the body of its request.
pub(crate) enum Payload {
    /// Not covered: the URL was signed before there was a body.
    Presigned,
    /// Not covered, as the signed head declares.
    Unsigned,
    /// The SHA-256 of the body is signed.
    Digest([u8; 32]),
    /// The body is chunked; if `is_signed`, the signatures of its chunks continue that of the head.
    Chunks { chain: Chain, is_signed: bool },
}

/// The scope of a signature: `key/date/region/s3/aws4_request`.
#[derive(Clone, Copy)]
pub(crate) struct Credential<'a> {
    pub access_key_id: &'a str,
    pub date: &'a str,
    scope: &'a str,
    region: &'a str,
}

impl<'a> Credential<'a> {
    /// Parses `text`; `None` if it is malformed or for another service than S3.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (access_key_id, scope) = text.split_once('/')?;
        let mut parts = scope.split('/');
        let (date, region) = (parts.next()?, parts.next()?);
        let rest: [Option<&str>; 3] = [parts.next(), parts.next(), parts.next()];
        let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
        let is_of_s3 = rest == [Some("s3"), Some("aws4_request"), None];
        (is_date && is_of_s3).then_some(Self { access_key_id, date, scope, region })
    }

    /// The key that signatures in this scope are computed with.
    pub fn signing_key(&self, keyring: &Keyring) -> S3Result<[u8; 32]> {
        let key = keyring.get(self.access_key_id).ok_or_else(unknown_key)?;
        let secret = format!("AWS4{}", key.credentials.secret_access_key);
        let dated = hmac_sha256(secret.as_bytes(), self.date.as_bytes());
        let parts = [self.region, "s3", "aws4_request"];
        Ok(parts.iter().fold(dated, |key, part| hmac_sha256(&key, part.as_bytes())))
    }
}

/// The time of a signature, as `x-amz-date` writes it.
pub(crate) struct SignedTime<'a> {
    text: &'a str,
    /// In milliseconds since 1970.
    ms: i64,
}

impl<'a> SignedTime<'a> {
    /// Parses `20260101T000000Z`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let digits = |range: std::ops::Range<usize>| {
            text.get(range).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let (year, month, day) = (digits(0..4)?, digits(4..6)?, digits(6..8)?);
        let (hour, minute, second) = (digits(9..11)?, digits(11..13)?, digits(13..15)?);
        if text.len() != 16 || text.get(8..9) != Some("T") || text.get(15..) != Some("Z") {
            return None;
        }
        let time = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
        let time = Timestamp::parse(TimestampFormat::DateTime, &time).ok()?;
        Some(Self { text, ms: epoch_seconds(&time)?.checked_mul(1000)? })
    }

    /// Refuses a `credential` whose scope is of another day.
    pub fn check_scope(&self, credential: &Credential<'_>) -> S3Result<()> {
        if self.text.get(..8) == Some(credential.date) {
            return Ok(());
        }
        Err(s3_error!(SignatureDoesNotMatch, "credential scope date does not match x-amz-date"))
    }
}

/// Refuses a time that is more than `skew` away from `now_ms`.
pub(crate) fn check_skew(time: &SignedTime<'_>, now_ms: i64, skew: Duration) -> S3Result<()> {
    if u128::from(time.ms.abs_diff(now_ms)) > skew.as_millis() {
        return Err(s3_error!(RequestTimeTooSkewed, "request time is too far from server time"));
    }
    Ok(())
}

/// The fields of an `Authorization` header.
pub(crate) struct Authorization<'a> {
    credential: &'a str,
    pub signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    /// Parses a header of version 4; `None` if it is malformed.
    pub fn parse(header: &'a str) -> Option<Self> {
        let fields = header.trim().strip_prefix(ALGORITHM)?.strip_prefix([' ', '\t'])?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in fields.split(',') {
            let (name, value) = field.trim().split_once('=')?;
            let known = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return None,
            };
            if known.replace(value).is_some() {
                return None;
            }
        }
        Some(Self { credential: credential?, signed_headers: signed_headers?, signature: signature? })
    }
}

/// Verifies the signature in the headers of a request for `path`, which is percent-decoded.
/// `now_ms` is in milliseconds since 1970; the clock of the client may differ by `skew`.
pub(crate) fn verify_header(
    parts: &Parts,
    path: &str,
    keyring: &Keyring,
    (now_ms, skew): (i64, Duration),
) -> S3Result<(Signer, Payload)> {
    let invalid = |name: &str| s3_error!(InvalidRequest, "invalid header: {}", name);
    let authorization = single(&parts.headers, AUTHORIZATION.as_str()).and_then(Authorization::parse);
    let authorization = authorization.ok_or_else(|| invalid("authorization"))?;
    let credential = Credential::parse(authorization.credential).ok_or_else(|| invalid("authorization"))?;
    let time = single(&parts.headers, "x-amz-date");
    let time = time.ok_or_else(|| s3_error!(InvalidRequest, "missing header: x-amz-date"))?;
    let time = SignedTime::parse(time).ok_or_else(|| invalid("x-amz-date"))?;
    time.check_scope(&credential)?;
    check_skew(&time, now_ms, skew)?;
    let digest = single(&parts.headers, CONTENT_SHA256);
    let digest = digest.ok_or_else(|| s3_error!(InvalidRequest, "missing header: {}", CONTENT_SHA256))?;
    let covers = Covers::parse(digest)?;
    let key = credential.signing_key(keyring)?;
    let text = CanonicalRequest { parts, path, signed_headers: authorization.signed_headers, payload: digest };
    text.verify(&key, &credential, &time, authorization.signature)?;
    let payload = match covers {
        Covers::Nothing => Payload::Unsigned,
        Covers::Digest(digest) => Payload::Digest(digest),
        Covers::Chunks { is_signed } => {
            let chain = Chain::new(key, time.text, credential.scope, authorization.signature);
            Payload::Chunks { chain, is_signed }
        }
    };
    Ok((Signer::new(credential.access_key_id), payload))
}

/// Verifies the signature of a presigned URL. The parameters are those of [`verify_header`].
pub(crate) fn verify_presigned(
    parts: &Parts,
    path: &str,
    keyring: &Keyring,
    (now_ms, skew): (i64, Duration),
) -> S3Result<(Signer, Payload)> {
    let pairs = query_pairs(parts);
    let value = |name: &str| pairs.iter().find(|pair| pair.0 == name).map_or("", |pair| pair.1.as_str());
    let malformed = |name: &str| s3_error!(AuthorizationQueryParametersError, "the parameter {} is malformed", name);
    if value("X-Amz-Algorithm") != ALGORITHM {
        return Err(s3_error!(NotImplemented, "X-Amz-Algorithm other than {} is not implemented", ALGORITHM));
    }
    let credential = Credential::parse(value("X-Amz-Credential")).ok_or_else(|| malformed("X-Amz-Credential"))?;
    let time = SignedTime::parse(value("X-Amz-Date")).ok_or_else(|| malformed("X-Amz-Date"))?;
    let expires: u32 = value("X-Amz-Expires").parse().map_err(|_| malformed("X-Amz-Expires"))?;
    time.check_scope(&credential)?;
    let payload = match single(&parts.headers, CONTENT_SHA256).map(Covers::parse).transpose()? {
        Some(Covers::Digest(digest)) => Payload::Digest(digest),
        Some(Covers::Chunks { .. }) => {
            return Err(s3_error!(NotImplemented, "streaming payload for presigned URLs is not implemented"));
        }
        Some(Covers::Nothing) | None => Payload::Presigned,
    };
    if time.ms > now_ms {
        check_skew(&time, now_ms, skew)?;
    }
    if now_ms - time.ms > i64::from(expires) * 1000 {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    let key = credential.signing_key(keyring)?;
    let signed_headers = value("X-Amz-SignedHeaders");
    let text = CanonicalRequest { parts, path, signed_headers, payload: "UNSIGNED-PAYLOAD" };
    text.verify(&key, &credential, &time, value("X-Amz-Signature"))?;
    Ok((Signer::new(credential.access_key_id), payload))
}

const CONTENT_SHA256: &str = "x-amz-content-sha256";

/// The meaning of `x-amz-content-sha256`.
#[derive(Debug, PartialEq)]
enum Covers {
    Nothing,
    Digest([u8; 32]),
    Chunks { is_signed: bool },
}

impl Covers {
    fn parse(text: &str) -> S3Result<Self> {
        match text {
            "UNSIGNED-PAYLOAD" => Ok(Self::Nothing),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Self::Chunks { is_signed: false }),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                Ok(Self::Chunks { is_signed: true })
            }
            "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" | "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER" => {
                Err(s3_error!(NotImplemented, "AWS4-ECDSA-P256-SHA256 signing method is not implemented"))
            }
            digest => unhex(digest)
                .map(Self::Digest)
                .ok_or_else(|| s3_error!(SignatureDoesNotMatch, "invalid header: {}", CONTENT_SHA256)),
        }
    }
}

/// The parts of a request that its signature covers.
struct CanonicalRequest<'a> {
    parts: &'a Parts,
    /// The percent-decoded path.
    path: &'a str,
    /// Names of headers, separated by `;`.
    signed_headers: &'a str,
    payload: &'a str,
}

impl CanonicalRequest<'_> {
    /// Compares `signature` with that of this request, in constant time.
    fn verify(&self, key: &[u8], credential: &Credential<'_>, time: &SignedTime<'_>, signature: &str) -> S3Result<()> {
        let matches = |path: &str| {
            let hash = hex(&sha256(&self.text(path)));
            let signed = format!("{ALGORITHM}\n{}\n{}\n{hash}", time.text, credential.scope);
            is_same(hex(&hmac_sha256(key, signed.as_bytes())).as_bytes(), signature.as_bytes())
        };
        let raw = self.parts.uri.path();
        let is_reserved = |byte: u8| !byte.is_ascii_alphanumeric() && !b"-_.~/%".contains(&byte);
        let encoded = utf8_percent_encode(self.path, ENCODED_IN_PATHS).to_string();
        if matches(&encoded) || (raw.bytes().any(is_reserved) && matches(raw)) {
            return Ok(());
        }
        Err(does_not_match())
    }

    /// The text of the canonical request, with `path` in the form to sign.
    fn text(&self, path: &str) -> Vec<u8> {
        let mut query: Vec<(String, String)> = query_pairs(self.parts)
            .into_iter()
            .filter(|(name, _)| name != "X-Amz-Signature")
            .map(|(name, value)| (encoded(&name), encoded(&value)))
            .collect();
        query.sort_by(|a, b| a.0.cmp(&b.0));
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut names: Vec<String> = self.signed_headers.split(';').map(str::to_ascii_lowercase).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| name != AUTHORIZATION.as_str() && self.parts.headers.contains_key(name));
        let mut text = format!("{}\n{path}\n{}\n", self.parts.method, query.join("&")).into_bytes();
        for name in &names {
            text.extend([name.as_bytes(), b":", values(&self.parts.headers, name).as_slice(), b"\n"].concat());
        }
        text.extend(format!("\n{}\n{}", names.join(";"), self.payload).bytes());
        text
    }
}

pub(crate) fn does_not_match() -> S3Error {
    s3_error!(SignatureDoesNotMatch, "the signature does not match what was sent")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn query_pairs(parts: &Parts) -> Vec<(String, String)> {
    url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
}

/// Joins the values of the header `name` with commas, and their words with single spaces. All bytes
/// are kept, valid text or not, so that values that differ are not signed alike.
fn values(headers: &HeaderMap, name: &str) -> Vec<u8> {
    let words = |value: &HeaderValue| {
        let words = value.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(&b' ')
    };
    headers.get_all(name).iter().map(words).collect::<Vec<_>>().join(&b',')
}

/// The value of a header that occurs exactly once and is valid UTF-8.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => std::str::from_utf8(value.as_bytes()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::Credentials;

    /// The time of the examples, 2013-05-24, in milliseconds since 1970.
    const NOW_MS: i64 = 1_369_353_600_000;
    const SKEW: Duration = Duration::from_secs(900);
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn keyring() -> Keyring {
        Keyring::one(Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        })
    }

    fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri(target);
        let request = request.header("host", "examplebucket.s3.amazonaws.com");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    /// The head of a request that is signed in its headers.
    fn signed(method: &str, target: &str, signature: &str, headers: &[(&str, &str)]) -> Parts {
        let names = headers.iter().map(|(name, _)| *name).chain(["host", "x-amz-content-sha256", "x-amz-date"]);
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={},Signature={signature}",
            names.join(";")
        );
        let mut parts = parts(method, target, headers);
        parts.headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        parts.headers.insert("x-amz-date", "20130524T000000Z".parse().unwrap());
        if !parts.headers.contains_key(CONTENT_SHA256) {
            parts.headers.insert(CONTENT_SHA256, EMPTY.parse().unwrap());
        }
        parts
    }

    fn code(verified: S3Result<(Signer, Payload)>) -> Result<String, String> {
        let id = verified.map(|(signer, _)| signer.access_key_id);
        id.map_err(|error| error.code().as_str().to_owned())
    }

    fn check(parts: &Parts, now_ms: i64) -> Result<String, String> {
        let path = crate::s3::http::host::decoded_path(&parts.uri).unwrap();
        code(match parts.headers.contains_key(AUTHORIZATION) {
            true => verify_header(parts, &path, &keyring(), (now_ms, SKEW)),
            false => verify_presigned(parts, &path, &keyring(), (now_ms, SKEW)),
        })
    }

    const GET: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn the_examples_of_the_reference_are_verified() {
        let id = Ok("AKIAIOSFODNN7EXAMPLE".to_owned());
        let get = signed("GET", "/test.txt", GET, &[("range", "bytes=0-9")]);
        assert_eq!(check(&get, NOW_MS), id);
        let list = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert_eq!(check(&signed("GET", "/?max-keys=2&prefix=J", list, &[]), NOW_MS), id);
        let lifecycle = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        assert_eq!(check(&signed("GET", "/?lifecycle", lifecycle, &[]), NOW_MS), id);
        let mut put = signed(
            "PUT",
            "/test%24file.text",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            &[("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
        );
        let digest = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        put.headers.insert(CONTENT_SHA256, digest.parse().unwrap());
        assert_eq!(check(&put, NOW_MS), id);
        put.uri = "/test$file.text".parse().unwrap();
        assert_eq!(check(&put, NOW_MS), id, "a reserved character may be sent as it is");
    }

    #[test]
    fn what_differs_from_what_was_signed_is_refused() {
        let wrong = Err("SignatureDoesNotMatch".to_owned());
        let get = |target: &str, range: &str| signed("GET", target, GET, &[("range", range)]);
        assert_eq!(check(&get("/test.txt", "bytes=0-8"), NOW_MS), wrong);
        assert_eq!(check(&get("/other.txt", "bytes=0-9"), NOW_MS), wrong);
        assert_eq!(check(&get("/test.txt?acl", "bytes=0-9"), NOW_MS), wrong);
        assert_eq!(check(&signed("PUT", "/test.txt", GET, &[("range", "bytes=0-9")]), NOW_MS), wrong);
        // A header that is added to the signed ones under another spelling is signed all the same.
        let mut added = get("/test.txt", "bytes=0-9");
        let authorization = added.headers[AUTHORIZATION].to_str().unwrap().replace("range", "X-Amz-Copy-Source;range");
        added.headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        assert!(check(&added, NOW_MS).is_ok(), "a name without a header changes nothing");
        added.headers.insert("x-amz-copy-source", "/a/b".parse().unwrap());
        assert_eq!(check(&added, NOW_MS), wrong);
    }

    #[test]
    fn values_that_differ_are_signed_differently() {
        let of = |given: &[&[u8]]| {
            let name = HeaderName::from_static("x-amz-meta-a");
            let given = given.iter().map(|value| (name.clone(), HeaderValue::from_bytes(value).unwrap()));
            values(&HeaderMap::from_iter(given), name.as_str())
        };
        assert_eq!(of(&[b"  a  b\tc "]), b"a b c");
        assert_eq!(of(&[b"a", b"", b"b"]), b"a,,b");
        for other in ["\u{a0}", "\u{3000}", "\u{2028}"] {
            let value = format!("a{other}b");
            assert_eq!(of(&[value.as_bytes()]), value.as_bytes(), "only ASCII spaces are alike");
        }
        assert_ne!(of(&[b"a\xFF"]), of(&[b"a\xFE"]));
    }

    #[test]
    fn signatures_are_of_their_time_key_and_service() {
        let get = signed("GET", "/test.txt", GET, &[("range", "bytes=0-9")]);
        for (ms, within) in [(900_000, true), (-900_000, true), (900_001, false), (-900_001, false)] {
            let skewed = check(&get, NOW_MS + ms).err();
            assert_eq!(skewed, (!within).then(|| "RequestTimeTooSkewed".to_owned()), "{ms}");
        }
        let with = |from: &str, to: &str| {
            let mut parts = signed("GET", "/test.txt", GET, &[("range", "bytes=0-9")]);
            let authorization = parts.headers[AUTHORIZATION].to_str().unwrap().replace(from, to);
            parts.headers.insert(AUTHORIZATION, authorization.parse().unwrap());
            check(&parts, NOW_MS).unwrap_err()
        };
        assert_eq!(with("AKIA", "BKIA"), "InvalidAccessKeyId");
        assert_eq!(with("20130524/", "20130523/"), "SignatureDoesNotMatch");
        assert_eq!(with("us-east-1", "eu-west-1"), "SignatureDoesNotMatch");
        for (from, to) in [
            ("/s3/", "/sts/"),
            ("/aws4_request", "/aws4_request/x"),
            ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA1 "),
            ("Signature=", "Signature=x,Signature="),
            ("Signature=", "Other="),
        ] {
            assert_eq!(with(from, to), "InvalidRequest", "{to}");
        }
    }

    #[test]
    fn presigned_addresses_are_verified_until_they_expire() {
        let target = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        let at = |target: &str, ms: i64| check(&parts("GET", target, &[]), NOW_MS + ms);
        assert_eq!(at(target, 0).as_deref(), Ok("AKIAIOSFODNN7EXAMPLE"));
        assert!(at(target, 86_400_000).is_ok() && at(target, -900_000).is_ok());
        assert_eq!(at(target, 86_400_001).unwrap_err(), "AccessDenied");
        assert_eq!(at(target, -900_001).unwrap_err(), "RequestTimeTooSkewed");
        for (from, to) in [("86400", "86401"), ("test.txt", "test.csv"), ("&X-Amz-Signature", "&acl&X-Amz-Signature")] {
            assert_eq!(at(&target.replace(from, to), 0).unwrap_err(), "SignatureDoesNotMatch", "{to}");
        }
        let streamed = parts("GET", target, &[(CONTENT_SHA256, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")]);
        assert_eq!(check(&streamed, NOW_MS).unwrap_err(), "NotImplemented");
        let digest = parts("GET", target, &[(CONTENT_SHA256, EMPTY)]);
        let verified = verify_presigned(&digest, "/test.txt", &keyring(), (NOW_MS, SKEW)).unwrap();
        assert!(matches!(verified.1, Payload::Digest(_)), "a digest that is sent is checked");
    }

    #[test]
    fn times_and_scopes_are_parsed_strictly() {
        assert_eq!(SignedTime::parse("20130524T000000Z").unwrap().ms, NOW_MS);
        for wrong in
            ["", "20130524T000000", "20130532T000000Z", "2013-05-24T00:00", "+0130524T000000Z", "20130524t000000Z"]
        {
            assert!(SignedTime::parse(wrong).is_none(), "{wrong}");
        }
        assert!(Credential::parse("a/20130524/us-east-1/s3/aws4_request").is_some());
        for wrong in
            ["", "a", "a/2013/us-east-1/s3/aws4_request", "a/20130524/us-east-1/s3", "a/20130524/x/ec2/aws4_request"]
        {
            assert!(Credential::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(Covers::parse("UNSIGNED-PAYLOAD").unwrap(), Covers::Nothing);
        assert!(Covers::parse("unsigned-payload").is_err() && Covers::parse(&EMPTY.to_uppercase()).is_err());
    }
}
