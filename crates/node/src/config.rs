//! What a node is told when it starts.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use url::Url;

use crate::{Credentials, Limits};

/// Where a node keeps or finds its objects.
#[derive(Clone, Debug)]
pub enum Backing {
    /// A folder of our own layout, made if it does not exist.
    Store(PathBuf),
    /// Something that exists already, served as it is and never written: `file:///dir`.
    Gateway {
        /// What is served.
        url: Url,
    },
}

/// How a node is set up.
#[derive(Clone)]
pub struct NodeConfig {
    /// Where the objects are.
    pub backing: Backing,
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who may use the node. Unset, they are made at the first start and kept with the store.
    pub credentials: Option<Credentials>,
    /// The region the node says it is in; requests signed for any region are accepted.
    pub region: String,
    /// What peers may fill.
    pub limits: Limits,
}

impl NodeConfig {
    /// A node on a folder of our own layout, on a free loopback port.
    pub fn store(dir: impl Into<PathBuf>) -> Self {
        Self::new(Backing::Store(dir.into()))
    }

    /// A read-only node in front of an existing folder, on a free loopback port.
    pub fn gateway(url: Url) -> Self {
        Self::new(Backing::Gateway { url })
    }

    fn new(backing: Backing) -> Self {
        Self {
            backing,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            credentials: None,
            region: "us-east-1".to_owned(),
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
