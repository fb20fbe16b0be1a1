//! The key that signed a request, and its request slot.

use std::sync::Arc;

use http::Extensions;
use s3s::{S3Error, S3Result, s3_error};

use crate::admission::{Requester, Ticket};
use crate::keys::ActiveKeys;

/// The key whose signature was verified.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub access_key_id: String,
}

impl Signer {
    pub fn new(access_key_id: &str) -> Self {
        Self { access_key_id: access_key_id.to_owned() }
    }
}

pub(crate) fn unknown_key() -> S3Error {
    s3_error!(InvalidAccessKeyId, "the access key does not exist on this node")
}

/// Marks a request as authenticated, which ends the time limit for that.
pub(crate) fn authenticated(extensions: &Extensions) {
    if let Some(ticket) = extensions.get::<Arc<Ticket>>() {
        ticket.authenticate();
    }
}

/// Waits for a request slot for `signer`. Adds its [`Requester`] to `extensions` and returns it.
pub(crate) async fn admit(extensions: &mut Extensions, keys: &ActiveKeys, signer: &Signer) -> S3Result<Requester> {
    let share = keys.now().get(&signer.access_key_id).map(|key| key.share).unwrap_or_default();
    let requester = Requester { key: signer.access_key_id.clone(), requests: share.requests, scans: share.scans };
    if let Some(ticket) = extensions.get::<Arc<Ticket>>().cloned() {
        ticket.admit(&requester).await.map_err(|busy| s3_error!(SlowDown, "{}", busy.message()))?;
    }
    extensions.insert(requester.clone());
    Ok(requester)
}
