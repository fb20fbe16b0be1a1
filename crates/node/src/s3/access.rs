//! Who may do what: whoever signs with the node's keys may do everything, everyone else nothing.
//!
//! Signatures of version 2 are refused: they do not bind the body or the time of the request.

use std::sync::Arc;

use async_trait::async_trait;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use crate::Credentials;
use crate::counters::Counting;

/// Knows the secret of the one access key.
pub(super) struct Keys {
    access_key_id: String,
    secret: SecretKey,
}

impl Keys {
    pub fn new(credentials: &Credentials) -> Self {
        Self {
            access_key_id: credentials.access_key_id.clone(),
            secret: SecretKey::from(credentials.secret_access_key.as_str()),
        }
    }
}

#[async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key_id {
            Ok(self.secret.clone())
        } else {
            Err(s3_error!(InvalidAccessKeyId, "the access key does not exist on this node"))
        }
    }
}

/// Lets signed requests in and counts them.
pub(super) struct Access {
    counting: Arc<Counting>,
}

impl Access {
    pub fn new(counting: Arc<Counting>) -> Self {
        Self { counting }
    }
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        if cx.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "requests must be signed; anonymous access is not allowed"));
        }
        let old_header = cx.headers().get("authorization").is_some_and(|value| value.as_bytes().starts_with(b"AWS "));
        let old_query = cx.uri().query().unwrap_or_default().split('&').any(|pair| pair.starts_with("Signature="));
        if old_header || old_query {
            return Err(s3_error!(AccessDenied, "signature version 2 is not accepted; sign with version 4"));
        }
        self.counting.request(cx.s3_op().name());
        Ok(())
    }
}
