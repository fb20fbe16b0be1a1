//! The addresses of `pushdown.nodes`: URLs, and names that resolve to many nodes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use url::Url;

/// Maximum number of nodes of a fleet.
const MAX_NODES: usize = 1024;

/// Time for which the nodes of a name are cached.
const RESOLVED_FOR: Duration = Duration::from_secs(15);

/// Timeout for resolving a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Prefix of an address whose host name is resolved, with one node per IP address.
const RESOLVED: &str = "dns+";

/// A cache of the nodes that names were resolved to, for all queries of a process.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    resolved: Mutex<HashMap<String, (Instant, Vec<Url>)>>,
}

impl Addresses {
    /// Returns the URLs of the nodes in the setting `nodes`, sorted and without duplicates. Names
    /// are resolved only if `check` permits them.
    ///
    /// If a name cannot be resolved any more, its earlier nodes are returned.
    pub(crate) async fn of(&self, nodes: &str, check: impl Fn(&Url) -> Result<()>) -> Result<Vec<Url>> {
        let mut all = Vec::new();
        for address in nodes.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match address.strip_prefix(RESOLVED) {
                Some(url) => {
                    let url = parse(address, url)?;
                    check(&url)?;
                    all.extend(self.resolve(url, address).await?);
                }
                None => all.push(parse(address, address)?),
            }
        }
        all.sort();
        all.dedup();
        match all.len() {
            0..=MAX_NODES => Ok(all),
            more => Err(Error::invalid(format!("pushdown.nodes names {more} nodes; at most {MAX_NODES} are used"))),
        }
    }

    async fn resolve(&self, url: Url, address: &str) -> Result<Vec<Url>> {
        if url.scheme() == "https" {
            let message =
                format!("pushdown.nodes: '{address}': a certificate is for a name; list nodes with https one by one");
            return Err(Error::invalid(message));
        }
        let known = self.resolved.lock().get(address).cloned();
        if let Some((at, nodes)) = &known
            && at.elapsed() < RESOLVED_FOR
        {
            return Ok(nodes.clone());
        }
        let (host, port) = (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default().unwrap_or(80));
        let looked_up = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((host, port))).await;
        let found = match looked_up {
            Ok(Ok(found)) => found,
            failed => {
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer for {} s", RESOLVE_TIMEOUT.as_secs()),
                };
                tracing::warn!(address, why, "the nodes of a name cannot be looked up");
                let unknown = || {
                    Error::new(ErrorKind::Unavailable, format!("pushdown.nodes: '{address}' cannot be resolved: {why}"))
                };
                return known.map(|(_, nodes)| nodes).ok_or_else(unknown);
            }
        };
        let at = |socket: std::net::SocketAddr| Url::parse(&format!("http://{socket}")).ok();
        let nodes: Vec<Url> = found.filter_map(at).take(MAX_NODES).collect();
        self.resolved.lock().insert(address.to_owned(), (Instant::now(), nodes.clone()));
        Ok(nodes)
    }
}

/// Parses the URL of a node.
fn parse(address: &str, url: &str) -> Result<Url> {
    let url = Url::parse(url).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    let is_root = |url: &Url| url.path() == "/" && url.query().is_none() && url.username().is_empty();
    url.filter(is_root).ok_or_else(|| {
        let message = format!(
            "pushdown.nodes: '{address}' is no address of a node; write http://host:9000, https://host or \
             dns+http://name:9000, with commas between them"
        );
        Error::invalid(message)
    })
}
