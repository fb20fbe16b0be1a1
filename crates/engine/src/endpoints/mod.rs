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
    cache: Option<PathBuf>,
    backends: Mutex<HashMap<String, Arc<Backend>>>,
    /// Nodes before the endpoint, by their URLs.
    nodes: Mutex<HashMap<Url, Arc<Node>>>,
    addresses: Addresses,
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

    /// The same stores without connections yet, for SQL that may use something else.
    pub(crate) fn with_access(&self, access: Access) -> Self {
        Self::new(self.config.clone(), access, self.cache.as_deref())
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

    /// The backend of a URL's scheme, authority and endpoint, or of the several stores that it stands
    /// for; refused if the policy permits nothing there.
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

    /// The nodes that the setting `pushdown.nodes` names; refused where the policy permits no request
    /// to them.
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
        let own = stores::endpoint(url);
        let own_profile = own.as_deref().and_then(|own| own.strip_prefix(stores::PROFILE));
        // A profile of its own brings its keys, and none of the environment's settings.
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
            // An endpoint that SQL names is listed like a web server.
            Some(_) => {
                self.access.store(&endpoint)?;
                self.checked_clients.web(&self.access, &endpoint, settings.0, settings.1)?
            }
            None => self.checked_clients.bucket(&self.access, &endpoint, bucket, is_named, settings)?,
        };
        S3::new(builder, Connections::open(self.checked_or_shared(checked)?, speed), signer, &endpoint, bucket)
    }

    /// `builder` with the session's settings, and its endpoint or one that the bucket has of its `own`.
    fn configured(&self, mut builder: AmazonS3Builder, own: Option<&str>) -> AmazonS3Builder {
        let config = &self.config;
        if let Some(region) = &config.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = own.or(config.endpoint.as_deref()) {
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

/// The meters of work that belongs to a query as a whole.
pub(crate) fn query_meters(meter: &Arc<Meter>) -> Meters {
    Meters(vec![Arc::clone(meter)])
}
