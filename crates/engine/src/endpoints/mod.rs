//! The stores that a query reads: connections, credentials, capabilities.

pub(crate) mod batches;
pub(crate) mod create_bucket;
pub(crate) mod credentials;
pub(crate) mod fragment_client;
pub(crate) mod http;
pub(crate) mod post;
pub(crate) mod profile;
pub(crate) mod reads;
pub(crate) mod retry;
pub(crate) mod s3;
pub(crate) mod select_client;
pub(crate) mod writes;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential};
use object_store::client::{HttpClient, StaticCredentialProvider};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{Capability, Error, Profile, Result};
use pushdowndb_cost::Meter;
use pushdowndb_http::Connector;
use pushdowndb_scan::{Footers, KnownFooter, LocalFile, MemoryBudget, ObjectReader, parquet_metadata};
use url::Url;

use crate::access::{Access, HttpClients, StoreAccess};
use crate::catalog::DataObject;
use crate::error::from_object_store;
use crate::settings::PushdownOptions;
use http::{Connections, EndpointState, SharedClient};
use post::Poster;
use profile::{EndpointProfile, PersistedRates};
use reads::StoreReader;
use reads::source::Source;
use s3::{S3, endpoint_of};

pub(crate) use fragment_client::{FragmentClient, SplitPiece};
pub(crate) use http::Meters;
pub(crate) use profile::is_scan;
pub(crate) use profile::rates::Rates;
pub(crate) use reads::COALESCE_GAP_BYTES;
pub(crate) use retry::Retry;
pub(crate) use select_client::{Piece, SelectClient, SelectedObject};

/// The memory for footers of one store.
const FOOTER_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoint and credentials of S3. What is not set comes from the standard `AWS_*` variables.
#[derive(Clone, Default)]
pub struct ConnectionConfig {
    /// The S3 endpoint, such as `http://127.0.0.1:9000`; AWS if none is set anywhere.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// The id of the access key, which precedes the environment's.
    pub access_key_id: Option<String>,
    /// The secret of the access key.
    pub secret_access_key: Option<String>,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
    /// A profile of the AWS configuration files.
    pub profile: Option<String>,
    /// Whether requests are not signed: public data.
    pub anonymous: bool,
    /// Whether to pay for requests to buckets whose owner does not.
    pub requester_pays: bool,
    /// Whether any certificate is accepted: for tests only.
    pub insecure: bool,
}

impl fmt::Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("ConnectionConfig")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("profile", &self.profile)
            .field("anonymous", &self.anonymous)
            .field("requester_pays", &self.requester_pays)
            .field("insecure", &self.insecure)
            .finish_non_exhaustive()
    }
}

/// The stores of a session, with their open connections.
#[derive(Debug)]
pub(crate) struct Backends {
    config: ConnectionConfig,
    access: Access,
    backends: Mutex<HashMap<String, Arc<Backend>>>,
    /// For requests that the policy does not concern: those of a session without one, and for
    /// credentials.
    client: OnceLock<SharedClient>,
    checked_clients: HttpClients,
    rates: PersistedRates,
    /// Values of other modules that last as long as the connections, one of each type.
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Backends {
    /// Makes an empty set of stores, with the endpoint profiles in the folder `cache`.
    pub(crate) fn new(config: ConnectionConfig, access: Access, cache: Option<&std::path::Path>) -> Self {
        Self {
            config,
            access,
            backends: Mutex::default(),
            client: OnceLock::new(),
            checked_clients: HttpClients::default(),
            rates: PersistedRates::open(cache.map(|cache| cache.join("rates.json"))),
            extensions: Mutex::default(),
        }
    }

    /// What SQL may use.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The value of type `T`, made when it is first asked for.
    pub(crate) fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut all = self.extensions.lock();
        let own = all.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        Arc::clone(own).downcast().unwrap_or_default()
    }

    /// The backend of a URL's scheme and authority; refused if the policy permits nothing there.
    pub(crate) fn backend(&self, url: &Url) -> Result<Arc<Backend>> {
        let access = self.access.store(url)?;
        let name = format!("{}://{}", url.scheme(), &url[url::Position::BeforeHost..url::Position::AfterPort]);
        let mut backends = self.backends.lock();
        if let Some(backend) = backends.get(&name) {
            return Ok(Arc::clone(backend));
        }
        let backend = Arc::new(self.open(url, name.clone(), access)?);
        backends.insert(name, Arc::clone(&backend));
        Ok(backend)
    }

    /// The endpoint's profile from the last session.
    fn speed(&self, endpoint: &str) -> EndpointProfile {
        EndpointProfile::new(endpoint.trim(), self.rates.of(endpoint.trim()))
    }

    /// The client of all endpoints.
    fn client(&self) -> Result<&SharedClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = SharedClient::new(&self.connector(), &client_options());
        // No server was asked yet, so the settings are wrong.
        let client = client.map_err(|error| Error::invalid(error.to_string()))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The maker of clients. Timeouts are those of the readers.
    fn connector(&self) -> Connector {
        Connector { insecure: self.config.insecure, ..Connector::default() }
    }

    fn open(&self, url: &Url, name: String, access: StoreAccess) -> Result<Backend> {
        let kind = match url.scheme() {
            "file" => Kind::Local(access.disk()),
            "s3" | "s3a" => Kind::S3(Box::new(self.open_s3(url)?)),
            "http" | "https" => {
                let checked = self.checked_clients.web(&self.access, url, &self.connector(), &client_options())?;
                Kind::Http(Connections::open(self.checked_or_shared(checked)?, self.speed(&name)))
            }
            other => {
                return Err(Error::unsupported(format!(
                    "'{other}://' is not a scheme this build reads; use s3://, http(s)://, file:// or a path"
                )));
            }
        };
        Ok(Backend { name, kind, access, footers: Footers::new(FOOTER_CACHE_BYTES) })
    }

    /// The client that enforces the policy, or the shared one if there is none.
    fn checked_or_shared(&self, checked: Option<HttpClient>) -> Result<HttpClient> {
        Ok(match checked {
            Some(client) => client,
            None => self.client()?.client(),
        })
    }

    fn open_s3(&self, url: &Url) -> Result<S3> {
        let config = &self.config;
        let bucket = url.host_str().filter(|b| !b.is_empty());
        let bucket = bucket.ok_or_else(|| Error::invalid(format!("{url} names no bucket; write s3://bucket/path")))?;
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_client_options(client_options())
            // Plain reads retry with If-Match from where they stopped; writes and listings retry
            // here.
            .with_retry(RetryConfig {
                max_retries: 4,
                retry_timeout: Duration::from_secs(60),
                ..RetryConfig::default()
            });
        if !config.anonymous
            && let Some(found) = credentials::from_profile(config.profile.as_deref())?
        {
            builder = found.apply(builder);
        }
        if let Some(region) = &config.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &config.endpoint {
            builder = builder.with_config(Key::S3Endpoint, endpoint);
        }
        if let (Some(id), Some(secret)) = (&config.access_key_id, &config.secret_access_key) {
            // All three at once: a token of the environment belongs to other keys.
            let credential =
                AwsCredential { key_id: id.clone(), secret_key: secret.clone(), token: config.session_token.clone() };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        if config.anonymous {
            builder = builder.with_skip_signature(true);
        }
        if config.requester_pays {
            builder = builder.with_request_payer(true);
        }
        let endpoint = builder.get_config_value(&Key::S3Endpoint).or_else(|| builder.get_config_value(&Key::Endpoint));
        let speed = self.speed(&format!("{} {bucket}", endpoint.unwrap_or_default()));
        let client = self.client()?;
        // A store without meters fetches the credentials, which all queries share.
        let base = builder.clone().with_http_connector(client.clone()).build().map_err(from_object_store)?;
        let signer = Arc::clone(base.credentials());
        builder = builder.with_credentials(Arc::clone(&signer));
        let (endpoint, is_named) = endpoint_of(&builder)?;
        let settings = (&self.connector(), &client_options());
        let checked = self.checked_clients.bucket(&self.access, &endpoint, bucket, is_named, settings)?;
        S3::new(builder, Connections::open(self.checked_or_shared(checked)?, speed), signer, &endpoint, bucket)
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        let backends = self.backends.get_mut();
        let speeds = backends.values().filter_map(|backend| backend.speed());
        self.rates.save(speeds.filter_map(|speed| Some((speed.endpoint.clone(), speed.measured()?))).collect());
    }
}

/// The error for a file that is not as it was listed.
fn changed(location: &str) -> Error {
    let message = format!("{location} changed while the query ran; run the query again");
    Error::new(pushdowndb_contract::ErrorKind::Conflict, message)
}

/// Streams may last long, so requests have no timeout; readers limit silence instead.
fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(true)
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_user_agent(::http::HeaderValue::from_static(concat!("pushdowndb/", env!("CARGO_PKG_VERSION"))))
}

/// One store: a bucket, a web server, the local disk.
#[derive(Debug)]
pub(crate) struct Backend {
    name: String,
    kind: Kind,
    /// What SQL may use of it.
    access: StoreAccess,
    /// Footers that were read from it.
    footers: Arc<Footers>,
}

#[derive(Debug)]
enum Kind {
    Local(Arc<dyn ObjectStore>),
    Http(Connections),
    S3(Box<S3>),
}

impl Backend {
    /// Scheme and authority, such as `s3://bucket`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The store, counting into these meters.
    pub(crate) fn store(&self, meters: &Meters) -> Result<Arc<dyn ObjectStore>> {
        match &self.kind {
            Kind::Local(store) => Ok(Arc::clone(store)),
            Kind::Http(connections) => {
                let store = HttpBuilder::new()
                    .with_url(&self.name)
                    .with_client_options(client_options())
                    .with_http_connector(connections.metered(meters.clone()))
                    .build();
                Ok(self.access.remote(Arc::new(store.map_err(from_object_store)?)))
            }
            Kind::S3(s3) => {
                let connector = s3.connections.metered(meters.clone());
                let store = s3.builder.clone().with_http_connector(connector).build();
                Ok(self.access.remote(Arc::new(store.map_err(from_object_store)?)))
            }
        }
    }

    /// The state of its endpoint; `None` for the local disk.
    fn state(&self) -> Option<&Arc<EndpointState>> {
        match &self.kind {
            Kind::Local(_) => None,
            Kind::Http(connections) => Some(connections.state()),
            Kind::S3(s3) => Some(s3.connections.state()),
        }
    }

    /// Its profile; `None` for the local disk.
    fn speed(&self) -> Option<&EndpointProfile> {
        self.state().map(|state| &state.speed)
    }

    /// Whether its answers are so late that many plain reads are to be in flight.
    pub(crate) fn is_far(&self) -> bool {
        self.state().is_some_and(|state| state.reads.is_far())
    }

    /// The bytes of the largest row group of a Parquet object, if its footer is cached.
    pub(crate) fn row_group_bytes(&self, object: &DataObject) -> Option<u64> {
        self.footer(object)?.largest_row_group(&self.address(&object.path))
    }

    /// Its rates; `declared` as for [`Self::capability`].
    pub(crate) fn rates(&self, declared: Option<Profile>) -> Rates {
        let profile = self.capability(declared).profile;
        self.speed().map(|speed| speed.rates(profile, Instant::now())).unwrap_or_default()
    }

    /// Takes a scan of its text by the engine ([`EndpointProfile::engine_scanned`]).
    pub(crate) fn engine_scanned(&self, scanned: u64, values: u64, busy: Duration) {
        if let Some(speed) = self.speed() {
            speed.engine_scanned(scanned, values, busy);
        }
    }

    /// The capability of this store. A declared profile precedes what the server says. A server
    /// that has not answered yet, or refused S3 Select, gets plain reads. A node's answers say
    /// which version of the fragment route it speaks.
    pub(crate) fn capability(&self, declared: Option<Profile>) -> Capability {
        let Kind::S3(s3) = &self.kind else { return Profile::Plain.capability() };
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

    /// The address of an object, for messages.
    pub(crate) fn address(&self, path: &Path) -> String {
        match &self.kind {
            Kind::Local(_) => format!("/{path}"),
            _ => format!("{}/{path}", self.name),
        }
    }

    /// The cached footer of an object; `None` without an ETag to tell versions apart.
    pub(crate) fn footer(&self, object: &DataObject) -> Option<KnownFooter> {
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

    /// A client for this store's S3 Select.
    pub(crate) fn select_client(&self, meters: &Meters, options: &PushdownOptions) -> Result<SelectClient> {
        let poster = self.poster(meters, options)?;
        Ok(SelectClient(poster.ok_or_else(|| Error::unsupported(format!("{} has no S3 Select", self.name)))?))
    }

    /// A client for this store's fragment route.
    pub(crate) fn fragment_client(&self, meters: &Meters, options: &PushdownOptions) -> Result<FragmentClient> {
        let poster = self.poster(meters, options)?;
        let poster = poster.ok_or_else(|| Error::unsupported(format!("{} has no fragment route", self.name)))?;
        Ok(FragmentClient { poster, meters: meters.clone() })
    }

    fn poster(&self, meters: &Meters, options: &PushdownOptions) -> Result<Option<Poster>> {
        let Kind::S3(s3) = &self.kind else { return Ok(None) };
        Ok(Some(Poster {
            http: s3.connections.metered(meters.clone()).client(),
            state: Arc::clone(s3.connections.state()),
            access: self.access.clone(),
            bucket_url: s3.bucket_url.clone(),
            region: s3.region.clone(),
            credentials: s3.signer.clone(),
            requester_pays: s3.requester_pays,
            idle_timeout: options.idle_timeout(),
        }))
    }
}

/// The meters of work that belongs to a query as a whole.
pub(crate) fn query_meters(meter: &Arc<Meter>) -> Meters {
    Meters(vec![Arc::clone(meter)])
}
