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

/// What clients may use up.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections open at once.
    pub connections: usize,
    /// Queries that run at once; more wait.
    pub queries: usize,
    /// Queries that wait; more are refused.
    pub waiting: usize,
    /// The longest that a query waits.
    pub patience: Duration,
    /// The most bytes of a message: of a statement, or of the values of its parameters.
    pub message_bytes: usize,
    /// The longest that a client takes until it is authenticated.
    pub authentication: Duration,
    /// The longest that a client may read nothing of what is sent to it.
    pub client_stall: Duration,
    /// How long queries under way may go on when the server stops.
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

/// What all connections share.
pub(crate) struct Server {
    pub engine: Engine,
    pub users: CurrentUsers,
    pub sessions: Arc<Sessions>,
    pub admission: Arc<Admission>,
    pub counters: Arc<Counters>,
    pub tls: Option<Tls>,
    /// The same certificate for Flight SQL.
    pub flight_tls: Option<Tls>,
    pub limits: ServerLimits,
    /// Makes what is shown of users that do not exist always the same.
    pub secret: [u8; 32],
    /// The file of users, if there is one.
    pub users_file: Option<PathBuf>,
    /// The locations that SQL may use, but for users that have their own.
    pub access: AccessPolicy,
}
