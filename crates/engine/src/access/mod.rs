//! The access policy: the one gate before every file and every connection that SQL can ask for.
//!
//! ```text
//! SQL      CREATE EXTERNAL TABLE, FROM 's3://…', COPY, CREATE INDEX, SET, pointers to indexes, …
//!            │ a location, however it is written
//! gate     Access::store      may anything of this bucket, host or disk be used?
//!          StoreAccess        may this path of it be read, written?   (each call of each store)
//!            ::open_file      is the file that was opened the one that was decided on?
//!          CheckedHttp        is the request for the host that was allowed, the address one it may have?
//!            │
//! outside  local disk, S3 endpoint, web servers
//! ```
//!
//! [`Backends`](crate::backends::Backends) makes every store, and asks here for each; so do the few places that
//! open files of their own. `tests/it/doors.rs` lists the modules that may open anything and fails when there is another.
//!
//! Locations are compared in their canonical form ([`Location`]): links of local folders are resolved before it is decided,
//! and what was opened is looked at again. Of hosts, the address that is connected to decides, after the name was resolved.
//!
//! What the program itself names is not SQL's: the endpoint and credentials of the connection, the files of the catalogue, of
//! statistics and of certificates, and the settings in its [`EngineConfig`](crate::EngineConfig).

mod address;
mod client;
mod disk;
mod disk_store;
mod place;
mod policy;
mod remote_store;

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use pushdown::{Error, ErrorKind, Result};
use url::Url;

pub use address::Network;
pub(crate) use client::HttpClients;
pub use place::Location;
use place::Store;
pub(crate) use place::absolute;
pub use policy::{AccessPolicy, AllowList};

/// A larger file of settings is not read.
const TEXT_BYTES: u64 = 1024 * 1024;

/// What a location is used for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Read,
    /// And delete.
    Write,
}

/// What the SQL of a session may use.
#[derive(Clone, Debug)]
pub(crate) struct Access(Option<Arc<Rules>>);

/// The lists of a policy, with the links in them resolved.
#[derive(Debug)]
pub(super) struct Rules {
    read: Vec<Location>,
    write: Vec<Location>,
    addresses: Vec<Network>,
}

impl Access {
    /// Without any rule.
    pub(crate) fn everything() -> Self {
        Self(None)
    }

    pub(crate) fn new(policy: AccessPolicy) -> Self {
        let AccessPolicy::Only(AllowList { read, write, addresses }) = policy else { return Self::everything() };
        // Both forms: the one that is written in SQL, and the one that files are found at.
        let with_real = |mut list: Vec<Location>| {
            let real: Vec<Location> = list.iter().filter_map(Location::resolved).collect();
            list.extend(real);
            list
        };
        Self(Some(Arc::new(Rules { read: with_real(read), write: with_real(write), addresses })))
    }

    /// Whether there is no rule.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Access to a store, by an address in it; refused if nothing of the store may be used.
    pub(crate) fn store(&self, url: &Url) -> Result<StoreAccess> {
        let Some(rules) = &self.0 else { return Ok(StoreAccess(None)) };
        let store = store_of(url)?;
        if !rules.read.iter().chain(&rules.write).any(|rule| rule.store.covers(&store)) {
            return Err(not_listed(&store.to_string(), None));
        }
        Ok(StoreAccess(Some((Arc::clone(rules), store))))
    }

    /// Refuses to find out whether there is such a file, unless it may be used in some way.
    pub(crate) fn look_at(&self, path: &FilePath) -> Result<()> {
        let Some(rules) = &self.0 else { return Ok(()) };
        let text = place::disk_path(&absolute(path)?)?;
        let is_listed = |mode| rules.check(mode, &Store::Disk, &text).is_ok();
        match is_listed(Mode::Read) || is_listed(Mode::Write) {
            true => Ok(()),
            false => Err(not_listed(&format!("/{text}"), None)),
        }
    }

    /// Refuses a location that a statement names for this use.
    pub(crate) fn named(&self, mode: Mode, store: &Url, path: &Path) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(rules) => rules.check(mode, &store_of(store)?, path.as_ref()),
        }
    }

    /// A folder that SQL names for files of its own, as it is found on the disk.
    pub(crate) fn folder(&self, mode: Mode, path: &FilePath) -> Result<PathBuf> {
        match &self.0 {
            None => Ok(path.to_owned()),
            Some(rules) => rules.place(mode, &absolute(path)?),
        }
    }

    /// The text of a small file that SQL names.
    pub(crate) fn read_text(&self, path: &FilePath) -> Result<String> {
        let name = path.display();
        let failed = |error: std::io::Error| disk::failed(path, error);
        let file = match &self.0 {
            None => File::open(path).map_err(failed)?,
            Some(rules) => rules.open(&absolute(path)?)?,
        };
        let mut text = String::new();
        file.take(TEXT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > TEXT_BYTES {
            return Err(Error::new(ErrorKind::Limit, format!("{name}: it has more than {TEXT_BYTES} bytes")));
        }
        Ok(text)
    }

    fn rules(&self) -> Option<&Arc<Rules>> {
        self.0.as_ref()
    }
}

impl Rules {
    fn list(&self, mode: Mode) -> &[Location] {
        match mode {
            Mode::Read => &self.read,
            Mode::Write => &self.write,
        }
    }

    /// Refuses what no listed location covers.
    fn check(&self, mode: Mode, store: &Store, path: &str) -> Result<()> {
        if self.list(mode).iter().any(|rule| rule.covers(store, path)) {
            return Ok(());
        }
        let slash = if *store == Store::Disk { "" } else { "/" };
        let store = if *store == Store::Disk { "/".to_owned() } else { store.to_string() };
        Err(not_listed(&format!("{store}{slash}{path}"), Some(mode)))
    }

    /// Refuses an address that is not public, unless it is listed: by a network, or by a location that is written with it.
    fn check_address(&self, host: &str, address: IpAddr) -> Result<()> {
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

/// The store of an address that is held to a policy: one that cannot be read in one way alone is refused.
fn store_of(url: &Url) -> Result<Store> {
    // Without a user name: it may stand beside a password.
    let shown = format!("{}://{}", url.scheme(), &url[url::Position::BeforeHost..url::Position::AfterPort]);
    Store::of(url).map_err(|error| Error::new(ErrorKind::Denied, format!("{}: {error}", refused(&shown))))
}

/// Whether a host is this address in words: itself, or `localhost` for those of this machine.
fn is_address(host: &str, address: IpAddr) -> bool {
    let is_local = host == "localhost" || host.ends_with(".localhost");
    (is_local && address.is_loopback()) || host.parse::<IpAddr>().is_ok_and(|host| host.to_canonical() == address)
}

fn refused(what: &str) -> String {
    format!("{what}: refused by the access policy")
}

/// The refusal of what is not listed for this use, or for any.
fn not_listed(what: &str, mode: Option<Mode>) -> Error {
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

/// Access to one store.
#[derive(Clone, Debug)]
pub(crate) struct StoreAccess(Option<(Arc<Rules>, Store)>);

impl StoreAccess {
    /// Refuses a path that may not be used so.
    pub(crate) fn check(&self, mode: Mode, path: impl AsRef<str>) -> Result<()> {
        let Some((rules, store)) = &self.0 else { return Ok(()) };
        rules.check(mode, store, path.as_ref())
    }

    /// A store of remote objects of which each call is held to the policy.
    pub(crate) fn remote(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        match &self.0 {
            None => store,
            Some(_) => Arc::new(remote_store::CheckedStore { store, access: self.clone() }),
        }
    }

    /// The local disk, of which each call is held to the policy.
    pub(crate) fn disk(&self) -> Arc<dyn ObjectStore> {
        match &self.0 {
            None => Arc::new(LocalFileSystem::new()),
            Some((rules, _)) => Arc::new(disk_store::CheckedDisk::new(Arc::clone(rules))),
        }
    }

    /// Opens a file of the local disk to read.
    pub(crate) fn open_file(&self, path: &FilePath) -> Result<File> {
        match &self.0 {
            None => File::open(path).map_err(|error| disk::failed(path, error)),
            Some((rules, _)) => rules.open(path),
        }
    }

    /// What the local disk says of a file.
    pub(crate) fn file_metadata(&self, path: &FilePath) -> Result<std::fs::Metadata> {
        let real = match &self.0 {
            None => path.to_owned(),
            Some((rules, _)) => rules.real(Mode::Read, path)?,
        };
        std::fs::metadata(real).map_err(|error| disk::failed(path, error))
    }
}
