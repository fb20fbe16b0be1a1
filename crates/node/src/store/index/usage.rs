//! Buckets, uploads and bytes per key, counted in the transactions that change them.

use redb::{ReadableTable, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{decode, encode};
use super::tables::{BUCKETS, USAGE};
use crate::store::grant::{Account, Quota};
use crate::store::{BucketMeta, Result, StoreError};

/// The buckets, unfinished uploads and bytes of one access key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Usage {
    pub buckets: u64,
    pub uploads: u64,
    pub bytes: u64,
}

impl Usage {
    /// A usage of bytes only.
    pub fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }
}

/// Adds `change` to the usage of `account`; fails above its quota.
pub(crate) fn add(tx: &WriteTransaction, account: Option<&Account>, change: Usage) -> Result<()> {
    let Some(account) = account.filter(|account| change.bytes == 0 || account.writer().is_some()) else {
        return Ok(());
    };
    let mut usage = tx.open_table(USAGE)?;
    let mut held = read(&usage, &account.key)?;
    held.buckets += change.buckets;
    held.uploads += change.uploads;
    held.bytes = held.bytes.saturating_add(change.bytes);
    let Quota { buckets, uploads, bytes } = account.quota;
    let over_quota = |what: &'static str, limit: u64| StoreError::OverQuota { key: account.key.clone(), what, limit };
    if change.buckets > 0 && held.buckets > buckets {
        return Err(over_quota("buckets", buckets));
    }
    if change.uploads > 0 && held.uploads > uploads {
        return Err(over_quota("uploads under way", uploads));
    }
    if let Some(bytes) = bytes.filter(|bytes| change.bytes > 0 && held.bytes > *bytes) {
        return Err(over_quota("bytes", bytes));
    }
    usage.insert(account.key.as_str(), encode(&held)?.as_slice())?;
    Ok(())
}

/// Subtracts `change` from the usage of `key`. Records from before accounting have no key and
/// change nothing.
pub(crate) fn subtract(tx: &WriteTransaction, key: Option<&str>, change: Usage) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    let mut usage = tx.open_table(USAGE)?;
    let mut held = read(&usage, key)?;
    held.buckets = held.buckets.saturating_sub(change.buckets);
    held.uploads = held.uploads.saturating_sub(change.uploads);
    held.bytes = held.bytes.saturating_sub(change.bytes);
    if held == Usage::default() {
        usage.remove(key)?;
    } else {
        usage.insert(key, encode(&held)?.as_slice())?;
    }
    Ok(())
}

/// Fills the usage table of a store that has none yet, by counting the buckets of each owner.
pub(crate) fn begin(tx: &WriteTransaction) -> Result<()> {
    let buckets = tx.open_table(BUCKETS)?;
    let mut usage = tx.open_table(USAGE)?;
    for entry in buckets.iter()? {
        let meta: BucketMeta = decode(entry?.1.value())?;
        if let Some(owner) = meta.settings.owner.as_deref() {
            let mut held = read(&usage, owner)?;
            held.buckets += 1;
            usage.insert(owner, encode(&held)?.as_slice())?;
        }
    }
    Ok(())
}

/// The usage of `key`.
pub(crate) fn read(usage: &impl ReadableTable<&'static str, &'static [u8]>, key: &str) -> Result<Usage> {
    usage.get(key)?.map_or_else(|| Ok(Usage::default()), |held| decode(held.value()))
}
