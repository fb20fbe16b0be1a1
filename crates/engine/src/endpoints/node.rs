//! A node of a fleet: the places assigned to it, its connections, its load and its health.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pushdowndb_contract::{Profile, Split};
use url::Url;

use super::http::Connections;

/// Time after which a node that failed is tried again; it doubles with each failure.
const FIRST_REST: Duration = Duration::from_secs(1);

/// Maximum time after which a node that failed is tried again.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Upper bound on the time that trying a failed node takes.
const LONGEST_LOOK: Duration = Duration::from_secs(4);

/// Requests in flight per core from which a node counts as busy.
const REQUESTS_PER_CORE: usize = 2;

/// Requests in flight from which a node counts as busy that has not reported its cores.
const REQUESTS_OF_UNKNOWN: usize = 4;

/// Size of the stretches of an object that are assigned to nodes: several nodes scan a large
/// object.
pub(super) const STRETCH_BYTES: u64 = 64 * 1024 * 1024;

/// A stretch of an object, which is assigned to one node.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Place<'a> {
    key: &'a str,
    etag: Option<&'a str>,
    stretch: u64,
}

impl<'a> Place<'a> {
    /// The place of the first byte of `split`.
    pub(crate) fn of_split(split: &'a Split) -> Self {
        let offset = split.range.as_ref().map_or(0, |range| range.start);
        Self::of(&split.key, split.etag.as_deref(), offset)
    }

    /// The place of the byte `offset` of an object.
    pub(crate) fn of(key: &'a str, etag: Option<&'a str>, offset: u64) -> Self {
        Self { key, etag, stretch: offset / STRETCH_BYTES }
    }
}

/// A node that serves the buckets of an endpoint, shared by all queries of a process.
pub(crate) struct Node {
    /// Its address, without a trailing slash.
    pub(crate) url: String,
    pub(crate) connections: Connections,
    in_flight: AtomicUsize,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    /// Number of failures since the last answer.
    failures: u32,
    rests_until: Option<Instant>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn new(url: &Url, connections: Connections) -> Self {
        let url = url.as_str().trim_end_matches('/').to_owned();
        Self { url, connections, in_flight: AtomicUsize::new(0), health: Mutex::default() }
    }

    /// Returns the node's rank for `place`. The node with the highest rank has the place
    /// (rendezvous hashing), so a node that comes or goes moves only its own share.
    pub(super) fn rank(&self, place: &Place<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.url, place).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the node has answered since its last failure, or never failed.
    pub(super) fn is_well(&self) -> bool {
        self.health.lock().failures == 0
    }

    /// Returns whether the node failed and should be tried now. Further calls return false while
    /// the trial may last.
    pub(super) fn is_due(&self) -> bool {
        let (mut health, now) = (self.health.lock(), Instant::now());
        let is_due = health.rests_until.is_some_and(|until| until <= now);
        if is_due {
            health.rests_until = Some(now + LONGEST_LOOK);
        }
        is_due
    }

    /// Whether the node has at least as many requests in flight as keep its cores busy.
    pub(super) fn is_busy(&self) -> bool {
        let rates = self.connections.state().speed.rates(Profile::PushdownDb, Instant::now());
        let most = rates.advertised_cores().map_or(REQUESTS_OF_UNKNOWN, |cores| cores * REQUESTS_PER_CORE);
        self.in_flight.load(Ordering::Relaxed) >= most
    }

    /// Records an answer, which makes the node healthy.
    pub(crate) fn answered(&self) {
        *self.health.lock() = Health::default();
    }

    /// Records that the node could not be reached, sent nothing for too long, or broke off.
    pub(crate) fn failed(&self) {
        let mut health = self.health.lock();
        let rest = FIRST_REST.saturating_mul(1 << health.failures.min(16)).min(LONGEST_REST);
        health.failures = health.failures.saturating_add(1);
        health.rests_until = Some(Instant::now() + rest);
        tracing::debug!(node = self.url, rest_s = rest.as_secs(), "a node failed");
    }

    /// Counts a request as in flight until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

/// A request to a node, in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Node>);

impl InFlight {
    pub(crate) fn node(&self) -> &Node {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
