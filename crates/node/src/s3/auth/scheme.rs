//! The kind of signature that a request carries, decided from its head.
//!
//! The kind determines which parts of the request are covered, and so which headers the URL may
//! contain and which may stay unsigned. A request with two signatures is refused: another parser
//! might verify one of them and obey the other.
//!
//! | kind | covers |
//! | --- | --- |
//! | version 4 in headers | method, path, query, signed headers; the body if its digest is signed |
//! | version 4 in the address | method, path, query, signed headers |
//! | version 2 in the address | method, path, expiry, `x-amz-*` headers, some parameters |
//! | form | the policy of the fields |

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use s3s::{S3Error, S3Result, s3_error};

use super::version_2;
use super::version_4::Authorization;

/// A way to sign requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scheme {
    Anonymous,
    /// Version 4 in headers.
    Header,
    /// Version 4 in the query of the URL.
    Presigned,
    /// Version 2 in the query of the URL.
    PresignedVersion2,
    /// An upload form, signed by its fields.
    Form,
}

/// The longest validity of a presigned URL, in seconds: 7 days, as in S3.
pub(crate) const MAX_PRESIGNED_S: u64 = 7 * 24 * 3600;

/// The query parameters of a version 4 signature, all of which it covers except `x-amz-signature`.
pub(crate) const PARAMETERS: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// The query parameters that mark a URL as signed with version 4.
const MARKS: [&str; 3] = ["x-amz-algorithm", "x-amz-credential", "x-amz-signature"];

impl Scheme {
    /// The scheme of a request. Version 2 is refused unless `version_2` is set.
    pub fn of(parts: &Parts, version_2: bool) -> S3Result<Self> {
        let query = parts.uri.query().unwrap_or_default();
        // Decodes the query as the verification does, since a name may be percent-encoded.
        let pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let names =
            |wanted: &[&str]| pairs.iter().any(|(name, _)| wanted.contains(&name.to_ascii_lowercase().as_str()));
        let in_header = parts.headers.contains_key(AUTHORIZATION);
        let in_address = names(&MARKS);
        let in_version_2 = pairs.iter().any(|(name, _)| version_2::PARAMETERS.contains(&name.as_str()));
        let form = is_form(&parts.method, &parts.headers);
        match (in_header, in_address, in_version_2) {
            (false, false, false) if form => Ok(Self::Form),
            (false, false, false) => Ok(Self::Anonymous),
            _ if form => Err(several()),
            (true, false, false) => check_header(&parts.headers).map(|()| Self::Header),
            (false, true, false) => check_presigned(&parts.headers, &pairs).map(|()| Self::Presigned),
            (false, false, true) if !version_2 => Err(version_2_is_off()),
            (false, false, true) => version_2::check_covered(parts, &pairs).map(|()| Self::PresignedVersion2),
            _ => Err(several()),
        }
    }
}

fn several() -> S3Error {
    s3_error!(
        InvalidArgument,
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the \
         Authorization header should be specified"
    )
}

/// The error for signatures of version 2 where they are turned off.
pub(crate) fn version_2_is_off() -> S3Error {
    s3_error!(AccessDenied, "this node does not accept signature version 2; sign with version 4")
}

/// Whether s3s would treat a request as an upload form.
pub(crate) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().ok().and_then(|kind| kind.parse::<mime::Mime>().ok());
    let form = |kind: mime::Mime| kind.type_() == mime::MULTIPART && kind.subtype() == mime::FORM_DATA;
    method == Method::POST && kind.is_some_and(form)
}

fn check_header(headers: &HeaderMap) -> S3Result<()> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(several()) };
    let value = value.to_str().unwrap_or_default();
    if value.starts_with("AWS ") {
        return Err(s3_error!(AccessDenied, "signature version 2 is not accepted in headers; sign with version 4"));
    }
    if value.starts_with("AWS4-") && !value.contains("/s3/aws4_request") {
        return Err(s3_error!(AuthorizationHeaderMalformed, "the credential is for another service than s3"));
    }
    let authorization = Authorization::parse(value);
    let authorization = authorization.ok_or_else(|| s3_error!(InvalidRequest, "invalid header: authorization"))?;
    check_signed_headers(headers, authorization.signed_headers)
}

fn check_presigned(headers: &HeaderMap, pairs: &[(String, String)]) -> S3Result<()> {
    let malformed = |message: &str| s3_error!(AuthorizationQueryParametersError, "{}", message);
    let value = |wanted: &str| -> S3Result<&str> {
        let mut values = pairs.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        match (values.next(), values.next()) {
            (Some((name, value)), None) if name == wanted => Ok(value),
            _ => Err(malformed(&format!("the address must hold {wanted} exactly once"))),
        }
    };
    for name in ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Signature"] {
        value(name)?;
    }
    let expires = value("X-Amz-Expires")?.parse::<i64>();
    if expires.as_ref().is_ok_and(|seconds| *seconds <= 0) {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    if !expires.is_ok_and(|seconds| u64::try_from(seconds).is_ok_and(|seconds| seconds <= MAX_PRESIGNED_S)) {
        return Err(malformed("X-Amz-Expires must be between 1 and 604800 seconds"));
    }
    check_signed_headers(headers, value("X-Amz-SignedHeaders")?)
}

/// Refuses `x-amz-*` headers that are not among the `signed` ones: otherwise the holder of a
/// presigned URL could add the source of a copy, which would be read with the rights of the signer.
/// The host must be signed, since it may name the bucket.
fn check_signed_headers(headers: &HeaderMap, signed: &str) -> S3Result<()> {
    let is_signed = |name: &str| signed.split(';').any(|signed| signed.eq_ignore_ascii_case(name));
    if !is_signed("host") {
        return Err(s3_error!(AccessDenied, "the signature does not cover the header: host"));
    }
    // These two are part of the signed text even if they are not listed.
    let is_bound = |name: &str| ["x-amz-content-sha256", "x-amz-date"].contains(&name);
    let names = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
    match names.into_iter().find(|name| !is_bound(name) && !is_signed(name)) {
        Some(name) => {
            Err(s3_error!(AccessDenied, "There were headers present in the request which were not signed: {}", name))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const ADDRESS: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a&X-Amz-Date=1&X-Amz-Expires=60\
                           &X-Amz-SignedHeaders=host&X-Amz-Signature=1";
    const VERSION_2: &str = "AWSAccessKeyId=a&Signature=b&Expires=1";

    fn of(method: &str, query: &str, headers: &[(&str, &str)]) -> Result<Scheme, String> {
        let request = Request::builder().method(method).uri(format!("/b/k?{query}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Scheme::of(&request.body(()).unwrap().into_parts().0, true).map_err(|error| error.code().as_str().to_owned())
    }

    fn header(names: &str) -> String {
        format!("AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders={names}, Signature=c")
    }

    #[test]
    fn a_request_has_one_signature() {
        let signed = header("host;x-amz-date");
        assert_eq!(of("GET", "", &[]), Ok(Scheme::Anonymous));
        assert_eq!(of("GET", "", &[("authorization", &signed)]), Ok(Scheme::Header));
        assert_eq!(of("GET", ADDRESS, &[]), Ok(Scheme::Presigned));
        assert_eq!(of("GET", VERSION_2, &[]), Ok(Scheme::PresignedVersion2));
        let two = Err("InvalidArgument".to_owned());
        for mark in ["X-Amz-Signature=x", "x-amz-signature=x", "X-Amz-%53ignature=x", "X-Amz-Algorithm=x"] {
            assert_eq!(of("PUT", &format!("{VERSION_2}&{mark}&x-amz-copy-source=/c/d"), &[]), two, "{mark}");
            assert_eq!(of("PUT", mark, &[("authorization", &signed)]), two, "{mark}");
        }
        assert_eq!(of("PUT", VERSION_2, &[("authorization", &signed)]), two);
        assert_eq!(of("PUT", "", &[("authorization", &signed), ("authorization", "AWS a:b")]), two);
        let form = ("content-type", "multipart/form-data; boundary=x");
        assert_eq!(of("POST", "", &[form]), Ok(Scheme::Form));
        assert_eq!(of("POST", ADDRESS, &[form]), two);
        assert_eq!(of("POST", "", &[form, ("authorization", &signed)]), two);
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        let denied = Err("AccessDenied".to_owned());
        let (copy, digest) = (("x-amz-copy-source", "/a/b"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"));
        assert_eq!(of("PUT", ADDRESS, &[copy]), denied);
        let both = ADDRESS.replace("=host", "=host%3Bx-amz-copy-source");
        assert_eq!(of("PUT", &both, &[copy, digest]), Ok(Scheme::Presigned));
        assert_eq!(of("PUT", "", &[("authorization", &header("host;x-amz-date")), copy]), denied);
        assert_eq!(of("PUT", "", &[("authorization", &header("x-amz-date"))]), denied, "the host");
        let all = header("host;x-amz-copy-source;x-amz-date");
        assert_eq!(of("PUT", "", &[("authorization", &all), copy]), Ok(Scheme::Header));
        let other = all.replace("/s3/", "/sts/");
        assert_eq!(of("POST", "", &[("authorization", &other)]), Err("AuthorizationHeaderMalformed".to_owned()));
    }

    #[test]
    fn addresses_expire_within_seven_days_however_they_are_written() {
        let wrong = Err("AuthorizationQueryParametersError".to_owned());
        let with = |expires: &str| of("GET", &ADDRESS.replace("X-Amz-Expires=60", expires), &[]);
        assert_eq!(with("X-Amz-Expires=604800"), Ok(Scheme::Presigned));
        assert_eq!(with("X-Amz-E%78pires=604800"), Ok(Scheme::Presigned));
        for expires in [
            "X-Amz-Expires=604801",
            "X-Amz-E%78pires=3000000",
            "%58-Amz-Expires=3000000",
            "X-Amz-Expires=60&X-Amz-Expires=3000000",
            "X-Amz-Expires=60&%58-amz-expires=3000000",
            "X-Amz-Expires=",
            "y=1",
        ] {
            assert_eq!(with(expires), wrong, "{expires}");
        }
        assert_eq!(with("X-Amz-Expires=0"), Err("AccessDenied".to_owned()));
    }

    #[test]
    fn forms_are_what_they_are_read_as() {
        let is = |method: &str, kinds: &[&str]| {
            let headers = kinds.iter().map(|kind| (CONTENT_TYPE, kind.parse().unwrap())).fold(
                HeaderMap::new(),
                |mut headers, (name, value)| {
                    headers.append(name, value);
                    headers
                },
            );
            is_form(&method.parse().unwrap(), &headers)
        };
        assert!(
            is("POST", &["multipart/form-data; boundary=x"]) && is("POST", &["Multipart/Form-Data;boundary=\"x\""])
        );
        assert!(!is("POST", &["multipart/form-datax; boundary=x"]) && !is("POST", &["multipart/mixed; boundary=x"]));
        assert!(!is("PUT", &["multipart/form-data; boundary=x"]) && !is("POST", &[]));
        assert!(!is("POST", &["multipart/form-data; boundary=x", "multipart/form-data; boundary=x"]));
    }
}
