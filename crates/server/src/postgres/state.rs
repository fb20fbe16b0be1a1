//! The state of a session of this protocol: its transaction, prepared statements and portals.

use std::collections::HashMap;
use std::sync::Arc;

use super::portal::{Portal, Stored};
use crate::error::{PgError, code};
use crate::session::SessionCore;

/// A transaction block. It is never undone; it exists for clients that always open one.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Whether it is open.
    pub is_open: bool,
    /// Whether a statement in it has failed.
    pub has_failed: bool,
    /// Whether something was written or defined in it.
    pub has_changes: bool,
    pub savepoints: Vec<String>,
    /// The values that SET LOCAL replaced.
    pub before: Vec<(String, Option<String>)>,
}

/// A session that has started.
pub(super) struct Session {
    pub core: Arc<SessionCore>,
    pub transaction: Transaction,
    pub statements: HashMap<String, Stored>,
    pub portals: HashMap<String, Portal>,
}

impl Session {
    /// Creates a session without prepared statements.
    pub fn new(core: Arc<SessionCore>) -> Self {
        Self { core, transaction: Transaction::default(), statements: HashMap::new(), portals: HashMap::new() }
    }

    /// Resets the session to the user's settings, without tables, prepared statements and portals
    /// of its own.
    pub(super) async fn discard_all(&mut self) -> Result<(), PgError> {
        if self.transaction.is_open {
            return Err(PgError::new(code::IN_TRANSACTION, "DISCARD ALL cannot run inside a transaction block"));
        }
        self.core.begin_anew().await?;
        self.statements.clear();
        self.portals.clear();
        Ok(())
    }
}
