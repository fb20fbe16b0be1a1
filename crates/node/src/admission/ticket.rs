//! The resources of one request: taken on admission, returned when its response has been sent.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{Connection, Phase, Share, Shares};
use crate::Limits;

/// The slots for requests in progress.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    limit: usize,
    by_key: Shares,
    by_peer: Shares,
    key_share: usize,
    peer_share: usize,
    wait: Duration,
    refused: AtomicU64,
}

/// The key that signed a request, and its share of the node.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub key: String,
    /// Maximum requests in progress; `None` is the node's default.
    pub requests: Option<usize>,
    /// Maximum scans, running or waiting; `None` is the node's default.
    pub scans: Option<usize>,
}

/// Why a request was refused: the node, its key or its peer address had no free slot within
/// `request_wait`. Each variant holds the limit that was reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rejected {
    Node(usize),
    Key(usize),
    Peer(usize),
}

/// The resources that one request holds.
#[derive(Debug)]
pub(crate) struct Ticket {
    admission: Arc<Admission>,
    connection: Option<Arc<Connection>>,
    held: Mutex<Option<Held>>,
    authenticated: AtomicBool,
    proven: Notify,
}

#[derive(Debug)]
struct Held {
    _key: Share,
    _peer: Option<Share>,
    _place: OwnedSemaphorePermit,
}

impl Admission {
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(limits.requests)),
            limit: limits.requests,
            by_key: Shares::default(),
            by_peer: Shares::default(),
            key_share: limits.key_share(limits.requests),
            peer_share: limits.peer_share(limits.requests),
            wait: limits.request_wait,
            refused: AtomicU64::new(0),
        })
    }

    /// Returns the ticket of a request that came in on `connection`.
    pub fn ticket(self: &Arc<Self>, connection: Option<Arc<Connection>>) -> Arc<Ticket> {
        Arc::new(Ticket {
            admission: Arc::clone(self),
            connection,
            held: Mutex::default(),
            authenticated: AtomicBool::new(false),
            proven: Notify::new(),
        })
    }

    /// Whether all slots are taken.
    pub fn is_overloaded(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// The number of requests refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    async fn hold(&self, requester: &Requester, peer: Option<IpAddr>) -> Result<Held, Rejected> {
        let key_share = requester.requests.unwrap_or(self.key_share);
        let until = Instant::now() + self.wait;
        let key = timeout_at(until, self.by_key.take(&requester.key, key_share)).await;
        let key = key.ok().flatten().ok_or(Rejected::Key(key_share))?;
        let of_peer = match peer {
            Some(peer) => {
                let share = timeout_at(until, self.by_peer.take(&peer.to_string(), self.peer_share)).await;
                Some(share.ok().flatten().ok_or(Rejected::Peer(self.peer_share))?)
            }
            None => None,
        };
        let place = timeout_at(until, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Rejected::Node(self.limit))?;
        Ok(Held { _key: key, _peer: of_peer, _place: place })
    }
}

impl Ticket {
    /// Marks the request as authenticated, which ends the time limit for unproven peers.
    pub fn authenticate(&self) {
        if let Some(connection) = &self.connection {
            connection.enter(Phase::Busy);
        }
        self.authenticated.store(true, Relaxed);
        self.proven.notify_one();
    }

    /// Waits for a slot for an authorized request. Returns at once if the ticket already has one.
    pub async fn admit(&self, requester: &Requester) -> Result<(), Rejected> {
        if self.is_admitted() {
            return Ok(());
        }
        self.authenticate();
        let peer = self.connection.as_ref().map(|connection| connection.peer());
        let held = self.admission.hold(requester, peer).await.inspect_err(|_| {
            self.admission.refused.fetch_add(1, Relaxed);
        })?;
        *self.held.lock() = Some(held);
        Ok(())
    }

    pub fn is_admitted(&self) -> bool {
        self.held.lock().is_some()
    }

    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Relaxed)
    }

    /// Waits until the request is authenticated.
    pub async fn authenticated(&self) {
        self.proven.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        *self.held.get_mut() = None;
        if let Some(connection) = self.connection.as_ref().filter(|_| *self.authenticated.get_mut()) {
            connection.enter(Phase::Idle);
        }
    }
}

impl Rejected {
    /// The message for the client.
    pub fn message(self) -> String {
        match self {
            Self::Node(limit) => format!("{limit} requests are under way, which is the limit; try again"),
            Self::Key(limit) => {
                format!("{limit} requests of this access key are under way, which is its share; try again")
            }
            Self::Peer(limit) => {
                format!("{limit} requests from this address are under way, which is its share; try again")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(key: &str) -> Requester {
        Requester { key: key.to_owned(), requests: None, scans: None }
    }

    #[tokio::test]
    async fn a_key_that_took_its_share_leaves_places_for_others() {
        let limits =
            Limits { requests: 4, key_share_percent: 75, request_wait: Duration::from_millis(10), ..Limits::default() };
        let admission = Admission::new(&limits);
        let tickets: Vec<_> = (0..4).map(|_| admission.ticket(None)).collect();
        for ticket in &tickets[..3] {
            ticket.admit(&requester("slow")).await.unwrap();
        }
        assert_eq!(tickets[3].admit(&requester("slow")).await, Err(Rejected::Key(3)));
        assert!(!admission.is_overloaded());
        tickets[3].admit(&requester("other")).await.unwrap();
        tickets[3].admit(&requester("other")).await.unwrap();
        assert!(admission.is_overloaded());
        let late = admission.ticket(None);
        assert_eq!(late.admit(&requester("third")).await, Err(Rejected::Node(4)));
        assert_eq!(admission.refused(), 2);
        drop(tickets);
        late.admit(&requester("third")).await.unwrap();
    }
}
