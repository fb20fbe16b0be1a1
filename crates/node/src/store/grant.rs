//! The permission that a change is made under, decided again in the transaction that makes the change visible.
//!
//! A request is authorised by its head, and hours may pass before its last byte. Meanwhile its key may be revoked, or its
//! bucket deleted and created anew by another tenant. So every method that changes a store takes a [`Grant`], and
//! [`super::index::Index::change`], the only way into a bucket's tables, asks it first.

use std::fmt;
use std::sync::Arc;

use super::{BucketMeta, Result, Store};

/// Decides whether a request that was authorised may still make its change. Blocks no longer than a lock.
pub(crate) trait Authority: fmt::Debug + Send + Sync {
    /// Checks the key against the keys in use, and `bucket`, as the transaction sees it, against the bucket that was
    /// authorised. `None` stands for a bucket that is about to be created, or one that cannot change hands.
    fn check(&self, bucket: Option<&BucketMeta>) -> Result<()>;

    /// Whether the right depends on the bucket that was authorised, and not on its name alone.
    fn is_of_bucket(&self) -> bool;

    /// The key that the change is accounted to, and what it may hold.
    fn account(&self) -> Option<Account>;
}

/// The key that owns what a change adds to the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub key: String,
    pub quota: Quota,
}

/// How much of a store one key may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Quota {
    /// Buckets that the key created.
    pub buckets: u64,
    /// Multipart uploads under way that the key began.
    pub uploads: u64,
    /// Bytes of the objects and parts that the key wrote. `None` is what the store chooses: half of its disk.
    pub bytes: Option<u64>,
}

/// The permission to make one change.
#[derive(Clone, Debug)]
pub(crate) struct Grant(Option<Arc<dyn Authority>>);

impl Grant {
    /// A permission that `authority` may withdraw.
    pub fn new(authority: Arc<dyn Authority>) -> Self {
        Self(Some(authority))
    }

    /// The permission of the node itself, for changes that no request asked for.
    pub fn node() -> Self {
        Self(None)
    }

    /// Checks that the change may still be made in `bucket`.
    pub fn check(&self, bucket: &BucketMeta) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |authority| authority.check(Some(bucket)))
    }

    /// Checks that the key is still in use: all there is to check where a bucket is created or cannot change hands.
    pub fn check_key(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |authority| authority.check(None))
    }

    /// Checks, after something of `bucket` was read, that it was read from the bucket that was authorised.
    pub async fn confirm(&self, store: &dyn Store, bucket: &str) -> Result<()> {
        match &self.0 {
            Some(authority) if authority.is_of_bucket() => authority.check(Some(&store.bucket(bucket).await?)),
            _ => self.check_key(),
        }
    }

    /// The same account without the checks, for a store that keeps what is not visible yet.
    pub fn accounted(&self) -> Self {
        self.account().map_or_else(Self::node, |account| Self::new(Arc::new(Accounted(account))))
    }

    /// The key that the change is accounted to.
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

    fn is_of_bucket(&self) -> bool {
        false
    }

    fn account(&self) -> Option<Account> {
        Some(self.0.clone())
    }
}
