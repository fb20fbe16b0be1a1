//! The users of a server: who may connect, and what each may use.
//!
//! ```text
//! file   the file of users
//! scram  passwords, and the exchange that proves one without sending it
//! ```

mod file;
pub(crate) mod scram;

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use pushdowndb_contract::Result;
use pushdowndb_engine::{AccessPolicy, Engine, UserConfig};
use tokio::sync::OnceCell;

pub(crate) use file::User;
pub use scram::Verifier;

/// The users who may connect.
#[derive(Debug)]
pub(crate) enum Users {
    /// Everyone may connect, under any name, with the rights of this account.
    Anyone(Arc<Account>),
    /// The users of a file.
    Listed(Vec<Arc<Account>>),
}

/// A user, and the engine that all sessions of the user share.
#[derive(Debug)]
pub(crate) struct Account {
    /// The user.
    pub user: User,
    engine: OnceCell<Engine>,
}

impl Account {
    fn new(user: User) -> Arc<Self> {
        Arc::new(Self { user, engine: OnceCell::new() })
    }

    /// Creates a session of this user on the server's engine.
    pub async fn session(&self, shared: &Engine) -> Result<Engine> {
        let engine = self.engine.get_or_try_init(|| {
            let config = UserConfig {
                access: self.user.access.clone(),
                settings: self.user.settings.clone(),
                limits: self.user.limits,
            };
            shared.for_user(config)
        });
        Ok(engine.await?.session())
    }
}

impl Users {
    /// Lets everyone connect, with access limited to `access`.
    pub fn anyone(access: AccessPolicy) -> Self {
        Self::Anyone(Account::new(User::anyone(access)))
    }

    /// Loads the users of a file. Those for whom it lists no locations get `access`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is invalid.
    pub fn load(path: &Path, access: &AccessPolicy) -> Result<Self> {
        Ok(Self::Listed(file::load(path, access)?.into_iter().map(Account::new).collect()))
    }

    /// The account with this name.
    pub fn find(&self, name: &str) -> Option<Arc<Account>> {
        match self {
            Self::Anyone(account) => Some(Arc::clone(account)),
            Self::Listed(accounts) => accounts.iter().find(|account| account.user.name == name).cloned(),
        }
    }

    /// Whether passwords are required.
    pub fn have_passwords(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// The names of the users; empty if everyone may connect.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Anyone(_) => vec![],
            Self::Listed(accounts) => accounts.iter().map(|account| account.user.name.clone()).collect(),
        }
    }
}

/// The current users, which a reload replaces for new connections.
#[derive(Debug)]
pub(crate) struct CurrentUsers(RwLock<Arc<Users>>);

impl CurrentUsers {
    /// Starts with these users.
    pub fn new(users: Users) -> Self {
        Self(RwLock::new(Arc::new(users)))
    }

    /// The current users.
    pub fn get(&self) -> Arc<Users> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the users for new connections.
    pub fn replace(&self, users: Users) {
        *self.0.write() = Arc::new(users);
    }
}
