//! A session of the protocol: its transaction, what it has prepared.

use std::collections::HashMap;
use std::sync::Arc;

use super::portal::{Portal, Stored};
use crate::error::{PgError, code};
use crate::session::SessionCore;

/// A transaction block. Nothing in it is undone: it is there for clients that always open one.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Whether it is open.
    pub is_open: bool,
    /// Whether a statement in it has failed.
    pub has_failed: bool,
    /// Whether something was written or defined.
    pub has_changes: bool,
    pub savepoints: Vec<String>,
    /// What SET LOCAL replaced.
    pub before: Vec<(String, Option<String>)>,
}

/// A session after its start.
pub(super) struct Session {
    pub core: Arc<SessionCore>,
    pub transaction: Transaction,
    pub statements: HashMap<String, Stored>,
    pub portals: HashMap<String, Portal>,
}

impl Session {
    /// A session that has prepared nothing yet.
    pub fn new(core: Arc<SessionCore>) -> Self {
        Self { core, transaction: Transaction::default(), statements: HashMap::new(), portals: HashMap::new() }
    }

    /// Begins anew: with the user's settings, and no tables of the session's own.
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
