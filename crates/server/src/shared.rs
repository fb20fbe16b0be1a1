//! What all connections share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pushdowndb_engine::{AccessPolicy, Engine};
use pushdowndb_tls::Tls;

use crate::activity::admission::Admission;
use crate::activity::counters::Counters;
use crate::activity::sessions::Sessions;
use crate::users::CurrentUsers;

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum open connections.
    pub connections: usize,
    /// Maximum queries that run at once; more wait.
    pub queries: usize,
    /// Maximum queries that wait; more are refused.
    pub waiting: usize,
    /// Maximum time that a query waits.
    pub patience: Duration,
    /// Maximum bytes of a message: of a statement, or of the values of its parameters.
    pub message_bytes: usize,
    /// Maximum time until a client is authenticated.
    pub authentication: Duration,
    /// Maximum time that a client may read nothing of what is sent to it.
    pub client_stall: Duration,
    /// How long running queries may continue when the server stops.
    pub shutdown: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            connections: 256,
            queries: (2 * cores).max(8),
            waiting: 256,
            patience: Duration::from_secs(60),
            message_bytes: 64 * 1024 * 1024,
            authentication: Duration::from_secs(10),
            client_stall: Duration::from_secs(300),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// The state that all connections share.
pub(crate) struct Server {
    pub engine: Engine,
    pub users: CurrentUsers,
    pub sessions: Arc<Sessions>,
    pub admission: Arc<Admission>,
    pub counters: Arc<Counters>,
    pub tls: Option<Tls>,
    /// The same certificate, configured for Flight SQL.
    pub flight_tls: Option<Tls>,
    pub limits: ServerLimits,
    /// A secret from which the salts of nonexistent users are derived, so that they do not change
    /// between attempts.
    pub secret: [u8; 32],
    /// The file of users, if there is one.
    pub users_file: Option<PathBuf>,
    /// The locations that SQL may use, except for users who have locations of their own.
    pub access: AccessPolicy,
}
