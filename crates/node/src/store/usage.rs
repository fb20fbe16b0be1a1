//! What each key holds of a store: buckets, uploads and bytes, counted in the transactions that change them.

use redb::{ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::grant::{Account, Quota};
use super::index::{BUCKETS, decode, encode};
use super::{BucketMeta, Result, StoreError};

/// By access key id.
pub(super) const USAGE: TableDefinition<&str, &[u8]> = TableDefinition::new("usage");

/// What one key holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Usage {
    pub buckets: u64,
    pub uploads: u64,
    pub bytes: u64,
}

impl Usage {
    /// Bytes alone.
    pub fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }
}

/// Adds `change` to what `account` holds; refused where that exceeds its quota.
pub(super) fn add(tx: &WriteTransaction, account: Option<&Account>, change: Usage) -> Result<()> {
    let Some(account) = account else { return Ok(()) };
    let mut usage = tx.open_table(USAGE)?;
    let mut held = read(&usage, &account.key)?;
    held.buckets += change.buckets;
    held.uploads += change.uploads;
    held.bytes = held.bytes.saturating_add(change.bytes);
    let Quota { buckets, uploads, bytes } = account.quota;
    let over = |what: &'static str, limit: u64| StoreError::OverQuota { key: account.key.clone(), what, limit };
    if change.buckets > 0 && held.buckets > buckets {
        return Err(over("buckets", buckets));
    }
    if change.uploads > 0 && held.uploads > uploads {
        return Err(over("uploads under way", uploads));
    }
    if let Some(bytes) = bytes.filter(|bytes| change.bytes > 0 && held.bytes > *bytes) {
        return Err(over("bytes", bytes));
    }
    usage.insert(account.key.as_str(), encode(&held)?.as_slice())?;
    Ok(())
}

/// Takes `change` from what `key` holds. Records from before there were accounts name no key.
pub(super) fn subtract(tx: &WriteTransaction, key: Option<&str>, change: Usage) -> Result<()> {
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

/// Makes the table of a store that has none yet, with the owners of its buckets.
pub(super) fn begin(tx: &WriteTransaction) -> Result<()> {
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

/// What `key` holds.
pub(super) fn read(usage: &impl ReadableTable<&'static str, &'static [u8]>, key: &str) -> Result<Usage> {
    usage.get(key)?.map_or_else(|| Ok(Usage::default()), |held| decode(held.value()))
}
