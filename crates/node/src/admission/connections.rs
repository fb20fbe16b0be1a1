//! Open connections, and which of them is closed when there are too many.
//!
//! A connection is *unproven* until a request on it is authenticated, *busy* while an authenticated
//! request is in progress, and *idle* between requests. Closing an unproven or idle connection
//! costs an honest client nothing: it authenticates within milliseconds, and reopens a connection
//! that was closed while idle. So a new connection is refused only if every connection is busy.
//! Otherwise the oldest one that is not busy is closed; if the peer address has reached its share,
//! the oldest such connection of that address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The state of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Unproven,
    Busy,
    Idle,
}

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    /// Maximum connections per peer address.
    share: usize,
    /// Maximum unproven connections per peer address.
    unproven: usize,
    open: Mutex<BTreeMap<u64, Entry>>,
    next: AtomicU64,
    closed: AtomicU64,
    freed: Notify,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    phase: Phase,
    close: CancellationToken,
}

/// An open connection. Dropping it removes it from the count.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    peer: IpAddr,
    close: CancellationToken,
    all: Arc<Connections>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// All connections that the peer address may have are open and busy.
    Share,
    /// All connections of the node are busy.
    Full,
}

impl Connections {
    /// Allows `limit` connections in total, and for each peer address at most `share` connections
    /// and at most `unproven` unproven ones.
    pub fn new(limit: usize, share: usize, unproven: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            share: share.clamp(1, limit.max(1)),
            unproven: unproven.max(1),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Admits a connection from `peer`. If there are too many, another one is closed for it, or the
    /// connection is refused if all are busy.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<Connection, Refused> {
        let mut open = self.open.lock();
        let of_peer = open.values().filter(|entry| entry.peer == peer);
        let (all, unproven) = of_peer
            .fold((0, 0), |(all, unproven), entry| (all + 1, unproven + usize::from(entry.phase == Phase::Unproven)));
        let mine = |entry: &Entry| entry.peer == peer;
        if unproven >= self.unproven {
            self.close_oldest(&mut open, |entry| mine(entry) && entry.phase == Phase::Unproven);
        } else if all >= self.share && !self.close_oldest(&mut open, |entry| mine(entry) && entry.phase != Phase::Busy)
        {
            return Err(Refused::Share);
        }
        if open.len() >= self.limit && !self.close_oldest(&mut open, |entry| entry.phase != Phase::Busy) {
            return Err(Refused::Full);
        }
        let (id, close) = (self.next.fetch_add(1, Relaxed), CancellationToken::new());
        open.insert(id, Entry { peer, phase: Phase::Unproven, close: close.clone() });
        Ok(Connection { id, peer, close, all: Arc::clone(self) })
    }

    /// Closes the oldest connection for which `may` holds. Returns whether there was one.
    fn close_oldest(&self, open: &mut BTreeMap<u64, Entry>, may: impl Fn(&Entry) -> bool) -> bool {
        let Some(id) = open.iter().find(|(_, entry)| may(entry)).map(|(id, _)| *id) else { return false };
        if let Some(entry) = open.remove(&id) {
            entry.close.cancel();
            self.closed.fetch_add(1, Relaxed);
        }
        true
    }

    /// Waits until a connection ends or can be closed.
    pub async fn room(&self) {
        self.freed.notified().await;
    }

    /// The number of connections closed to make room.
    pub fn closed(&self) -> u64 {
        self.closed.load(Relaxed)
    }

    /// Whether all connections are busy.
    pub fn is_overloaded(&self) -> bool {
        let open = self.open.lock();
        open.len() >= self.limit && open.values().all(|entry| entry.phase == Phase::Busy)
    }
}

impl Connection {
    /// The address of the peer.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Waits until the connection must be closed to make room.
    pub async fn closing(&self) {
        self.close.cancelled().await;
    }

    /// Records the state of the connection.
    pub fn enter(&self, phase: Phase) {
        let mut open = self.all.open.lock();
        if let Some(entry) = open.get_mut(&self.id) {
            entry.phase = phase;
        }
        if phase != Phase::Busy {
            self.all.freed.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.open.lock().remove(&self.id);
        self.all.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn unproven_connections_give_way_to_new_ones() {
        let all = Connections::new(4, 4, 2);
        let (first, second) = (all.admit(A).unwrap(), all.admit(A).unwrap());
        let third = all.admit(A).unwrap();
        assert!(first.close.is_cancelled() && !second.close.is_cancelled() && !third.close.is_cancelled());
        third.enter(Phase::Busy);
        let fourth = all.admit(A).unwrap();
        assert!(!second.close.is_cancelled(), "one unproven is left and one was added");
        drop(all.admit(A).unwrap());
        assert!(second.close.is_cancelled() && !fourth.close.is_cancelled());
        assert_eq!(all.closed(), 2);
    }

    #[test]
    fn busy_connections_are_kept_and_leave_room_for_other_addresses() {
        let all = Connections::new(3, 2, 9);
        let open = [all.admit(A).unwrap(), all.admit(A).unwrap()];
        open.iter().for_each(|connection| connection.enter(Phase::Busy));
        assert_eq!(all.admit(A).err(), Some(Refused::Share));
        let other = all.admit(B).unwrap();
        other.enter(Phase::Busy);
        assert!(all.is_overloaded());
        assert_eq!(all.admit(B).err(), Some(Refused::Full));
        open[0].enter(Phase::Idle);
        let next = all.admit(A).unwrap();
        assert!(open[0].close.is_cancelled() && !next.close.is_cancelled());
    }
}
