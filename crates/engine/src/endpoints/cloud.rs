//! Buckets of Google Cloud Storage and containers of Azure Blob Storage, which have no pushdown.
//!
//! Their settings come from the environment: `GOOGLE_*` and `AZURE_*`, as object_store reads them.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use pushdowndb_contract::Result;

use super::http::{Connections, MeteredHttp, SharedClient};
use crate::error::from_object_store;

/// A bucket or a container.
pub(crate) struct Cloud {
    builder: Builder,
    pub(crate) connections: Connections,
}

#[derive(Clone)]
enum Builder {
    Google(Box<GoogleCloudStorageBuilder>),
    Azure(Box<MicrosoftAzureBuilder>),
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the builder, which holds secrets.
        f.debug_struct("Cloud").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Cloud {
    /// Opens the bucket `bucket` of Google Cloud Storage. `client` fetches the credentials, which
    /// all queries share.
    pub(crate) fn google(
        bucket: &str,
        options: ClientOptions,
        retry: RetryConfig,
        client: &SharedClient,
        connections: Connections,
    ) -> Result<Self> {
        // Without this header, objects stored with gzip are decompressed by the server, without
        // ranges.
        let packed = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_client_options(options.with_default_headers(packed))
            .with_retry(retry)
            .with_bucket_name(bucket);
        if builder.get_config_value(&GoogleConfigKey::SkipSignature).is_some_and(|skip| skip == "true") {
            // Otherwise writes would wait for credentials from Google's metadata server.
            let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
            builder = builder.with_credentials(Arc::new(nobody));
        }
        let base = builder.clone().with_http_connector(client.clone()).build().map_err(from_object_store)?;
        builder = builder.with_credentials(Arc::clone(base.credentials()));
        Ok(Self { builder: Builder::Google(Box::new(builder)), connections })
    }

    /// Opens the container `container` of Azure Blob Storage.
    pub(crate) fn azure(
        container: &str,
        options: ClientOptions,
        retry: RetryConfig,
        client: &SharedClient,
        connections: Connections,
    ) -> Result<Self> {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_client_options(options)
            .with_retry(retry)
            .with_container_name(container);
        let base = builder.clone().with_http_connector(client.clone()).build().map_err(from_object_store)?;
        builder = builder.with_credentials(Arc::clone(base.credentials()));
        Ok(Self { builder: Builder::Azure(Box::new(builder)), connections })
    }

    /// Returns the store, whose requests go through `connector` to be counted.
    pub(crate) fn store(&self, connector: MeteredHttp) -> Result<Arc<dyn ObjectStore>> {
        let store: object_store::Result<Arc<dyn ObjectStore>> = match self.builder.clone() {
            Builder::Google(builder) => {
                builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _)
            }
            Builder::Azure(builder) => builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _),
        };
        store.map_err(from_object_store)
    }
}
