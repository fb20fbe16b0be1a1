//! Fleets: any number of nodes in front of one bucket, each of which can run any fragment.
//!
//! Rendezvous hashing assigns each place in an object to a node, so that later requests find the
//! zones, footers and caches that the node made for that place. If the node is busy, the request
//! goes to the next one in rank; also if the node cannot be reached or stops sending, and then
//! queries avoid it until it answers again. Plain reads go to the bucket's endpoint.

mod addresses;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use pushdowndb_contract::{Capability, Error, ErrorKind, Profile};

use super::Meters;
use super::node::{Node, Place};
use super::post::Poster;
use super::profile::rates::Rates;
pub(crate) use addresses::Addresses;

/// Idle timeout of a node, after which another one is tried. A node at work sends something every
/// three seconds.
const NODE_SILENCE: Duration = Duration::from_secs(7);

/// Timeout for the request that shows which kind of server a node is.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The nodes in front of the bucket of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    nodes: Vec<Arc<Node>>,
}

impl Fleet {
    /// Creates the fleet of `nodes`, which must not be empty.
    pub(super) fn new(nodes: Vec<Arc<Node>>) -> Self {
        Self { nodes }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of the node that has `place` while all nodes are healthy.
    pub(crate) fn home(&self, place: &Place<'_>) -> usize {
        let ranked = self.nodes.iter().enumerate().max_by_key(|(_, node)| node.rank(place));
        ranked.map_or(0, |(number, _)| number)
    }

    /// Returns the nodes to try for `place`, in this order: the healthy ones by rank, busy ones
    /// last. If none is healthy, all nodes are tried.
    fn order(&self, place: &Place<'_>) -> Vec<&Arc<Node>> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_well()).collect();
        if nodes.is_empty() {
            nodes = self.nodes.iter().collect();
        }
        nodes.sort_by_key(|node| (node.is_busy(), std::cmp::Reverse(node.rank(place))));
        nodes
    }

    /// Sends one HEAD request for the bucket to each node that has not answered yet, to learn its
    /// capability. Nodes that failed are asked in the background, so that no query waits for them.
    pub(super) async fn look(&self, poster: &Poster, meters: &Meters) {
        let mut first = Vec::new();
        for node in &self.nodes {
            let is_unknown = node.connections.state().profile().is_none();
            if is_unknown && node.is_well() {
                first.push(look_at(Arc::clone(node), poster.at(node, meters)));
            } else if node.is_due() {
                tokio::spawn(look_at(Arc::clone(node), poster.at(node, meters)));
            }
        }
        join_all(first).await;
    }

    /// Returns what all nodes that have answered can do; `None` if none has.
    pub(crate) fn capability(&self) -> Option<Capability> {
        let states = self.nodes.iter().map(|node| node.connections.state());
        let known = states.filter(|state| state.profile() == Some(Profile::PushdownDb));
        let fragment = known.filter_map(|state| state.fragment()).min()?;
        let mut capability = Profile::PushdownDb.capability();
        capability.fragment = Some(fragment);
        Some(capability)
    }

    /// Returns the rates of all healthy nodes together. Those of the network and of the engine are
    /// the rates of `endpoint`.
    pub(crate) fn rates(&self, endpoint: Rates) -> Rates {
        let now = Instant::now();
        let speed = |node: &Arc<Node>| node.connections.state().speed.rates(Profile::PushdownDb, now);
        let all = self.nodes.iter().filter(|node| node.is_well()).map(speed);
        all.reduce(Rates::beside).map_or(endpoint, |nodes| Rates {
            latency_s: endpoint.latency_s,
            network_bytes_per_s: endpoint.network_bytes_per_s,
            knows_network: endpoint.knows_network,
            engine_text_bytes_per_s: endpoint.engine_text_bytes_per_s,
            ..nodes
        })
    }
}

/// Sends a HEAD request to `node` through `poster`, and records whether it answered.
pub(super) async fn look_at(node: Arc<Node>, poster: Poster) {
    match tokio::time::timeout(LOOK_TIMEOUT, poster.head()).await {
        Ok(Ok(())) => node.answered(),
        Ok(Err(_)) | Err(_) => node.failed(),
    }
}

/// Returns whether another node may succeed where one failed with `error`.
pub(super) fn moves_on(error: &Error) -> bool {
    error.kind().is_retryable() || matches!(error.kind(), ErrorKind::Unsupported)
}

/// The destinations of pushdown requests for one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Posters {
    /// The bucket's endpoint.
    pub(super) own: Poster,
    /// The nodes in front of the bucket, if there are any.
    pub(super) fleet: Option<Arc<Fleet>>,
    /// Other buckets with the same objects.
    pub(super) replicas: Vec<Poster>,
    pub(super) meters: Meters,
}

impl Posters {
    /// Returns the destinations for a request about `place`, in the order to try them: the next one
    /// if a node failed or is overloaded.
    pub(super) fn of(&self, place: &Place<'_>) -> Vec<Poster> {
        match &self.fleet {
            Some(fleet) => fleet.order(place).into_iter().map(|node| self.own.at(node, &self.meters)).collect(),
            None => std::iter::once(&self.own).chain(&self.replicas).cloned().collect(),
        }
    }
}

impl Poster {
    /// Returns a poster whose failures are recorded for `node`, since other buckets have the same
    /// objects and can be tried instead.
    pub(super) fn replicated(self, node: &Arc<Node>) -> Self {
        Self { idle_timeout: self.idle_timeout.min(NODE_SILENCE), node: Some(Arc::clone(node)), ..self }
    }

    /// Returns a poster for the same bucket at a node in front of it.
    fn at(&self, node: &Arc<Node>, meters: &Meters) -> Self {
        Self {
            http: node.connections.metered(meters.clone()).client(),
            state: Arc::clone(node.connections.state()),
            bucket_url: format!("{}/{}", node.url, self.bucket),
            idle_timeout: self.idle_timeout.min(NODE_SILENCE),
            node: Some(Arc::clone(node)),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests;
