//! The list of sessions: what each runs, and how to stop it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_engine::QueryContext;
use rand::RngCore;
use tokio::sync::watch;

/// Bytes of the secret with which a client cancels its own queries.
pub(crate) const SECRET_BYTES: usize = 4;

/// What a session is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Waits for its client.
    Idle,
    /// Waits for its client in a transaction.
    IdleInTransaction,
    /// Waits for a slot for its query.
    Waiting,
    /// Runs a query.
    Active,
}

impl Phase {
    /// The state in `pg_stat_activity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::Waiting | Self::Active => "active",
        }
    }
}

/// The current activity of a session.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    pub phase: Phase,
    /// The current query, or the last one.
    pub query: Arc<str>,
    pub query_start: Option<SystemTime>,
    pub state_change: SystemTime,
    pub application: Arc<str>,
    /// The context of the current query.
    pub context: Option<Arc<QueryContext>>,
    /// Number of queries that run at the same time.
    pub running: usize,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Entry {
    pub pid: i32,
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub client: SocketAddr,
    pub started: SystemTime,
    secret: [u8; SECRET_BYTES],
    activity: Mutex<Activity>,
    /// Number of cancel requests so far.
    cancel: watch::Sender<u64>,
    terminate: watch::Sender<bool>,
}

impl Entry {
    /// The secret with which the client cancels its queries.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The current activity.
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// Changes the current activity.
    pub fn change(&self, change: impl FnOnce(&mut Activity)) {
        let mut activity = self.activity.lock();
        change(&mut activity);
        activity.state_change = SystemTime::now();
    }

    /// Subscribes to cancel requests from now on.
    pub fn cancellations(&self) -> Cancellations {
        Cancellations(self.cancel.subscribe())
    }

    /// Waits until the session is terminated.
    pub async fn terminated(&self) {
        let mut terminate = self.terminate.subscribe();
        // An error would mean that the sender is gone, but this entry holds it.
        drop(terminate.wait_for(|is_ended| *is_ended).await);
    }

    /// Whether the session is terminated.
    pub fn is_terminated(&self) -> bool {
        *self.terminate.borrow()
    }

    /// Terminates the session and cancels its queries.
    pub fn terminate(&self) {
        self.terminate.send_replace(true);
        self.cancel();
    }

    fn cancel(&self) {
        self.cancel.send_modify(|count| *count += 1);
    }
}

/// A subscription to cancel requests for a session.
#[derive(Debug)]
pub(crate) struct Cancellations(watch::Receiver<u64>);

impl Cancellations {
    /// Waits for a cancel request that was not seen yet by this subscription.
    pub async fn requested(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last_pid: i32,
    entries: BTreeMap<i32, Arc<Entry>>,
}

/// Compares two secrets in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// The entry of a session in the list, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Listed {
    sessions: Arc<Sessions>,
    /// The session.
    pub entry: Arc<Entry>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.0.lock().entries.remove(&self.entry.pid);
    }
}

impl Sessions {
    /// Adds a session.
    pub fn add(
        self: &Arc<Self>,
        user: Arc<str>,
        database: Arc<str>,
        application: Arc<str>,
        client: SocketAddr,
    ) -> Listed {
        let mut secret = [0; SECRET_BYTES];
        rand::rng().fill_bytes(&mut secret);
        let now = SystemTime::now();
        let activity = Activity {
            phase: Phase::Idle,
            query: "".into(),
            query_start: None,
            state_change: now,
            application,
            context: None,
            running: 0,
        };
        let mut table = self.0.lock();
        loop {
            table.last_pid = if table.last_pid == i32::MAX { 1 } else { table.last_pid + 1 };
            if !table.entries.contains_key(&table.last_pid) {
                break;
            }
        }
        let pid = table.last_pid;
        let entry = Arc::new(Entry {
            pid,
            user,
            database,
            client,
            started: now,
            secret,
            activity: Mutex::new(activity),
            cancel: watch::Sender::new(0),
            terminate: watch::Sender::new(false),
        });
        table.entries.insert(pid, Arc::clone(&entry));
        Listed { sessions: Arc::clone(self), entry }
    }

    /// All sessions, in the order of their pids.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Cancels the queries of the session `pid`. Does nothing if `secret` is wrong.
    pub fn cancel_by_secret(&self, pid: i32, secret: &[u8]) {
        let entry = self.0.lock().entries.get(&pid).cloned();
        if let Some(entry) = entry
            && is_same(&entry.secret, secret)
        {
            entry.cancel();
        }
    }

    /// Cancels the queries of the session `pid` or, with `and_end`, terminates the session, on
    /// behalf of `user`. Returns false if there is no such session.
    ///
    /// # Errors
    ///
    /// The session belongs to another user, and `user` is not an administrator (`is_admin`).
    pub fn stop(&self, pid: i32, user: &str, is_admin: bool, and_end: bool) -> Result<bool> {
        let entry = self.0.lock().entries.get(&pid).cloned();
        let Some(entry) = entry else { return Ok(false) };
        if &*entry.user != user && !is_admin {
            let message = format!("session {pid} is another user's: only administrators may stop it");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        if and_end {
            entry.terminate();
        } else {
            entry.cancel();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_secret_and_administrators_stop_others() {
        let sessions = Arc::new(Sessions::default());
        let address = "127.0.0.1:1".parse().unwrap();
        let listed = sessions.add("ann".into(), "db".into(), "".into(), address);
        let pid = listed.entry.pid;
        let mut requests = listed.entry.cancellations();
        sessions.cancel_by_secret(pid, b"guess");
        sessions.cancel_by_secret(pid, &[0; 0]);
        assert!(sessions.stop(pid, "bob", false, false).is_err());
        assert!(!requests.0.has_changed().unwrap());
        sessions.cancel_by_secret(pid, listed.entry.secret());
        requests.requested().await;
        assert!(sessions.stop(pid, "bob", true, true).unwrap());
        listed.entry.terminated().await;
        drop(listed);
        assert!(sessions.all().is_empty());
        assert!(!sessions.stop(pid, "ann", true, false).unwrap());
    }
}
