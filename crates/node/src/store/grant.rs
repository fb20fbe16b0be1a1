//! The permission for a change, checked again in the transaction that makes the change visible.
//!
//! A request is authorized by its head, and hours may pass before its last byte. Meanwhile its key
//! may be revoked, or its bucket deleted and recreated by another tenant. So each changing method
//! of a store takes a [`Grant`], and [`super::index::Index::change`], the only way into the tables
//! of a bucket, checks it first.

use std::fmt;
use std::sync::Arc;

use super::{BucketMeta, Result};

/// Decides whether an authorized request may still make its change. Implementations must not block,
/// except on short locks.
pub(crate) trait Authority: fmt::Debug + Send + Sync {
    /// Checks the access key against the current keys, and `bucket`, as the transaction sees it,
    /// against the authorized one. `bucket` is `None` if the bucket is being created or cannot
    /// change its owner.
    fn check(&self, bucket: Option<&BucketMeta>) -> Result<()>;

    /// Whether the right depends on the bucket itself, not only on its name.
    fn is_bound_to_bucket(&self) -> bool;

    /// The key that the change is charged to, with its quota.
    fn account(&self) -> Option<Account>;
}

/// The key that is charged for a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub key: String,
    pub quota: Quota,
}

impl Account {
    /// The key that objects and parts are recorded with. Returns `None` for a key without a byte
    /// quota: its bytes are not counted, which saves an index record per write.
    pub fn writer(&self) -> Option<&str> {
        Some(self.key.as_str()).filter(|_| self.quota.bytes != Some(u64::MAX))
    }
}

/// The quota of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Quota {
    /// Buckets that the key created.
    pub buckets: u64,
    /// Multipart uploads in progress that the key started.
    pub uploads: u64,
    /// Bytes of the objects and parts that the key wrote. `None` is the default of the store, half
    /// of its disk; `u64::MAX` is unlimited.
    pub bytes: Option<u64>,
}

/// The permission for one change.
#[derive(Clone, Debug)]
pub(crate) struct Grant(Option<Arc<dyn Authority>>);

impl Grant {
    /// A permission that `authority` checks again and may deny.
    pub fn new(authority: Arc<dyn Authority>) -> Self {
        Self(Some(authority))
    }

    /// The permission of the node itself, which is always valid.
    pub fn node() -> Self {
        Self(None)
    }

    /// Checks that the change may still be made in `bucket`.
    pub fn check(&self, bucket: &BucketMeta) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |authority| authority.check(Some(bucket)))
    }

    /// Whether the right depends on the bucket itself, not only on its name.
    pub fn is_bound_to_bucket(&self) -> bool {
        self.0.as_ref().is_some_and(|authority| authority.is_bound_to_bucket())
    }

    /// Checks that the key is still valid. This suffices if the bucket is being created or cannot
    /// change its owner.
    pub fn check_key(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |authority| authority.check(None))
    }

    /// Returns a grant with the same account that is always valid, for a store whose data is not
    /// visible yet.
    pub fn accounted(&self) -> Self {
        self.account().map_or_else(Self::node, |account| Self::new(Arc::new(Accounted(account))))
    }

    /// The key that the change is charged to.
    pub fn account(&self) -> Option<Account> {
        self.0.as_ref().and_then(|authority| authority.account())
    }
}

#[derive(Debug)]
struct Accounted(Account);

impl Authority for Accounted {
    fn check(&self, _: Option<&BucketMeta>) -> Result<()> {
        Ok(())
    }

    fn is_bound_to_bucket(&self) -> bool {
        false
    }

    fn account(&self) -> Option<Account> {
        Some(self.0.clone())
    }
}
