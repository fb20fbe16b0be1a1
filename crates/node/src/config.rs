//! What a node is told when it starts.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use url::Url;

use crate::{Credentials, Keyring, Limits};

/// Where a node keeps or finds its objects.
#[derive(Clone, Debug)]
pub enum Backing {
    /// A folder of our own layout, made if it does not exist.
    Store(PathBuf),
    /// Something that exists already, served as it is.
    Gateway(Gateway),
}

/// Something that exists already and how it is reached.
///
/// The node reaches it with credentials of its own, those of the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`) or of
/// `options`; what its clients sign with is never sent on.
#[derive(Clone)]
pub struct Gateway {
    /// What is served: `file:///dir`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,
    /// `abfss://container@account.dfs.core.windows.net/prefix`, `http://host/path`.
    pub url: Url,
    /// The endpoint behind `s3://`, `gs://` or `az://`; unset, the environment's or the cloud's own.
    pub endpoint: Option<String>,
    /// Refuses writes instead of passing them on.
    pub read_only: bool,
    /// The name its one bucket has here; unset, the bucket's own or one made from the folder's.
    pub bucket: Option<String>,
    /// Settings of the client behind it as `object_store` names them, `aws_access_key_id` for one.
    pub options: Vec<(String, String)>,
    /// Where uploads are kept until they are checked and sent on; unset, the system's temporary folder.
    pub spool: Option<PathBuf>,
}

impl Gateway {
    /// A gateway that passes writes on.
    pub fn new(url: Url) -> Self {
        Self { url, endpoint: None, read_only: false, bucket: None, options: Vec::new(), spool: None }
    }
}

/// The options may hold secrets.
impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        // A web server's password may be in its address.
        let _ = url.set_password(None);
        f.debug_struct("Gateway")
            .field("url", &url.as_str())
            .field("endpoint", &self.endpoint)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// The certificate of a node that speaks TLS. Both files are PEM and are read again by
/// [`Node::reload_certificate`](crate::Node::reload_certificate).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How a node is set up.
#[derive(Clone)]
pub struct NodeConfig {
    /// Where the objects are.
    pub backing: Backing,
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// A second address, without TLS and signatures, for `/metrics`, `/healthz` and `/readyz`. Where it is set,
    /// `/metrics` is answered there alone.
    pub admin_listen: Option<SocketAddr>,
    /// Set, the node speaks TLS and nothing else.
    pub tls: Option<TlsFiles>,
    /// Who may do everything. Unset, and without a keyring, a pair is made at the first start and kept with the store.
    pub credentials: Option<Credentials>,
    /// Several keys, each with rights of its own; `credentials` are added to them.
    pub keyring: Option<Keyring>,
    /// Whether signatures of version 2 are accepted, on addresses and forms. They are older and cover less.
    pub signature_version_2: bool,
    /// The region the node says it is in; requests signed for any region are accepted.
    pub region: String,
    /// Host names below which buckets are names of hosts: with `s3.example.com`, `b.s3.example.com` is bucket `b`.
    pub domains: Vec<String>,
    /// Whether answers tell what other programs leave of the machine's cores. Not where the node is a part of one of them.
    pub tells_load: bool,
    /// What peers may fill.
    pub limits: Limits,
}

impl NodeConfig {
    /// A node on a folder of our own layout, on a free loopback port.
    pub fn store(dir: impl Into<PathBuf>) -> Self {
        Self::new(Backing::Store(dir.into()))
    }

    /// A node in front of what exists, on a free loopback port.
    pub fn gateway(url: Url) -> Self {
        Self::new(Backing::Gateway(Gateway::new(url)))
    }

    /// A node on this backing, on a free loopback port.
    pub fn new(backing: Backing) -> Self {
        Self {
            backing,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin_listen: None,
            tls: None,
            credentials: None,
            keyring: None,
            signature_version_2: true,
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            tells_load: false,
            limits: Limits::default(),
        }
    }
}

impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("backing", &self.backing)
            .field("listen", &self.listen)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}
