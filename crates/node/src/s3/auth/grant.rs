//! Permissions of requests: granted by the head of a request, and checked again when a change is
//! committed.

use std::sync::Arc;

use s3s::{S3Error, S3Result, s3_error};

use super::signer::Signer;
use crate::keys::{ActiveKeys, Key, Right};
use crate::store::{Account, Authority, BucketMeta, Grant, Quota, Result, Store, StoreError};
use crate::{Credentials, Limits};

/// The bucket and right that a request was authorized for, stored in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Authorized {
    pub right: Right,
    pub bucket: String,
    /// Whether the bucket may be created. The owner of an existing bucket of that name was not
    /// checked.
    pub creates: bool,
    pub grant: Grant,
}

/// A signing key and the right that was granted to it.
#[derive(Debug)]
struct Signed {
    keys: ActiveKeys,
    /// The credentials at the time of the authorization. A key whose secret was replaced since then
    /// is revoked.
    credentials: Credentials,
    right: Right,
    name: String,
    /// The bucket as it was when authorized; `None` if the right depends on the bucket's name
    /// alone.
    bucket: Option<BucketMeta>,
    quota: Quota,
}

impl Authority for Signed {
    fn check(&self, found: Option<&BucketMeta>) -> Result<()> {
        let keys = self.keys.now();
        let id = &self.credentials.access_key_id;
        let key = keys.get(id).filter(|key| key.credentials == self.credentials);
        let key = key.ok_or_else(|| StoreError::Denied("this access key was revoked meanwhile".to_owned()))?;
        if let (Some(found), Some(authorized)) = (found, &self.bucket)
            && !is_same(found, authorized)
        {
            return Err(StoreError::NoSuchBucket(self.name.clone()));
        }
        let owns = key.has_own() && found.is_none_or(|found| found.settings.owner.as_ref() == Some(id));
        if key.may(self.right, &self.name) || owns {
            Ok(())
        } else {
            Err(StoreError::Denied(denied(self.right, &self.name)))
        }
    }

    fn is_bound_to_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    fn account(&self) -> Option<Account> {
        Some(Account { key: self.credentials.access_key_id.clone(), quota: self.quota })
    }
}

/// Whether `a` and `b` are records of the same bucket, and not of a later bucket with the same
/// name.
fn is_same(a: &BucketMeta, b: &BucketMeta) -> bool {
    (a.created_ms, &a.settings.owner) == (b.created_ms, &b.settings.owner)
}

/// Authorizes `signer` for `right` on `bucket`, or, if `creates`, for creating it.
pub(crate) async fn authorize(
    keys: &ActiveKeys,
    store: &dyn Store,
    limits: &Limits,
    signer: Option<&Signer>,
    (right, bucket): (Right, &str),
    creates: bool,
) -> S3Result<Authorized> {
    let id = signer.ok_or_else(anonymous)?.access_key_id.as_str();
    let now = keys.now();
    let key = now.get(id).ok_or_else(|| s3_error!(AccessDenied, "{}", denied(right, bucket)))?;
    let by_name = key.may(right, bucket);
    let found = match (by_name, right) {
        // The store checks the owner in the transaction that creates the bucket.
        _ if creates => None,
        (true, Right::Read) => None,
        (true, Right::Write) => Some(store.bucket(bucket).await?),
        (false, _) if key.has_own() => Some(store.bucket(bucket).await?),
        (false, _) => None,
    };
    let owner = found.as_ref().and_then(|found| found.settings.owner.as_deref());
    if !by_name && !(key.has_own() && (creates || owner == Some(id))) {
        return Err(s3_error!(AccessDenied, "{}", denied(right, bucket)));
    }
    let signed = Signed {
        keys: keys.clone(),
        credentials: key.credentials.clone(),
        right,
        name: bucket.to_owned(),
        bucket: found,
        quota: quota(key, limits),
    };
    Ok(Authorized { right, bucket: bucket.to_owned(), creates, grant: Grant::new(Arc::new(signed)) })
}

fn quota(key: &Key, limits: &Limits) -> Quota {
    let share = &key.share;
    Quota {
        buckets: share.buckets.unwrap_or(limits.key_share(limits.buckets) as u64),
        uploads: share.uploads.unwrap_or(limits.key_share(limits.uploads) as u64),
        // By default a key without restrictions may fill the disk.
        bytes: share.bytes.or_else(|| key.grants.is_none().then_some(u64::MAX)),
    }
}

fn denied(right: Right, bucket: &str) -> String {
    let verb = if right == Right::Read { "read" } else { "change" };
    format!("this access key may not {verb} the bucket '{bucket}'")
}

pub(crate) fn anonymous() -> S3Error {
    s3_error!(AccessDenied, "requests must be signed; anonymous access is not allowed")
}
