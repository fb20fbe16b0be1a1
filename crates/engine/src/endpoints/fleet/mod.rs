//! Fleets: any number of nodes before one bucket, each of which can run any fragment.
//!
//! A place in an object has a node of its own by rendezvous hashing, so that the zones, footers and
//! caches that a node made of it are met again. If that node is busy, the request goes to the next
//! one in rank; if it cannot be reached or goes silent, too, and no query waits for it until it answers
//! again. Plain reads go to the bucket's endpoint.

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

/// The time that a node may be silent before another one is asked. A node that works says so every
/// three seconds.
const NODE_SILENCE: Duration = Duration::from_secs(7);

/// The time that a node may take to tell what it is.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The nodes before the bucket of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    nodes: Vec<Arc<Node>>,
}

impl Fleet {
    /// The fleet of `nodes`, of which there is at least one.
    pub(super) fn new(nodes: Vec<Arc<Node>>) -> Self {
        Self { nodes }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The number of the node that has `place` while all are well.
    pub(crate) fn home(&self, place: &Place<'_>) -> usize {
        let ranked = self.nodes.iter().enumerate().max_by_key(|(_, node)| node.rank(place));
        ranked.map_or(0, |(number, _)| number)
    }

    /// The nodes to ask about `place`, in this order: those that are well, busy ones last; if none
    /// is well, all.
    fn order(&self, place: &Place<'_>) -> Vec<&Arc<Node>> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_well()).collect();
        if nodes.is_empty() {
            nodes = self.nodes.iter().collect();
        }
        nodes.sort_by_key(|node| (node.is_busy(), std::cmp::Reverse(node.rank(place))));
        nodes
    }

    /// Asks nodes that have not answered yet what they are, by one HEAD each for the bucket. Those
    /// that failed are asked in the background, so that no query waits for them.
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

    /// What all nodes that were heard of can do; `None` if there is none.
    pub(crate) fn capability(&self) -> Option<Capability> {
        let states = self.nodes.iter().map(|node| node.connections.state());
        let known = states.filter(|state| state.profile() == Some(Profile::PushdownDb));
        let fragment = known.filter_map(|state| state.fragment()).min()?;
        let mut capability = Profile::PushdownDb.capability();
        capability.fragment = Some(fragment);
        Some(capability)
    }

    /// The rates of all nodes that are well together, with the network of `endpoint`.
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

/// Asks `node` by `poster`, and notes whether it answered.
pub(super) async fn look_at(node: Arc<Node>, poster: Poster) {
    match tokio::time::timeout(LOOK_TIMEOUT, poster.head()).await {
        Ok(Ok(())) => node.answered(),
        Ok(Err(_)) | Err(_) => node.failed(),
    }
}

/// Whether another node may answer what one has failed to with `error`.
pub(super) fn moves_on(error: &Error) -> bool {
    error.kind().is_retryable() || matches!(error.kind(), ErrorKind::Unsupported)
}

/// Where the requests of one bucket that push something go.
#[derive(Clone, Debug)]
pub(crate) struct Posters {
    /// To the bucket's endpoint.
    pub(super) own: Poster,
    /// To the nodes before it, if there are any.
    pub(super) fleet: Option<Arc<Fleet>>,
    /// To other buckets with the same objects.
    pub(super) replicas: Vec<Poster>,
    pub(super) meters: Meters,
}

impl Posters {
    /// What sends a request about `place`, in the order to try: the next one if a node has failed
    /// or has too much to do.
    pub(super) fn of(&self, place: &Place<'_>) -> Vec<Poster> {
        match &self.fleet {
            Some(fleet) => fleet.order(place).into_iter().map(|node| self.own.at(node, &self.meters)).collect(),
            None => std::iter::once(&self.own).chain(&self.replicas).cloned().collect(),
        }
    }
}

impl Poster {
    /// The same, where other buckets have the same objects: its failures are noted for `node`.
    pub(super) fn replicated(self, node: &Arc<Node>) -> Self {
        Self { idle_timeout: self.idle_timeout.min(NODE_SILENCE), node: Some(Arc::clone(node)), ..self }
    }

    /// The same, at a node before the bucket.
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
