//! The stores that a query reads: connections, credentials, capabilities.

mod backend;
pub(crate) mod batches;
pub(crate) mod cloud;
pub(crate) mod create_bucket;
pub(crate) mod credentials;
mod dealt_stores;
pub(crate) mod fleet;
pub(crate) mod fragment_client;
pub(crate) mod http;
mod node;
mod numbered_stores;
pub(crate) mod post;
pub(crate) mod profile;
mod pushed;
pub(crate) mod reads;
pub(crate) mod retry;
pub(crate) mod s3;
pub(crate) mod select_client;
mod several;
pub(crate) mod writes;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential};
use object_store::client::{HttpClient, StaticCredentialProvider};
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::Meter;
use pushdowndb_http::Connector;
use url::Url;

use crate::access::{Access, HttpClients, StoreAccess};
use crate::catalog::stores;
use crate::error::from_object_store;
use backend::{Kind, client_options, retries};
use cloud::Cloud;
use fleet::Addresses;
use http::{Connections, SharedClient};
use node::Node;
use profile::{EndpointProfile, PersistedRates};
use s3::{S3, endpoint_of};

pub(crate) use backend::Backend;
pub(crate) use fleet::Fleet;
pub(crate) use fragment_client::{FragmentClient, SplitPiece};
pub(crate) use http::Meters;
pub(crate) use node::Place;
pub(crate) use profile::is_scan;
pub(crate) use profile::rates::Rates;
pub(crate) use reads::COALESCE_GAP_BYTES;
pub(crate) use retry::Retry;
pub(crate) use select_client::{Piece, SelectClient, SelectedObject};

/// The endpoint and credentials of S3. Settings that are not given come from the standard `AWS_*`
/// variables.
#[derive(Clone, Default)]
pub struct ConnectionConfig {
    /// The S3 endpoint, such as `http://127.0.0.1:9000`; AWS if none is set anywhere.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// The id of the access key, which takes precedence over the environment's.
    pub access_key_id: Option<String>,
    /// The secret of the access key.
    pub secret_access_key: Option<String>,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
    /// A profile of the AWS configuration files.
    pub profile: Option<String>,
    /// Whether requests are unsigned, for public data.
    pub anonymous: bool,
    /// Whether to pay for requests to buckets whose owner does not (requester pays).
    pub requester_pays: bool,
    /// Whether any TLS certificate is accepted; for tests only.
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
    cache: Option<PathBuf>,
    backends: Mutex<HashMap<String, Arc<Backend>>>,
    /// Nodes in front of the endpoint, by their URLs.
    nodes: Mutex<HashMap<Url, Arc<Node>>>,
    addresses: Addresses,
    /// The client that does not check addresses: for credentials, for Google and Azure, and for
    /// sessions without a policy.
    client: OnceLock<SharedClient>,
    checked_clients: HttpClients,
    rates: PersistedRates,
    /// State of other modules that lives as long as the connections, one value per type.
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Backends {
    /// Creates an empty set of stores. Endpoint profiles are loaded from the folder `cache`.
    pub(crate) fn new(config: ConnectionConfig, access: Access, cache: Option<&std::path::Path>) -> Self {
        Self {
            config,
            access,
            cache: cache.map(std::path::Path::to_path_buf),
            backends: Mutex::default(),
            nodes: Mutex::default(),
            addresses: Addresses::default(),
            client: OnceLock::new(),
            checked_clients: HttpClients::default(),
            rates: PersistedRates::open(cache.map(|cache| cache.join("rates.json"))),
            extensions: Mutex::default(),
        }
    }

    /// Returns the same stores, without connections yet, under another access policy.
    pub(crate) fn with_access(&self, access: Access) -> Self {
        Self::new(self.config.clone(), access, self.cache.as_deref())
    }

    /// The access policy of the session's SQL.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the value of type `T`, which the first call creates.
    pub(crate) fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut all = self.extensions.lock();
        let own = all.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        Arc::clone(own).downcast().unwrap_or_default()
    }

    /// Returns the backend of the store that `url` names, or of the several stores that it stands
    /// for. Fails if the policy permits nothing there.
    pub(crate) fn backend(&self, url: &Url) -> Result<Arc<Backend>> {
        let name = stores::name(url);
        if let Some(backend) = self.backends.lock().get(&name) {
            return Ok(Arc::clone(backend));
        }
        let members = stores::members(url);
        let backend = match members.first() {
            Some(first) => {
                let access = self.access.store(&stores::at_any_endpoint(first))?;
                let members = members.iter().map(|member| self.backend(member)).collect::<Result<_>>()?;
                let kind = if stores::is_dealt(url) { Kind::Dealt(members) } else { Kind::Several(members) };
                Backend::new(url, kind, access, self.extension())
            }
            None => self.open(url, &name, self.access.store(&stores::at_any_endpoint(url))?)?,
        };
        Ok(Arc::clone(self.backends.lock().entry(name).or_insert_with(|| Arc::new(backend))))
    }

    /// Returns the nodes that the setting `pushdown.nodes` names. Fails if the policy permits no
    /// request to one of them.
    pub(crate) async fn nodes(&self, setting: &str) -> Result<Vec<Arc<Node>>> {
        let urls = self.addresses.of(setting, |url| self.access.store(url).map(drop)).await?;
        let mut nodes = self.nodes.lock();
        let node = |url: Url| {
            self.access.store(&url)?;
            if let Some(node) = nodes.get(&url) {
                return Ok(Arc::clone(node));
            }
            let checked = self.checked_clients.web(&self.access, &url, &self.connector(), &client_options())?;
            let connections = Connections::open(self.checked_or_shared(checked)?, self.speed(url.as_str()));
            let node = Arc::new(Node::new(&url, connections));
            nodes.insert(url, Arc::clone(&node));
            Ok(node)
        };
        urls.into_iter().map(node).collect()
    }

    /// Returns an endpoint's profile, with the rates that an earlier session saved.
    fn speed(&self, endpoint: &str) -> EndpointProfile {
        EndpointProfile::new(endpoint.trim(), self.rates.of(endpoint.trim()))
    }

    /// Returns the client that endpoints share.
    fn client(&self) -> Result<&SharedClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = SharedClient::new(&self.connector(), &client_options());
        // Nothing was sent yet, so an error is about the settings.
        let client = client.map_err(|error| Error::invalid(error.to_string()))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Returns the connector that makes clients. Idle timeouts are left to the readers.
    fn connector(&self) -> Connector {
        Connector { insecure: self.config.insecure, ..Connector::default() }
    }

    fn open(&self, url: &Url, name: &str, access: StoreAccess) -> Result<Backend> {
        let kind = match url.scheme() {
            "file" => Kind::Local(access.disk()),
            "s3" | "s3a" => Kind::S3(Box::new(self.open_s3(url)?)),
            "http" | "https" => {
                let checked = self.checked_clients.web(&self.access, url, &self.connector(), &client_options())?;
                Kind::Http(Connections::open(self.checked_or_shared(checked)?, self.speed(name)))
            }
            scheme @ ("gs" | "az" | "azure") => {
                let (bucket, client) = (url.host_str().unwrap_or_default(), self.client()?);
                let connections = Connections::open(client.client(), self.speed(name));
                let make = if scheme == "gs" { Cloud::google } else { Cloud::azure };
                Kind::Cloud(Box::new(make(bucket, client_options(), retries(), client, connections)?))
            }
            other => {
                return Err(Error::unsupported(format!(
                    "'{other}://' is not a scheme this build reads; use s3://, gs://, az://, http(s)://, file:// or a path"
                )));
            }
        };
        Ok(Backend::new(url, kind, access, self.extension()))
    }

    /// Returns the client that enforces the policy, or the shared one if there is no policy.
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
        let own = stores::endpoint(url);
        let own_profile = own.as_deref().and_then(|own| own.strip_prefix(stores::PROFILE));
        // A bucket with a profile of its own uses the keys of that profile, and none of the
        // environment's settings.
        let builder = if own_profile.is_some() { AmazonS3Builder::new() } else { AmazonS3Builder::from_env() };
        let mut builder = builder.with_bucket_name(bucket).with_client_options(client_options()).with_retry(retries());
        let profile = own_profile.or(config.profile.as_deref());
        if (own_profile.is_some() || !config.anonymous)
            && let Some(found) = credentials::from_profile(profile)?
        {
            builder = found.apply(builder);
        }
        if own_profile.is_none() {
            builder = self.configured(builder, own.as_deref());
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
        let checked = match own {
            // An endpoint that SQL names must be permitted like a web server.
            Some(_) => {
                self.access.store(&endpoint)?;
                self.checked_clients.web(&self.access, &endpoint, settings.0, settings.1)?
            }
            None => self.checked_clients.bucket(&self.access, &endpoint, bucket, is_named, settings)?,
        };
        S3::new(builder, Connections::open(self.checked_or_shared(checked)?, speed), signer, &endpoint, bucket)
    }

    /// Adds the session's settings to `builder`, and the bucket's `own` endpoint or else the
    /// session's.
    fn configured(&self, mut builder: AmazonS3Builder, own: Option<&str>) -> AmazonS3Builder {
        let config = &self.config;
        if let Some(region) = &config.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = own.or(config.endpoint.as_deref()) {
            builder = builder.with_config(Key::S3Endpoint, endpoint);
        }
        if let (Some(id), Some(secret)) = (&config.access_key_id, &config.secret_access_key) {
            // Keys and token are set together: a token in the environment belongs to other keys.
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
        builder
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        let backends = self.backends.get_mut();
        let nodes = self.nodes.get_mut().values().map(|node| &node.connections.state().speed);
        let speeds = backends.values().filter_map(|backend| backend.speed()).chain(nodes);
        self.rates.save(speeds.filter_map(|speed| Some((speed.endpoint.clone(), speed.measured()?))).collect());
    }
}

/// Returns the meters for work that belongs to the query as a whole.
pub(crate) fn query_meters(meter: &Arc<Meter>) -> Meters {
    Meters(vec![Arc::clone(meter)])
}
