//! Parsing of presigned URLs after their signature was verified.

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use s3s::{S3Result, s3_error};

use super::scheme::{PARAMETERS, Scheme};
use super::version_2;

/// Headers that the response carries instead of those of the object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides(pub HeaderMap);

/// A URL without the signature and the headers that its query contained.
#[derive(Debug, Default)]
pub(crate) struct Bare {
    pub uri: Uri,
    /// Headers for the response, from `response-*` parameters.
    pub overrides: Overrides,
    /// Request headers that some SDKs move into the URL: metadata, tags.
    pub hoisted: HeaderMap,
}

/// Removes the signature from `uri`, and the headers that its query contains. Request headers count
/// only if `scheme` covers them.
pub(crate) fn bare(uri: Uri, scheme: Scheme) -> S3Result<Bare> {
    let Some(query) = uri.query() else { return Ok(Bare { uri, ..Bare::default() }) };
    let (mut overrides, mut hoisted) = (Overrides::default(), HeaderMap::new());
    let may_hoist = scheme == Scheme::Presigned;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let Some((name, value)) = url::form_urlencoded::parse(pair.as_bytes()).next() else { continue };
        let lower = name.to_ascii_lowercase();
        let header = || {
            let value = HeaderValue::from_str(&value);
            value.map_err(|_| s3_error!(InvalidArgument, "{} holds what no header can", name))
        };
        let is_own = version_2::PARAMETERS.contains(&name.as_ref()) || PARAMETERS.contains(&lower.as_str());
        // The checksum of a body is not known when a URL is presigned, so these parameters are
        // ignored.
        let is_checksum = lower.starts_with("x-amz-checksum-") || lower == "x-amz-sdk-checksum-algorithm";
        if is_own || is_checksum {
            continue;
        }
        let own = lower.strip_prefix("response-").filter(|header| OVERRIDES.contains(header));
        let (into, known) = match own {
            Some(header) => (&mut overrides.0, Some(header)),
            None if lower.starts_with("x-amz-") => (&mut hoisted, Some(lower.as_str()).filter(|_| may_hoist)),
            None => {
                kept.push(pair);
                continue;
            }
        };
        if let Some(known) = known.and_then(|known| HeaderName::from_bytes(known.as_bytes()).ok()) {
            into.insert(known, header()?);
        }
    }
    if kept.len() == query.split('&').count() {
        return Ok(Bare { uri, overrides, hoisted });
    }
    let bare = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) };
    let mut parts = uri.into_parts();
    let bare = PathAndQuery::try_from(bare).map_err(|_| s3_error!(InvalidURI, "the query is malformed"))?;
    parts.path_and_query = Some(bare);
    let uri = Uri::from_parts(parts).map_err(|_| s3_error!(InvalidURI, "the address is malformed"))?;
    Ok(Bare { uri, overrides, hoisted })
}

/// Headers that a URL may override in the response.
const OVERRIDES: [&str; 6] =
    ["cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"];

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    #[test]
    fn addresses_lose_their_signature() {
        let with = |text: &str| bare(text.parse().unwrap(), Scheme::Presigned).unwrap();
        let signed =
            "X-Amz-Date=1&response-content-type=text%2Fcss&versionId=null&x-amz-meta-colour=blue&X-Amz-Signature=2";
        let Bare { uri, overrides, hoisted } = with(&format!("/b/k?{signed}&x-amz-checksum-crc32=AAAAAA%3D%3D"));
        assert_eq!(uri, "/b/k?versionId=null");
        assert_eq!(overrides.0[CONTENT_TYPE], "text/css");
        assert_eq!((hoisted.len(), &hoisted["x-amz-meta-colour"]), (1, &HeaderValue::from_static("blue")));
        assert_eq!(with("/b/k?X-Amz-Date=1").uri, "/b/k");
        let version_2 = "/b/k?Signature=1&X-Amz-Signature=x&x-amz-copy-source=%2Fc%2Fd";
        for scheme in [Scheme::PresignedVersion2, Scheme::Header, Scheme::Anonymous] {
            let bare = bare(version_2.parse().unwrap(), scheme).unwrap();
            assert!(bare.hoisted.is_empty(), "{scheme:?} does not sign it");
        }
        let uri = "/photos/puppy.jpg?AWSAccessKeyId=A&Expires=1&Signature=B%3D&versionId=null".parse().unwrap();
        assert_eq!(bare(uri, Scheme::PresignedVersion2).unwrap().uri, "/photos/puppy.jpg?versionId=null");
        assert_eq!(with("/b?list-type=2&prefix=a%26b").uri, "/b?list-type=2&prefix=a%26b");
        assert_eq!(with("/b").uri, "/b");
        assert!(bare("/b/k?response-expires=a%0Ab".parse().unwrap(), Scheme::Presigned).is_err());
    }
}
