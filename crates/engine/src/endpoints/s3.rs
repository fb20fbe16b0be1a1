//! A bucket: how requests to it are made and signed.

use std::fmt;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredentialProvider};
use pushdowndb_contract::{Error, Result};
use url::Url;

use super::http::Connections;
use super::node::Node;

/// The default region of AWS.
const DEFAULT_REGION: &str = "us-east-1";

/// A bucket.
pub(crate) struct S3 {
    pub(crate) builder: AmazonS3Builder,
    pub(crate) connections: Connections,
    pub(crate) bucket: String,
    /// `endpoint/bucket`, without a trailing slash.
    pub(crate) bucket_url: String,
    pub(crate) region: String,
    /// Signs requests; `None` sends them unsigned.
    pub(crate) signer: Option<AwsCredentialProvider>,
    pub(crate) requester_pays: bool,
    /// The endpoint as a node, which records failures so that other stores with the same objects
    /// can take over.
    pub(crate) node: Arc<Node>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the builder, which holds secrets.
        f.debug_struct("S3").field("bucket_url", &self.bucket_url).finish_non_exhaustive()
    }
}

impl S3 {
    pub(crate) fn new(
        builder: AmazonS3Builder,
        connections: Connections,
        signer: AwsCredentialProvider,
        endpoint: &Url,
        bucket: &str,
    ) -> Result<Self> {
        let is_set = |key: Key| builder.get_config_value(&key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let region = builder.get_config_value(&Key::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let node = Arc::new(Node::new(endpoint, connections.clone()));
        let endpoint = endpoint.as_str().trim_end_matches('/');
        Ok(Self {
            bucket: bucket.to_owned(),
            bucket_url: match is_set(Key::VirtualHostedStyleRequest) {
                true => endpoint.to_owned(),
                false => format!("{endpoint}/{bucket}"),
            },
            region,
            signer: (!is_set(Key::SkipSignature)).then_some(signer),
            requester_pays: is_set(Key::RequestPayer),
            builder,
            connections,
            node,
        })
    }
}

/// Returns the endpoint of a bucket, and whether the program or its environment named it.
pub(crate) fn endpoint_of(builder: &AmazonS3Builder) -> Result<(Url, bool)> {
    let named = builder.get_config_value(&Key::S3Endpoint).or_else(|| builder.get_config_value(&Key::Endpoint));
    let is_named = named.is_some();
    let endpoint = named.unwrap_or_else(|| {
        let region = builder.get_config_value(&Key::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        format!("https://s3.{region}.amazonaws.com")
    });
    let url = Url::parse(&endpoint).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    let url = url.ok_or_else(|| {
        Error::invalid(format!("the endpoint '{endpoint}' is no HTTP address; write it like http://host:9000"))
    })?;
    Ok((url, is_named))
}
