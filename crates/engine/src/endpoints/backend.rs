//! One store of objects, or the several stores of one table: what it can do, how fast it is, and how
//! its objects are read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{Capability, Error, Profile, Result};
use pushdowndb_scan::{Footers, KnownFooter, LocalFile, MemoryBudget, ObjectReader, parquet_metadata};
use url::Url;

use super::cloud::Cloud;
use super::dealt_stores::DealtStores;
use super::http::{Connections, EndpointState, Meters};
use super::numbered_stores::NumberedStores;
use super::profile::EndpointProfile;
use super::profile::rates::Rates;
use super::reads::StoreReader;
use super::reads::kept::{KeptObjects, KeptReader};
use super::reads::source::Source;
use super::retry::Retry;
use super::s3::S3;
use crate::access::StoreAccess;
use crate::catalog::{DataObject, stores};
use crate::error::from_object_store;
use crate::settings::PushdownOptions;

/// Memory limit of one store's cache of footers, in bytes.
const FOOTER_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the options of HTTP clients. Requests have no timeout, since streams may last long;
/// readers have an idle timeout instead.
pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(true)
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_user_agent(::http::HeaderValue::from_static(concat!("pushdowndb/", env!("CARGO_PKG_VERSION"))))
}

/// Returns the retry settings of writes and listings. Plain reads have their own: they resume with
/// If-Match where they stopped.
pub(super) fn retries() -> RetryConfig {
    RetryConfig { max_retries: 4, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() }
}

/// Returns the error for a file that changed after it was listed.
fn changed(location: &str) -> Error {
    let message = format!("{location} changed while the query ran; run the query again");
    Error::new(pushdowndb_contract::ErrorKind::Conflict, message)
}

/// A store (a bucket, a web server, the local disk) or the several stores of one table.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The address of the store.
    url: Url,
    name: String,
    pub(super) kind: Kind,
    /// The access policy for this store.
    pub(super) access: StoreAccess,
    /// The cache of footers in this store.
    footers: Arc<Footers>,
    /// The cache of small objects, shared by all stores.
    kept: Arc<KeptObjects>,
}

/// The kind of a store, with its clients.
#[derive(Debug)]
pub(super) enum Kind {
    Local(Arc<dyn ObjectStore>),
    Http(Connections),
    S3(Box<S3>),
    /// A bucket or container of Google or Azure, without pushdown.
    Cloud(Box<Cloud>),
    /// The stores of one table, by number.
    Several(Vec<Arc<Backend>>),
    /// Stores for writing, selected by the hash of an object's path.
    Dealt(Vec<Arc<Backend>>),
}

impl Backend {
    /// Creates the backend of the store at `url`.
    pub(super) fn new(url: &Url, kind: Kind, access: StoreAccess, kept: Arc<KeptObjects>) -> Self {
        let footers = Footers::new(FOOTER_CACHE_BYTES);
        Self { url: url.clone(), name: stores::name(url), kind, access, footers, kept }
    }

    /// Wraps the `reader` of an object so that it reads the object whole once and caches it.
    /// `budget` bounds the bytes of all cached objects.
    pub(crate) fn kept(
        &self,
        object: &DataObject,
        reader: Arc<dyn ObjectReader>,
        budget: u64,
    ) -> Arc<dyn ObjectReader> {
        let Some(etag) = &object.etag else { return reader };
        let version = (self.address(&object.path), etag.clone());
        Arc::new(KeptReader { reader, kept: Arc::clone(&self.kept), version, budget })
    }

    /// The address of the store, or of several.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The name: scheme and authority, such as `s3://bucket`, and the store's own endpoint, if any.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the store as an [`ObjectStore`] whose requests count into `meters`.
    pub(crate) fn store(&self, meters: &Meters) -> Result<Arc<dyn ObjectStore>> {
        match &self.kind {
            Kind::Local(store) => Ok(Arc::clone(store)),
            Kind::Several(members) => {
                let members = members.iter().map(|member| member.store(meters)).collect::<Result<_>>()?;
                Ok(Arc::new(NumberedStores(members)))
            }
            Kind::Dealt(members) => {
                let members = members.iter().map(|member| member.store(meters)).collect::<Result<_>>()?;
                Ok(Arc::new(DealtStores(members)))
            }
            Kind::Http(connections) => {
                let store = HttpBuilder::new()
                    .with_url(&self.name)
                    .with_client_options(client_options())
                    .with_http_connector(connections.metered(meters.clone()))
                    .build();
                Ok(self.access.remote(Arc::new(store.map_err(from_object_store)?)))
            }
            Kind::Cloud(cloud) => Ok(self.access.remote(cloud.store(cloud.connections.metered(meters.clone()))?)),
            Kind::S3(s3) => {
                let connector = s3.connections.metered(meters.clone());
                let store = s3.builder.clone().with_http_connector(connector).build();
                Ok(self.access.remote(Arc::new(store.map_err(from_object_store)?)))
            }
        }
    }

    /// Returns the state of the endpoint; `None` for the local disk and for several stores.
    pub(super) fn state(&self) -> Option<&Arc<EndpointState>> {
        match &self.kind {
            Kind::Local(_) | Kind::Several(_) | Kind::Dealt(_) => None,
            Kind::Http(connections) => Some(connections.state()),
            Kind::S3(s3) => Some(s3.connections.state()),
            Kind::Cloud(cloud) => Some(cloud.connections.state()),
        }
    }

    /// Returns the profile of the endpoint; `None` where there is no endpoint state.
    pub(super) fn speed(&self) -> Option<&EndpointProfile> {
        self.state().map(|state| &state.speed)
    }

    /// Whether the latency is so high that many plain reads should be in flight.
    pub(crate) fn is_far(&self) -> bool {
        if let Kind::Several(members) = &self.kind {
            return members.iter().any(|member| member.is_far());
        }
        self.state().is_some_and(|state| state.reads.is_far())
    }

    /// Returns the size of the largest row group of a Parquet object in bytes, if its footer is
    /// cached.
    pub(crate) fn row_group_bytes(&self, object: &DataObject) -> Option<u64> {
        self.footer(object)?.largest_row_group(&self.address(&object.path))
    }

    /// Returns the rates of the endpoint, or of all healthy members together. `declared` is as for
    /// [`Self::capability`].
    pub(crate) fn rates(&self, declared: Option<Profile>) -> Rates {
        if let Kind::Several(members) = &self.kind {
            let all = members.iter().filter(|member| member.is_well()).map(|member| member.rates(declared));
            return all.reduce(Rates::beside).unwrap_or_default();
        }
        let profile = self.capability(declared).profile;
        self.speed().map(|speed| speed.rates(profile, Instant::now())).unwrap_or_default()
    }

    /// Records a scan of this store's text by the engine ([`EndpointProfile::engine_scanned`]).
    pub(crate) fn engine_scanned(&self, scanned: u64, values: u64, busy: Duration) {
        if let Kind::Several(members) = &self.kind {
            members.iter().for_each(|member| member.engine_scanned(scanned, values, busy));
        } else if let Some(speed) = self.speed() {
            speed.engine_scanned(scanned, values, busy);
        }
    }

    /// Returns the capability of this store. A `declared` profile takes precedence over the one
    /// that the server's answers show. A server that has not answered yet, or refused S3 Select,
    /// gets plain reads. The version of the fragment route is that of the node's answers.
    pub(crate) fn capability(&self, declared: Option<Profile>) -> Capability {
        let s3 = match &self.kind {
            Kind::S3(s3) => s3,
            Kind::Several(members) => return in_common(members.iter().map(|member| member.capability(declared))),
            Kind::Local(_) | Kind::Http(_) | Kind::Cloud(_) | Kind::Dealt(_) => return Profile::Plain.capability(),
        };
        let state = s3.connections.state();
        let profile = declared.or_else(|| state.profile()).unwrap_or(Profile::Plain);
        let mut capability = profile.capability();
        if state.refuses_select() {
            capability.select = None;
        }
        if profile == Profile::PushdownDb {
            capability.fragment = state.fragment();
        }
        capability
    }

    /// Adopts what another process learned from the server.
    pub(crate) fn told(&self, profile: Profile, fragment: Option<u32>) {
        if let Kind::S3(s3) = &self.kind {
            s3.connections.state().told(profile, fragment);
        }
    }

    /// The address of an object, for messages.
    pub(crate) fn address(&self, path: &Path) -> String {
        stores::address(&self.url, path)
    }

    /// Returns the cache entry of an object's footer; `None` if the object has no ETag to identify
    /// its version.
    pub(crate) fn footer(&self, object: &DataObject) -> Option<KnownFooter> {
        if let Some((home, _)) = self.member_of(&object.path) {
            return home.footer(object);
        }
        Some(self.footers.of(object.etag.as_deref()?))
    }

    /// Returns the footer of a Parquet object, cached or read. Fails if it has more than
    /// `most_bytes`.
    pub(crate) async fn read_footer(
        &self,
        object: &DataObject,
        meters: &Meters,
        options: &PushdownOptions,
        most_bytes: u64,
    ) -> Result<Arc<ParquetMetaData>> {
        let reader = self.reader(object, meters, options)?;
        match self.footer(object) {
            Some(known) => known.read(reader.as_ref(), most_bytes, &MemoryBudget::unbounded()).await,
            None => Ok(Arc::new(parquet_metadata(reader.as_ref(), most_bytes).await?)),
        }
    }

    /// Opens an object for plain reads.
    pub(crate) fn reader(
        &self,
        object: &DataObject,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Result<Arc<dyn ObjectReader>> {
        if let Kind::Several(_) = &self.kind {
            return self.member_reader(object, meters, options);
        }
        let location = self.address(&object.path);
        if let Kind::Local(_) = &self.kind {
            let file = LocalFile::opened(self.access.open_file(&PathBuf::from(&location))?, location)?;
            self.check_unchanged(object)?;
            // The file may have been replaced before it was opened: the size must match, too.
            return if file.size() == object.size { Ok(Arc::new(file)) } else { Err(changed(file.location())) };
        }
        let source = Source {
            store: self.store(meters)?,
            path: object.path.clone(),
            location,
            etag: object.etag.clone(),
            retry: Retry { limit: options.retries },
            idle_timeout: options.idle_timeout(),
        };
        let far = self.state().filter(|_| options.reads != 1 && self.is_far()).map(|state| Arc::clone(&state.reads));
        Ok(Arc::new(StoreReader { source, size: object.size, far }))
    }

    /// Fails if a local file changed after it was listed. Other stores check ETags.
    pub(crate) fn check_unchanged(&self, object: &DataObject) -> Result<()> {
        let Kind::Local(_) = &self.kind else { return Ok(()) };
        let location = self.address(&object.path);
        let now = self.access.file_metadata(std::path::Path::new(&location));
        let is_same = now.is_ok_and(|now| {
            now.len() == object.size && now.modified().is_ok_and(|at| DateTime::<Utc>::from(at) == object.last_modified)
        });
        if is_same { Ok(()) } else { Err(changed(&location)) }
    }
}

/// Returns what several endpoints can do together in one scan: fragments if any of them runs them,
/// since objects at the others are read plainly; S3 Select if all are servers of the same kind that
/// have it.
fn in_common(all: impl Iterator<Item = Capability>) -> Capability {
    let all: Vec<Capability> = all.collect();
    if let Some(version) = all.iter().filter_map(|one| one.fragment).min() {
        let is_everywhere = all.iter().all(|one| one.select.is_some() && one.profile == Profile::PushdownDb);
        let mut capability = Profile::PushdownDb.capability();
        capability.fragment = Some(version);
        if !is_everywhere {
            capability.select = None;
        }
        return capability;
    }
    match all.split_first() {
        Some((first, rest)) if rest.iter().all(|one| one.profile == first.profile && one.select.is_some()) => {
            first.clone()
        }
        _ => Profile::Plain.capability(),
    }
}
