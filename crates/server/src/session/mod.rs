//! The parts of a session that do not depend on the client's protocol: its engine, settings and
//! catalog, and how its statements are planned and run.
//!
//! ```text
//! settings  SET, SHOW and RESET
//! answer    statements that the session answers itself
//! run       plans and starts statements, on the engine or the catalogue
//! ```

mod answer;
mod run;
mod settings;

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use pushdowndb_engine::Engine;

pub(crate) use answer::Reply;
pub(crate) use run::{Plan, Source, count, is_counted};

use crate::activity::sessions::Entry;
use crate::catalog::{Catalogue, Shown};
use crate::error::{PgError, code};
use crate::shared::Server;
use crate::users::Account;
use crate::variables::SharedVariables;

/// Maximum prepared statements of a session.
const MAX_PREPARED: usize = 10_000;

/// The part of a session that all protocols share. Its statements may run concurrently.
pub(crate) struct SessionCore {
    pub server: Arc<Server>,
    pub entry: Arc<Entry>,
    pub account: Arc<Account>,
    pub variables: SharedVariables,
    engine: RwLock<Arc<Engine>>,
    catalogue: Mutex<Option<Arc<Catalogue>>>,
}

impl SessionCore {
    /// Creates a session of `account` that runs on `engine`.
    pub fn new(
        server: Arc<Server>,
        entry: Arc<Entry>,
        account: Arc<Account>,
        engine: Engine,
        variables: SharedVariables,
    ) -> Self {
        let engine = RwLock::new(Arc::new(engine));
        Self { server, entry, account, variables, engine, catalogue: Mutex::default() }
    }

    /// Checks that a session with `prepared` statements may prepare another.
    ///
    /// # Errors
    ///
    /// The session has the maximum number of prepared statements.
    pub fn may_prepare(prepared: usize) -> Result<(), PgError> {
        if prepared < MAX_PREPARED {
            return Ok(());
        }
        let message = format!("a session has at most {MAX_PREPARED} prepared statements: close some");
        Err(PgError::new(code::LIMIT, message))
    }

    /// The session's engine.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read())
    }

    /// The state that the catalog shows.
    pub fn shown(&self) -> Shown {
        Shown {
            engine: self.engine(),
            sessions: Arc::clone(&self.server.sessions),
            own: Arc::clone(&self.entry),
            is_admin: self.account.user.is_admin,
            users: self.server.users.get().names(),
            variables: self.variables.clone(),
        }
    }

    /// The session's catalog, created on first use.
    ///
    /// # Errors
    ///
    /// The catalog cannot be created.
    pub fn catalogue(&self) -> Result<Arc<Catalogue>, PgError> {
        let mut kept = self.catalogue.lock();
        if let Some(catalogue) = &*kept {
            return Ok(Arc::clone(catalogue));
        }
        let made = Arc::new(Catalogue::new(self.shown()).map_err(|error| PgError::from(&error))?);
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Resets the session to the user's settings, without tables of its own.
    ///
    /// # Errors
    ///
    /// The engine cannot create a session.
    pub async fn begin_anew(&self) -> Result<(), PgError> {
        let engine = self.account.session(&self.server.engine).await.map_err(|error| PgError::from(&error))?;
        *self.engine.write() = Arc::new(engine);
        *self.catalogue.lock() = None;
        self.variables.reset_all();
        Ok(())
    }
}
