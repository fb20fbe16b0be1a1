//! The configuration of a node.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use pushdowndb_tls::TlsFiles;
use url::Url;

use crate::{Credentials, Keyring, Limits};

/// Where a node stores or finds its objects.
#[derive(Clone, Debug)]
pub enum Storage {
    /// A folder in the store's own layout, created if it does not exist.
    Store(PathBuf),
    /// A folder or bucket that exists already, served as it is.
    Gateway(Gateway),
}

/// A folder or bucket that exists already, and how to reach it.
///
/// The node reaches it with its own credentials, from the environment (`AWS_*`, `GOOGLE_*`,
/// `AZURE_*`) or from `options`. Credentials of clients are never forwarded.
#[derive(Clone)]
pub struct Gateway {
    /// The URL to serve: `file:///dir`, `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`, `abfss://container@account.dfs.core.windows.net/prefix`,
    /// `http://host/path`.
    pub url: Url,
    /// The endpoint of `s3://`, `gs://` or `az://`; by default that of the environment or the
    /// cloud.
    pub endpoint: Option<String>,
    /// Whether writes are refused instead of forwarded.
    pub read_only: bool,
    /// The bucket name that clients see; by default the bucket's own or one derived from the
    /// folder's.
    pub bucket: Option<String>,
    /// Settings of the `object_store` client, such as `aws_access_key_id`.
    pub options: Vec<(String, String)>,
    /// Where uploads are kept until they are verified and sent; by default a temporary folder.
    pub spool: Option<PathBuf>,
}

impl Gateway {
    /// A gateway that forwards writes.
    pub fn new(url: Url) -> Self {
        Self { url, endpoint: None, read_only: false, bucket: None, options: Vec::new(), spool: None }
    }
}

/// Leaves out the options, which may hold secrets.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        // The URL of a web server may hold a password.
        let _ = url.set_password(None);
        f.debug_struct("Gateway")
            .field("url", &url.as_str())
            .field("endpoint", &self.endpoint)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// The configuration of a node.
#[derive(Clone)]
pub struct NodeConfig {
    /// Where the objects are.
    pub storage: Storage,
    /// The address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// A second address, without TLS and signatures, for `/metrics`, `/healthz` and `/readyz`. If
    /// it is set, `/metrics` is answered there only.
    pub admin_listen: Option<SocketAddr>,
    /// If set, the node serves TLS only. The files are read again by
    /// [`Node::reload_certificate`](crate::Node::reload_certificate).
    pub tls: Option<TlsFiles>,
    /// A key pair with all rights. If it is unset and there is no keyring, a pair is generated at
    /// the first start and stored beside the objects.
    pub credentials: Option<Credentials>,
    /// Keys with rights of their own, in addition to `credentials`.
    pub keyring: Option<Keyring>,
    /// Whether version 2 signatures are accepted, in query strings and forms. They are older and
    /// cover less of a request.
    pub signature_version_2: bool,
    /// The region that the node reports; requests signed for any region are accepted.
    pub region: String,
    /// Domains for virtual-hosted requests: with `s3.example.com`, `b.s3.example.com` is bucket
    /// `b`.
    pub domains: Vec<String>,
    /// Limits on the resources that clients can use.
    pub limits: Limits,
}

impl NodeConfig {
    /// A node that stores objects in `dir`, on a free loopback port.
    pub fn store(dir: impl Into<PathBuf>) -> Self {
        Self::new(Storage::Store(dir.into()))
    }

    /// A node in front of `url`, on a free loopback port.
    pub fn gateway(url: Url) -> Self {
        Self::new(Storage::Gateway(Gateway::new(url)))
    }

    /// A node on `storage`, on a free loopback port.
    pub fn new(storage: Storage) -> Self {
        Self {
            storage,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin_listen: None,
            tls: None,
            credentials: None,
            keyring: None,
            signature_version_2: true,
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("storage", &self.storage)
            .field("listen", &self.listen)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}
