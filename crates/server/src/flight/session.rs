//! A session, from its first call to its end.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::statements::Statements;
use crate::activity::sessions::Listed;
use crate::session::SessionCore;

/// A session, from its first call to its end.
pub(super) struct FlightSession {
    pub core: SessionCore,
    pub statements: Statements,
    used: Mutex<Instant>,
    _listed: Listed,
}

impl FlightSession {
    /// Creates a session without statements.
    pub fn new(core: SessionCore, listed: Listed) -> Self {
        Self { core, statements: Statements::default(), used: Mutex::new(Instant::now()), _listed: listed }
    }

    /// Records that the session was used now.
    pub fn is_used(&self) {
        *self.used.lock() = Instant::now();
    }

    /// The time since its last call; zero while a query runs.
    pub fn idle(&self) -> Duration {
        if self.core.entry.activity().running > 0 { Duration::ZERO } else { self.used.lock().elapsed() }
    }
}
