//! Virtual hosts: `http://bucket.domain/key` besides `http://domain/bucket/key`.
//!
//! Hosts that are none of the configured domains, or lie below none, use the path style, so that a node
//! stays reachable by its address.

use http::header::HOST;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domains a node is known by.
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
    /// The bucket that a request names in its host or its path, and whether it names a key in it.
    pub fn bucket_of(&self, uri: &Uri, headers: &HeaderMap) -> (Option<String>, bool) {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
        let path = percent_decode_str(uri.path()).decode_utf8_lossy();
        let path = path.strip_prefix('/').unwrap_or(&path);
        if let Some(bucket) = host.and_then(|host| self.bucket(host)) {
            return (Some(bucket), !path.is_empty());
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        (Some(bucket.to_owned()).filter(|bucket| !bucket.is_empty()), !key.is_empty())
    }
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
