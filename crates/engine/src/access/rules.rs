//! The rules of a policy, and access to one store under them.

use std::net::IpAddr;
use std::sync::Arc;

use pushdowndb_contract::{Error, ErrorKind, Result};
use url::Url;

use super::address;
use super::address::Network;
use super::place::{Location, Store};

/// How a location is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Read,
    /// Write and delete.
    Write,
}

/// The lists of a policy. Locations are listed as written and with links resolved.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) read: Vec<Location>,
    pub(super) write: Vec<Location>,
    pub(super) addresses: Vec<Network>,
}

impl Rules {
    pub(super) fn list(&self, mode: Mode) -> &[Location] {
        match mode {
            Mode::Read => &self.read,
            Mode::Write => &self.write,
        }
    }

    /// Fails if no location that is listed for `mode` covers `path` in `store`.
    pub(super) fn check(&self, mode: Mode, store: &Store, path: &str) -> Result<()> {
        if self.list(mode).iter().any(|rule| rule.covers(store, path)) {
            return Ok(());
        }
        let slash = if *store == Store::Disk { "" } else { "/" };
        let store = if *store == Store::Disk { "/".to_owned() } else { store.to_string() };
        Err(not_listed(&format!("{store}{slash}{path}"), Some(mode)))
    }

    /// Fails if `address`, to which `host` was resolved, is not public, unless a network or a
    /// location lists it.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<()> {
        let Some(what) = address::not_public(address) else { return Ok(()) };
        let address = address.to_canonical();
        let is_written = |location: &Location| match &location.store {
            Store::Web { host, .. } => is_address(host, address),
            _ => false,
        };
        let is_own_name = is_address(host, address) && self.read.iter().chain(&self.write).any(is_written);
        if is_own_name || self.addresses.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        let message = format!(
            "{}: it is at {address}, {what}; list it among the addresses of the policy (AllowList::addresses, or \
             --allow-address on the command line) if SQL may reach it",
            refused(host)
        );
        Err(Error::new(ErrorKind::Denied, message))
    }
}

/// Returns the store that `url` names. An invalid or ambiguous URL is denied.
pub(super) fn store_of(url: &Url) -> Result<Store> {
    // Without a user name: it may stand beside a password.
    let shown = format!("{}://{}", url.scheme(), &url[url::Position::BeforeHost..url::Position::AfterPort]);
    Store::of(url).map_err(|error| Error::new(ErrorKind::Denied, format!("{}: {error}", refused(&shown))))
}

/// Returns whether `host` is `address` in literal form, or `localhost` for a loopback address.
pub(super) fn is_address(host: &str, address: IpAddr) -> bool {
    let is_local = host == "localhost" || host.ends_with(".localhost");
    (is_local && address.is_loopback()) || host.parse::<IpAddr>().is_ok_and(|host| host.to_canonical() == address)
}

pub(super) fn refused(what: &str) -> String {
    format!("{what}: refused by the access policy")
}

/// Returns the error for a location that is not listed for `mode`, or for any use if it is `None`.
pub(super) fn not_listed(what: &str, mode: Option<Mode>) -> Error {
    let (use_of_it, list, flag) = match mode {
        Some(Mode::Read) => ("read", "AllowList::read", "--allow"),
        Some(Mode::Write) => ("write", "AllowList::write", "--allow-write"),
        None => ("use", "AllowList", "--allow or --allow-write"),
    };
    let message = format!(
        "{}: no location that SQL may {use_of_it} covers it; list one that does ({list}, or {flag} LOCATION on \
         the command line)",
        refused(what)
    );
    Error::new(ErrorKind::Denied, message)
}

/// Access to one store under the policy; `None` permits everything.
#[derive(Clone, Debug)]
pub(crate) struct StoreAccess(pub(super) Option<(Arc<Rules>, Store)>);

impl StoreAccess {
    /// Fails if the policy does not permit `mode` for `path`.
    pub(crate) fn check(&self, mode: Mode, path: impl AsRef<str>) -> Result<()> {
        let Some((rules, store)) = &self.0 else { return Ok(()) };
        rules.check(mode, store, path.as_ref())
    }
}
