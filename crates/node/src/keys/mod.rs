//! Access keys: secrets, rights and shares of the node.

mod credentials;
mod keyring;

pub use credentials::Credentials;
pub(crate) use keyring::ActiveKeys;
pub use keyring::{Grants, Key, Keyring, Right};
