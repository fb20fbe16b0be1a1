//! Virtual hosts: `http://bucket.domain/key` besides `http://domain/bucket/key`.
//!
//! Hosts that do not lie below a configured domain use the path style, so that a node stays
//! reachable by its address.

use http::header::HOST;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::host::{S3Host, VirtualHost};
use s3s::path::{ParseS3PathError, S3Path, parse_virtual_hosted_style};
use s3s::{S3Result, s3_error};

/// The domains whose subdomains are bucket names.
#[derive(Clone, Debug)]
pub(crate) struct Domains(Vec<String>);

impl Domains {
    pub fn new(domains: &[String]) -> Self {
        let bare = |domain: &String| domain.trim_matches('.').to_ascii_lowercase();
        Self(domains.iter().map(bare).filter(|domain| !domain.is_empty()).collect())
    }

    /// The bucket that the host names, if it names one.
    pub fn bucket(&self, host: &str) -> Option<String> {
        let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
        self.0.iter().find_map(|domain| {
            let bucket = name.strip_suffix(domain.as_str())?.strip_suffix('.')?;
            (!bucket.is_empty()).then(|| bucket.to_owned())
        })
    }
}

impl Domains {
    /// The bucket and key that a request names in its host or `path`, which is percent-decoded.
    pub fn resolve(&self, headers: &HeaderMap, path: &str) -> S3Result<S3Path> {
        let host = headers.get(HOST).map(|host| host.to_str()).transpose();
        let host = host.map_err(|error| s3_error!(error, InvalidRequest, "invalid header: Host"))?;
        let bucket = host.and_then(|host| self.bucket(host));
        parse_virtual_hosted_style(bucket.as_deref(), path).map_err(|error| match error {
            ParseS3PathError::InvalidPath => s3_error!(InvalidURI),
            ParseS3PathError::InvalidBucketName => s3_error!(InvalidBucketName),
            ParseS3PathError::KeyTooLong => s3_error!(KeyTooLongError),
        })
    }
}

/// The percent-decoded path of `uri`.
pub(crate) fn decoded_path(uri: &Uri) -> S3Result<String> {
    let path = percent_decode_str(uri.path()).decode_utf8();
    Ok(path.map_err(|error| s3_error!(error, InvalidURI))?.into_owned())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

impl S3Host for Domains {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        Ok(match self.bucket(host) {
            Some(bucket) => VirtualHost::new(host).with_bucket(bucket),
            None => VirtualHost::new(host),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_below_a_domain_name_buckets() {
        let domains = Domains::new(&["s3.example.com".to_owned(), "LOCALHOST".to_owned()]);
        for (host, bucket) in [
            ("s3.example.com", None),
            ("logs.s3.example.com", Some("logs")),
            ("logs.S3.Example.com:9000", Some("logs")),
            ("my.dotted.bucket.localhost:9000", Some("my.dotted.bucket")),
            ("localhost:9000", None),
            ("127.0.0.1:9000", None),
            ("[::1]:9000", None),
            ("evils3.example.com", None),
            ("elsewhere.org", None),
        ] {
            assert_eq!(domains.bucket(host).as_deref(), bucket, "{host}");
        }
    }
}
