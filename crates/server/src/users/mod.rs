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

/// Who may connect.
#[derive(Debug)]
pub(crate) enum Users {
    /// Anyone, by any name, to do what this user may.
    Anyone(Arc<Account>),
    /// The users of a file.
    Listed(Vec<Arc<Account>>),
}

/// A user and the engine of all of the user's sessions.
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

    /// A session of this user over the server's engine.
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
    /// Anyone, held to `access`.
    pub fn anyone(access: AccessPolicy) -> Self {
        Self::Anyone(Account::new(User::anyone(access)))
    }

    /// The users of a file; those for whom it lists no locations are held to `access`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something in it is wrong.
    pub fn load(path: &Path, access: &AccessPolicy) -> Result<Self> {
        Ok(Self::Listed(file::load(path, access)?.into_iter().map(Account::new).collect()))
    }

    /// The account of this name.
    pub fn find(&self, name: &str) -> Option<Arc<Account>> {
        match self {
            Self::Anyone(account) => Some(Arc::clone(account)),
            Self::Listed(accounts) => accounts.iter().find(|account| account.user.name == name).cloned(),
        }
    }

    /// Whether passwords are asked for.
    pub fn have_passwords(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// The names.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Anyone(_) => vec![],
            Self::Listed(accounts) => accounts.iter().map(|account| account.user.name.clone()).collect(),
        }
    }
}

/// The present users, which a reload replaces for new connections.
#[derive(Debug)]
pub(crate) struct CurrentUsers(RwLock<Arc<Users>>);

impl CurrentUsers {
    /// Begins with these.
    pub fn new(users: Users) -> Self {
        Self(RwLock::new(Arc::new(users)))
    }

    /// The present users.
    pub fn get(&self) -> Arc<Users> {
        Arc::clone(&self.0.read())
    }

    /// Replaces them for new connections.
    pub fn replace(&self, users: Users) {
        *self.0.write() = Arc::new(users);
    }
}
