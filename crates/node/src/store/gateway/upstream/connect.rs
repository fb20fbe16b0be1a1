//! Creates the client for the URL of a gateway.
//!
//! Its settings come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`) and from the gateway,
//! never from clients of the node.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use pushdowndb_contract::Error;
use pushdowndb_http::{Connector, Patience};
use url::Url;

use crate::{Gateway, Limits};

/// The kind of service, as far as the gateway treats services differently.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Service {
    /// S3 and compatible services, web servers, memory.
    Common,
    /// Google Cloud Storage: versions are generations, and objects have no tags.
    Google,
    /// Azure Blob Storage: names of user metadata are identifiers.
    Azure,
}

/// A client, and the bucket and prefix that the gateway serves.
pub(crate) struct Connection {
    pub service: Service,
    pub store: Arc<dyn ObjectStore>,
    /// The same client, if it can list page by page.
    pub paged: Option<Arc<dyn PaginatedListStore>>,
    /// Whether keys are listed in another order than that of their bytes.
    pub unsorted: bool,
    /// The name of the bucket, container or host.
    pub name: String,
    /// The prefix, without slashes at its ends.
    pub prefix: String,
}

/// Creates the client, without connecting. Blocks.
pub(super) fn connect(gateway: &Gateway, limits: &Limits) -> pushdowndb_contract::Result<Connection> {
    if gateway.url.host_str().unwrap_or_default().is_empty() && gateway.url.scheme() != "memory" {
        return Err(Error::invalid(format!("cannot serve {}: it names no bucket", gateway.url)));
    }
    try_connect(gateway, limits).map_err(|error| {
        Error::unsupported(format!("cannot serve {}", without_password(&gateway.url))).with_source(error)
    })
}

fn without_password(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    url.to_string()
}

fn try_connect(gateway: &Gateway, limits: &Limits) -> object_store::Result<Connection> {
    let url = &gateway.url;
    let host = url.host_str().unwrap_or_default().to_owned();
    let prefix = || Ok::<_, object_store::Error>(Path::from_url_path(url.path())?.to_string());
    let options = gateway.options.iter();
    let endpoint = gateway.endpoint.as_ref();
    // Responses have no total timeout, since their duration depends on the reader; the connector
    // checks that bytes keep arriving.
    let connector = Connector { patience: Some(Patience(limits.upstream_wait)), ..Connector::default() };
    let client = ClientOptions::new().with_timeout_disabled().with_connect_timeout(Duration::from_secs(5));
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: limits.upstream_wait };
    match url.scheme() {
        "s3" | "s3a" => {
            let mut builder =
                AmazonS3Builder::from_env().with_client_options(client).with_retry(retry).with_bucket_name(&host);
            builder = builder.with_http_connector(connector);
            builder = endpoint.into_iter().fold(builder, AmazonS3Builder::with_endpoint);
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, value);
            }
            let plain = is_plain(builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
            let builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), plain);
            Ok(Connection::paged(Service::Common, Arc::new(builder.build()?), host, prefix()?))
        }
        "gs" => {
            // Without this header, objects stored with gzip are decompressed by the server, without
            // ranges.
            let packed = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
            let mut builder = GoogleCloudStorageBuilder::from_env()
                .with_client_options(client.with_default_headers(packed))
                .with_http_connector(connector)
                .with_retry(retry)
                .with_bucket_name(&host);
            if let Some(endpoint) = endpoint {
                builder = builder.with_base_url(endpoint.trim_end_matches('/'));
            }
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, value);
            }
            let plain = is_plain(builder.get_config_value(&GoogleConfigKey::BaseUrl));
            builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), plain);
            if builder.get_config_value(&GoogleConfigKey::SkipSignature).is_some_and(|skip| skip == "true") {
                // Without credentials, writes would wait for some from Google's metadata server.
                let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
                builder = builder.with_credentials(Arc::new(nobody));
            }
            Ok(Connection::paged(Service::Google, Arc::new(builder.build()?), host, prefix()?))
        }
        "az" | "azure" | "adl" | "abfs" | "abfss" => {
            // `container@account.dfs.core.windows.net`, or the container alone.
            let container = if url.username().is_empty() { host } else { url.username().to_owned() };
            let mut builder =
                MicrosoftAzureBuilder::from_env().with_client_options(client).with_retry(retry).with_url(url.as_str());
            builder = builder.with_http_connector(connector);
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.clone());
            }
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, value);
            }
            let plain = is_plain(builder.get_config_value(&AzureConfigKey::Endpoint));
            let builder = builder.with_config(AzureConfigKey::Client(ClientConfigKey::AllowHttp), plain);
            let connection = Connection::paged(Service::Azure, Arc::new(builder.build()?), container, prefix()?);
            Ok(Connection { unsorted: url.scheme().starts_with("abfs"), ..connection })
        }
        "http" | "https" => {
            let client = client.with_allow_http(url.scheme() == "http");
            let mut builder = HttpBuilder::new().with_url(url.as_str()).with_client_options(client).with_retry(retry);
            builder = builder.with_http_connector(connector);
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, value);
            }
            Ok(Connection::plain(Arc::new(builder.build()?), host, String::new()))
        }
        _ => {
            let (store, below) = object_store::parse_url_opts(url, options.map(|(key, value)| (key, value.clone())))?;
            Ok(Connection::plain(Arc::from(store), host, below.to_string()))
        }
    }
}

impl Connection {
    fn paged<S: ObjectStore + PaginatedListStore>(
        service: Service,
        store: Arc<S>,
        name: String,
        prefix: String,
    ) -> Self {
        Self { service, paged: Some(Arc::clone(&store) as _), ..Self::plain(store, name, prefix) }
    }

    fn plain(store: Arc<dyn ObjectStore>, name: String, prefix: String) -> Self {
        Self { service: Service::Common, store, paged: None, unsorted: false, name, prefix }
    }
}

/// Whether an endpoint is plain HTTP, as text for the setting.
fn is_plain(endpoint: Option<String>) -> &'static str {
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(url: &str, options: &[(&str, &str)]) -> pushdowndb_contract::Result<Connection> {
        let mut gateway = Gateway::new(Url::parse(url).unwrap());
        gateway.options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        connect(&gateway, &Limits::default())
    }

    #[test]
    fn urls_name_buckets_and_prefixes() {
        let account = [("azure_storage_account_name", "acc"), ("azure_storage_account_key", "a2V5")];
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);
        let cases: [Case<'_>; 7] = [
            ("s3://bucket/a%20b/c/", &[], "bucket", "a b/c"),
            ("gs://bucket/below", &[("google_skip_signature", "true")], "bucket", "below"),
            ("az://container", &account, "container", ""),
            ("abfs://container/x", &account, "container", "x"),
            ("abfss://container@acc.dfs.core.windows.net/x/y", &account[1..], "container", "x/y"),
            ("http://host:8080/data", &[], "host", ""),
            ("memory:///below/here", &[], "", "below/here"),
        ];
        for (url, options, name, prefix) in cases {
            let connection = connected(url, options).unwrap_or_else(|error| panic!("{url}: {error:?}"));
            assert_eq!((connection.name.as_str(), connection.prefix.as_str()), (name, prefix), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_reached_says_so() {
        for (url, options) in [
            ("az://container", &[][..]),
            ("gs://bucket", &[("google_no_such", "x")]),
            ("gs://bucket", &[("google_service_account_path", "/no/such/file")]),
            ("ftp://host/x", &[]),
        ] {
            let Err(error) = connected(url, options) else { panic!("{url} {options:?} is served") };
            assert!(error.to_string().contains(url), "{error}");
        }
    }
}
