//! The access policy, checked before every file and every connection that SQL asks for.
//!
//! ```text
//! SQL      CREATE EXTERNAL TABLE, FROM 's3://…', COPY, CREATE INDEX, SET, pointers to indexes, …
//!            │ a location, however it is written
//! check    Access::store      may anything of this bucket, host or disk be used?
//!          StoreAccess        may this path of it be read, written?   (each call of each store)
//!            ::open_file      is the opened file the checked one?
//!          CheckedHttp        is the request for the permitted host, and its address permitted?
//!            │
//! outside  local disk, S3 endpoint, web servers
//! ```
//!
//! [`Backends`](crate::endpoints::Backends) makes every store, and checks each here; so do the few
//! places that open files of their own. `tests/it/doors.rs` lists the modules that may open
//! anything and fails if there is another.
//!
//! Locations are compared in their canonical form ([`Location`]): links of local folders are
//! resolved before the check, and the opened file is checked again. For hosts, the address that is
//! connected to decides, after the name is resolved.
//!
//! The policy does not concern what the program itself names: the endpoint and credentials of the
//! connection, the files of the catalog, of statistics and of certificates, and the settings in its
//! [`EngineConfig`](crate::session::EngineConfig).

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod disk_store;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod remote_store;
mod rules;

use std::fs::File;
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use pushdowndb_contract::{Error, ErrorKind, Result};
use url::Url;

use place::Store;
use rules::{Rules, not_listed, store_of};

pub use address::Network;
pub(crate) use client::HttpClients;
pub use place::Location;
pub(crate) use place::absolute;
pub use policy::{AccessPolicy, AllowList};
pub(crate) use rules::{Mode, StoreAccess};

/// Maximum size in bytes of a small file that SQL names.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// The locations that the SQL of a session may use; `None` permits everything.
#[derive(Clone, Debug)]
pub(crate) struct Access(Option<Arc<Rules>>);

impl Access {
    /// Access without a policy.
    pub(crate) fn everything() -> Self {
        Self(None)
    }

    pub(crate) fn new(policy: AccessPolicy) -> Self {
        let AccessPolicy::Only(AllowList { read, write, addresses }) = policy else { return Self::everything() };
        // Each location is listed twice: as written, and with its symbolic links resolved.
        let with_real = |mut list: Vec<Location>| {
            let real: Vec<Location> = list.iter().filter_map(Location::resolved).collect();
            list.extend(real);
            list
        };
        Self(Some(Arc::new(Rules { read: with_real(read), write: with_real(write), addresses })))
    }

    /// Whether everything is permitted, since there is no policy.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Returns access to the store that `url` names. Fails if the policy permits nothing in that
    /// store.
    pub(crate) fn store(&self, url: &Url) -> Result<StoreAccess> {
        let Some(rules) = &self.0 else { return Ok(StoreAccess(None)) };
        let store = store_of(url)?;
        if !rules.read.iter().chain(&rules.write).any(|rule| rule.store.covers(&store)) {
            return Err(not_listed(&store.to_string(), None));
        }
        Ok(StoreAccess(Some((Arc::clone(rules), store))))
    }

    /// Fails if the policy permits neither reading nor writing `path`, so that SQL cannot probe
    /// which files exist.
    pub(crate) fn look_at(&self, path: &FilePath) -> Result<()> {
        let Some(rules) = &self.0 else { return Ok(()) };
        let text = place::disk_path(&absolute(path)?)?;
        let is_listed = |mode| rules.check(mode, &Store::Disk, &text).is_ok();
        match is_listed(Mode::Read) || is_listed(Mode::Write) {
            true => Ok(()),
            false => Err(not_listed(&format!("/{text}"), None)),
        }
    }

    /// Fails if the policy does not permit `mode` for a location that a statement names.
    pub(crate) fn named(&self, mode: Mode, store: &Url, path: &Path) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(rules) => rules.check(mode, &store_of(store)?, path.as_ref()),
        }
    }

    /// Returns the path, with links resolved, of a folder that SQL names for temporary files. Fails
    /// if the policy does not permit `mode` for it.
    pub(crate) fn folder(&self, mode: Mode, path: &FilePath) -> Result<PathBuf> {
        match &self.0 {
            None => Ok(path.to_owned()),
            Some(rules) => rules.place(mode, &absolute(path)?),
        }
    }

    /// Reads a file that SQL names, of at most [`MAX_TEXT_BYTES`].
    pub(crate) fn read_text(&self, path: &FilePath) -> Result<String> {
        let name = path.display();
        let failed = |error: std::io::Error| disk::failed(path, error);
        let file = match &self.0 {
            None => File::open(path).map_err(failed)?,
            Some(rules) => rules.open(&absolute(path)?)?,
        };
        let mut text = String::new();
        file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(Error::new(ErrorKind::Limit, format!("{name}: it has more than {MAX_TEXT_BYTES} bytes")));
        }
        Ok(text)
    }

    fn rules(&self) -> Option<&Arc<Rules>> {
        self.0.as_ref()
    }
}

impl StoreAccess {
    /// Wraps a store of remote objects so that each call is checked.
    pub(crate) fn remote(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        match &self.0 {
            None => store,
            Some(_) => Arc::new(remote_store::CheckedStore { store, access: self.clone() }),
        }
    }

    /// Returns the local disk as a store that checks each call.
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

    /// The metadata of a file of the local disk.
    pub(crate) fn file_metadata(&self, path: &FilePath) -> Result<std::fs::Metadata> {
        let real = match &self.0 {
            None => path.to_owned(),
            Some((rules, _)) => rules.real(Mode::Read, path)?,
        };
        std::fs::metadata(real).map_err(|error| disk::failed(path, error))
    }
}
