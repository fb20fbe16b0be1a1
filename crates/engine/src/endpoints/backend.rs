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

/// The memory for footers of one store.
const FOOTER_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Streams may last long, so requests have no timeout; readers limit silence instead.
pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(true)
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_user_agent(::http::HeaderValue::from_static(concat!("pushdowndb/", env!("CARGO_PKG_VERSION"))))
}

/// Plain reads retry with If-Match from where they stopped; writes and listings retry by this.
pub(super) fn retries() -> RetryConfig {
    RetryConfig { max_retries: 4, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() }
}

/// The error for a file that is not as it was listed.
fn changed(location: &str) -> Error {
    let message = format!("{location} changed while the query ran; run the query again");
    Error::new(pushdowndb_contract::ErrorKind::Conflict, message)
}

/// One store: a bucket, a web server, the local disk.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Its address.
    url: Url,
    name: String,
    pub(super) kind: Kind,
    /// What SQL may use of it.
    pub(super) access: StoreAccess,
    /// Footers that were read from it.
    footers: Arc<Footers>,
    /// Small objects of all stores.
    kept: Arc<KeptObjects>,
}

/// What a store is.
#[derive(Debug)]
pub(super) enum Kind {
    Local(Arc<dyn ObjectStore>),
    Http(Connections),
    S3(Box<S3>),
    /// A bucket without pushdown.
    Cloud(Box<Cloud>),
    /// The stores of one table, by number.
    Several(Vec<Arc<Backend>>),
    /// Stores that are written to by the paths of objects.
    Dealt(Vec<Arc<Backend>>),
}

impl Backend {
    /// The store at `url`.
    pub(super) fn new(url: &Url, kind: Kind, access: StoreAccess, kept: Arc<KeptObjects>) -> Self {
        let footers = Footers::new(FOOTER_CACHE_BYTES);
        Self { url: url.clone(), name: stores::name(url), kind, access, footers, kept }
    }

    /// `reader` of an object, which reads it whole once and keeps it within `budget` bytes.
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

    /// Scheme and authority, such as `s3://bucket`, and its endpoint, if it has one of its own.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The store, counting into these meters.
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

    /// The state of its endpoint; `None` for the local disk and for several stores.
    pub(super) fn state(&self) -> Option<&Arc<EndpointState>> {
        match &self.kind {
            Kind::Local(_) | Kind::Several(_) | Kind::Dealt(_) => None,
            Kind::Http(connections) => Some(connections.state()),
            Kind::S3(s3) => Some(s3.connections.state()),
            Kind::Cloud(cloud) => Some(cloud.connections.state()),
        }
    }

    /// Its profile; `None` where it has no state.
    pub(super) fn speed(&self) -> Option<&EndpointProfile> {
        self.state().map(|state| &state.speed)
    }

    /// Whether its answers are so late that many plain reads are to be in flight.
    pub(crate) fn is_far(&self) -> bool {
        if let Kind::Several(members) = &self.kind {
            return members.iter().any(|member| member.is_far());
        }
        self.state().is_some_and(|state| state.reads.is_far())
    }

    /// The bytes of the largest row group of a Parquet object, if its footer is cached.
    pub(crate) fn row_group_bytes(&self, object: &DataObject) -> Option<u64> {
        self.footer(object)?.largest_row_group(&self.address(&object.path))
    }

    /// Its rates, or those of all members that are well; `declared` as for [`Self::capability`].
    pub(crate) fn rates(&self, declared: Option<Profile>) -> Rates {
        if let Kind::Several(members) = &self.kind {
            let all = members.iter().filter(|member| member.is_well()).map(|member| member.rates(declared));
            return all.reduce(Rates::beside).unwrap_or_default();
        }
        let profile = self.capability(declared).profile;
        self.speed().map(|speed| speed.rates(profile, Instant::now())).unwrap_or_default()
    }

    /// Takes a scan of its text by the engine ([`EndpointProfile::engine_scanned`]).
    pub(crate) fn engine_scanned(&self, scanned: u64, values: u64, busy: Duration) {
        if let Kind::Several(members) = &self.kind {
            members.iter().for_each(|member| member.engine_scanned(scanned, values, busy));
        } else if let Some(speed) = self.speed() {
            speed.engine_scanned(scanned, values, busy);
        }
    }

    /// The capability of this store. A declared profile precedes what the server says. A server
    /// that has not answered yet, or refused S3 Select, gets plain reads. A node's answers say
    /// which version of the fragment route it speaks.
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

    /// Takes over what its server told another process.
    pub(crate) fn told(&self, profile: Profile, fragment: Option<u32>) {
        if let Kind::S3(s3) = &self.kind {
            s3.connections.state().told(profile, fragment);
        }
    }

    /// The address of an object, for messages.
    pub(crate) fn address(&self, path: &Path) -> String {
        stores::address(&self.url, path)
    }

    /// The cached footer of an object; `None` without an ETag to tell versions apart.
    pub(crate) fn footer(&self, object: &DataObject) -> Option<KnownFooter> {
        if let Some((home, _)) = self.member_of(&object.path) {
            return home.footer(object);
        }
        Some(self.footers.of(object.etag.as_deref()?))
    }

    /// The footer of a Parquet object, cached or read; an error if it has more than `most_bytes`.
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
            // Nor may it have been replaced before it was opened.
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

    /// Refuses a file of this machine that is not as it was listed. Other stores check ETags.
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

/// What several endpoints can do of one scan: fragments where any of them runs these, since objects
/// of the others are read plainly; S3 Select if all are servers of the same kind that have it.
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
