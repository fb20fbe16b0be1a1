//! Locations in one canonical form, which the access policy compares.
//!
//! ```text
//! S3A://Sales/2024/            s3://Sales/2024            keys verbatim, bucket names keep their case
//! HTTP://Host.:80/a/../b%20c   http://host/b c            case, default port, dot segments, encoding
//! http://0x7f.1/               http://127.0.0.1           every spelling of IPv4, also inside IPv6
//! file:///data/./x/../y        /data/y                    links are resolved when the file is opened
//! ```

use std::fmt;
use std::path::{Component, Path as FilePath, PathBuf};
use std::str::FromStr;

use pushdowndb_contract::{Error, Result};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// A location that a policy can permit: one object or folder with all below it, a whole bucket or
/// host (`s3://bucket`, `https://host`), or a whole scheme (`s3://`, `gs://`, `az://`, `https://`,
/// `http://`, `file://`).
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Location {
    pub(super) store: Store,
    /// Segments joined by slashes, without a slash at either end.
    pub(super) path: String,
}

/// A store of objects, or all stores of one kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Store {
    /// The local file systems.
    Disk,
    /// A bucket of the session's S3 endpoint.
    Bucket(String),
    /// All buckets of the session's S3 endpoint.
    Buckets,
    /// A bucket or container of a cloud.
    CloudBucket(Cloud, String),
    /// All buckets or containers of a cloud.
    CloudBuckets(Cloud),
    /// A web server.
    Web { scheme: Scheme, host: String, port: u16 },
    /// All web servers that are reached by this scheme.
    Webs(Scheme),
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// A cloud whose endpoint and credentials are the session's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Cloud {
    Google,
    Azure,
}

impl Cloud {
    fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "gs" => Some(Self::Google),
            "az" | "azure" => Some(Self::Azure),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Store {
    /// Returns the store that the scheme and authority of `url` name.
    pub(crate) fn of(url: &Url) -> Result<Self> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::invalid("an address with a user name in it: credentials are the session's"));
        }
        match url.scheme() {
            "file" => Ok(Self::Disk),
            "s3" | "s3a" => Self::bucket(url.host_str().unwrap_or_default()),
            "http" => Self::web(Scheme::Http, url),
            "https" => Self::web(Scheme::Https, url),
            other => match Cloud::of_scheme(other) {
                Some(cloud) => {
                    Ok(Self::CloudBucket(cloud, bucket_name(url.host_str().unwrap_or_default())?.to_owned()))
                }
                None => Err(Error::unsupported(format!("'{other}://' is no scheme that an access policy knows"))),
            },
        }
    }

    fn bucket(name: &str) -> Result<Self> {
        Ok(Self::Bucket(bucket_name(name)?.to_owned()))
    }

    fn web(scheme: Scheme, url: &Url) -> Result<Self> {
        let host = match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
                if name.is_empty() || name.ends_with('.') {
                    return Err(Error::invalid(format!("{url} names no host")));
                }
                name
            }
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_canonical().to_string(),
            None => return Err(Error::invalid(format!("{url} names no host"))),
        };
        Ok(Self::Web { scheme, host, port: url.port().unwrap_or_else(|| scheme.port()) })
    }

    /// Returns whether this store is `other`, or stands for a group of stores with `other` among
    /// them.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Buckets, Self::Bucket(_)) => true,
            (Self::CloudBuckets(all), Self::CloudBucket(cloud, _)) => all == cloud,
            (Self::Webs(all), Self::Web { scheme, .. }) => all == scheme,
            _ => self == other,
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => f.write_str("file://"),
            Self::Bucket(name) => write!(f, "s3://{name}"),
            Self::Buckets => f.write_str("s3://"),
            Self::CloudBucket(cloud, name) => write!(f, "{}://{name}", cloud.name()),
            Self::CloudBuckets(cloud) => write!(f, "{}://", cloud.name()),
            Self::Web { scheme, host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{}://{open}{host}{close}", scheme.name())?;
                if *port == scheme.port() { Ok(()) } else { write!(f, ":{port}") }
            }
            Self::Webs(scheme) => write!(f, "{}://", scheme.name()),
        }
    }
}

impl Location {
    /// Returns whether `path` in `store` is this location or lies below it. No location covers a
    /// path that is ambiguous.
    pub(super) fn covers(&self, store: &Store, path: &str) -> bool {
        self.store.covers(store) && is_plain(store, path) && is_below(&self.path, path)
    }

    /// Returns the location with symbolic links resolved, as far as its path exists; `None` if it
    /// is not on the local disk.
    pub(super) fn resolved(&self) -> Option<Self> {
        if self.store != Store::Disk {
            return None;
        }
        let whole = FilePath::new("/").join(&self.path);
        let (real, missing) = whole
            .ancestors()
            .find_map(|above| Some((std::fs::canonicalize(above).ok()?, whole.strip_prefix(above).ok()?.to_owned())))?;
        Some(Self { store: Store::Disk, path: disk_path(&real.join(missing)).ok()? })
    }

    fn local(text: &str) -> Result<Self> {
        let home = text.strip_prefix("~/").and_then(|rest| Some(dirs::home_dir()?.join(rest)));
        let path = home.unwrap_or_else(|| PathBuf::from(text));
        Ok(Self { store: Store::Disk, path: disk_path(&absolute(&path)?)? })
    }

    fn file_url(rest: &str) -> Result<Self> {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.is_empty() && !path.starts_with('/') {
            return Err(Error::invalid("a file URL has three slashes: file:///folder/file.csv"));
        }
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
        let decoded = decoded.map_err(|error| Error::invalid("is no path").with_source(error))?;
        Ok(Self { store: Store::Disk, path: disk_path(&normal(FilePath::new(decoded.as_ref())))? })
    }

    fn web(scheme: Scheme, rest: &str) -> Result<Self> {
        if rest.is_empty() {
            return Ok(Self { store: Store::Webs(scheme), path: String::new() });
        }
        let url = Url::parse(&format!("{}://{rest}", scheme.name()));
        let url = url.map_err(|error| Error::invalid("is no URL").with_source(error))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::invalid("has a query or a fragment, which no location has"));
        }
        let path = object_store::path::Path::from_url_path(url.path());
        let path = path.map_err(|error| Error::invalid("is no path of objects").with_source(error))?;
        Ok(Self { store: Store::of(&url)?, path: path.to_string() })
    }

    fn cloud(cloud: Cloud, rest: &str) -> Result<Self> {
        if rest.is_empty() {
            return Ok(Self { store: Store::CloudBuckets(cloud), path: String::new() });
        }
        let Self { store, path } = Self::bucket(rest)?;
        match store {
            Store::Bucket(name) => Ok(Self { store: Store::CloudBucket(cloud, name), path }),
            store => Ok(Self { store, path }),
        }
    }

    fn bucket(rest: &str) -> Result<Self> {
        if rest.is_empty() {
            return Ok(Self { store: Store::Buckets, path: String::new() });
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let key = object_store::path::Path::parse(key);
        let key = key.map_err(|error| Error::invalid("is no path of objects").with_source(error))?;
        Ok(Self { store: Store::bucket(bucket)?, path: key.to_string() })
    }
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let read = match text.split_once("://") {
            None if text.is_empty() => Err(Error::invalid("is empty")),
            None => Self::local(text),
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "file" => Self::file_url(rest),
                "s3" | "s3a" => Self::bucket(rest),
                "http" => Self::web(Scheme::Http, rest),
                "https" => Self::web(Scheme::Https, rest),
                other => match Cloud::of_scheme(other) {
                    Some(cloud) => Self::cloud(cloud, rest),
                    None => Err(Error::unsupported(format!("'{other}://' is not a scheme this build reads"))),
                },
            },
        };
        read.map_err(|error| error.context(format!("the allowed location '{text}'")))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.store, self.path.as_str()) {
            (Store::Disk, path) => write!(f, "/{path}"),
            (store @ (Store::Buckets | Store::CloudBuckets(_) | Store::Webs(_)), _) => store.fmt(f),
            // Text that reads back as the same location: the path of a URL is percent-encoded.
            (store @ Store::Web { .. }, path) => match Url::parse(&format!("{store}/")) {
                Ok(mut url) => {
                    if let Ok(mut segments) = url.path_segments_mut() {
                        segments.clear().extend(path.split('/'));
                    }
                    f.write_str(url.as_str())
                }
                Err(_) => write!(f, "{store}/{path}"),
            },
            (store, path) => write!(f, "{store}/{path}"),
        }
    }
}

impl TryFrom<String> for Location {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Location> for String {
    fn from(location: Location) -> Self {
        location.to_string()
    }
}

/// Returns `name` if it is valid as the name of a bucket or container.
fn bucket_name(name: &str) -> Result<&str> {
    // Any other character could change the address that requests are sent to.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || !name.chars().all(is_plain) || name.chars().all(|c| c == '.') {
        return Err(Error::invalid(format!("'{name}' is no name of a bucket")));
    }
    Ok(name)
}

/// Returns whether every server and file system reads `path` the same way: it has no empty or dot
/// segments and, on web servers, no encoded ones.
fn is_plain(store: &Store, path: &str) -> bool {
    let is_name = |segment: &str| !matches!(segment, "" | "." | "..");
    let is_ambiguous = || {
        let lower = path.to_ascii_lowercase();
        // A server that decodes twice, or reads a backslash as a slash, would find another object.
        path.contains('\\') || ["%2e", "%2f", "%5c"].iter().any(|code| lower.contains(code))
    };
    (path.is_empty() || path.split('/').all(is_name)) && !(matches!(store, Store::Web { .. }) && is_ambiguous())
}

fn is_below(folder: &str, path: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the absolute form of `path`, without `.` and `..`. Links are not followed.
pub(crate) fn absolute(path: &FilePath) -> Result<PathBuf> {
    if path.is_absolute() {
        return Ok(normal(path));
    }
    let current = std::env::current_dir().map_err(|e| Error::invalid("no current folder").with_source(e))?;
    Ok(normal(&current.join(path)))
}

fn normal(path: &FilePath) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    normal
}

/// Converts an absolute path to the text in a [`Location`]: no slash at either end.
pub(super) fn disk_path(path: &FilePath) -> Result<String> {
    let text = path.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", path.display())))?;
    Ok(text.trim_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        text.parse().unwrap()
    }

    fn covers(rule: &str, asked: &str) -> bool {
        let asked = location(asked);
        location(rule).covers(&asked.store, &asked.path)
    }

    #[test]
    fn one_location_has_one_form() {
        for (written, canonical) in [
            ("S3A://Sales/2024/", "s3://Sales/2024"),
            ("s3://b", "s3://b/"),
            ("s3://", "s3://"),
            ("HTTP://Host.:80/a/../b%20c", "http://host/b%20c"),
            ("http://0x7f.1:8000", "http://127.0.0.1:8000/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0177.0.0.1/", "http://127.0.0.1/"),
            ("http://127.0.0.1./", "http://127.0.0.1/"),
            ("http://[::ffff:7f00:1]/", "http://127.0.0.1/"),
            ("http://[0:0::1]:81/", "http://[::1]:81/"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://h/%2e%2e/x", "https://h/x"),
            ("file:///data/./x/../y%20z/", "/data/y z"),
            ("file://", "/"),
            ("/", "/"),
            ("/data//x/", "/data/x"),
        ] {
            assert_eq!(location(written).to_string(), canonical, "{written}");
            assert_eq!(location(canonical), location(written), "{canonical} reads back");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(location("a/../b").to_string(), here.join("b").to_str().unwrap());
    }

    #[test]
    fn what_is_no_location_is_refused() {
        for text in [
            "",
            " ",
            "s3://a%2fb/x",
            "s3://a@b/x",
            "s3:///x",
            "s3://../x",
            "s3://b/../x",
            "s3://b/a//b",
            "http://user:secret@host/",
            "http:///x",
            "http://host/?a",
            "http://host/#a",
            "gs://b/../x",
            "az://b%2f/x",
            "ftp://b/",
            "file://host/x",
        ] {
            let read = text.parse::<Location>();
            // In a web URL without a host, the first segment is read as the host.
            if text != "http:///x" {
                assert!(read.is_err(), "{text}: {read:?}");
            }
        }
    }

    #[test]
    fn a_location_covers_what_is_below_it() {
        for (rule, asked) in [
            ("s3://b/sales", "s3a://b/sales/2024/x.csv"),
            ("s3://b/sales/", "s3://b/sales"),
            ("s3://b", "s3://b/x"),
            ("s3://", "s3://any/x"),
            ("gs://b/sales/", "GS://b/sales/2024/x.csv"),
            ("az://", "azure://c/x"),
            ("https://", "https://host:81/x"),
            ("http://host", "http://HOST:80/x"),
            ("/data", "/data/../data/x"),
            ("/", "/etc/passwd"),
        ] {
            assert!(covers(rule, asked), "{rule} {asked}");
        }
        for (rule, asked) in [
            ("s3://", "gs://b/x"),
            ("gs://b", "az://b/x"),
            ("gs://b/x", "gs://c/x"),
            ("s3://b/sales", "s3://b/sales2/x"),
            ("s3://b/sales", "s3://b/"),
            ("s3://b/sales", "s3://b/Sales/x"),
            ("s3://b", "s3://B/x"),
            ("s3://b", "http://b/x"),
            ("https://host", "http://host/x"),
            ("http://host", "http://host:81/x"),
            ("http://host", "http://host.evil.example/x"),
            ("http://host/a", "http://host/a/../b"),
            ("http://host/a", "http://host/a/%252e%252e/b"),
            ("http://host/a", "http://host/a/..%5c..%5cb"),
            ("/data", "/data/../etc/passwd"),
            ("/data", "/database"),
        ] {
            assert!(!covers(rule, asked), "{rule} {asked}");
        }
    }

    #[test]
    fn locations_are_data() {
        let read: Vec<Location> = serde_json::from_str(r#"["S3://b/x/", "/data"]"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"["s3://b/x","/data"]"#);
        assert!(serde_json::from_str::<Vec<Location>>(r#"["ftp://b"]"#).is_err());
    }
}
