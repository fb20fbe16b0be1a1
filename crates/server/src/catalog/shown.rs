//! What the catalogue shows of a session and its server.

use std::sync::Arc;

use pushdowndb_engine::Engine;

use crate::activity::sessions::{Entry, Sessions};
use crate::variables::SharedVariables;

/// What the catalogue shows of a session and its server.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub engine: Arc<Engine>,
    pub sessions: Arc<Sessions>,
    pub own: Arc<Entry>,
    pub is_admin: bool,
    /// The names in the file of users; empty without such a file.
    pub users: Vec<String>,
    pub variables: SharedVariables,
}

impl Shown {
    /// The names of all users, or only the session's own without a file of users.
    pub fn roles(&self) -> Vec<String> {
        if self.users.is_empty() { vec![self.own.user.to_string()] } else { self.users.clone() }
    }
}
