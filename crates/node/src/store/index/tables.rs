//! The tables of the index.

use redb::{ReadableTable, TableDefinition};

use super::record::decode;
use crate::store::{BucketMeta, Result, StoreError};

pub(crate) const BUCKETS: TableDefinition<&str, &[u8]> = TableDefinition::new("buckets");
pub(crate) const OBJECTS: TableDefinition<(&str, &[u8]), &[u8]> = TableDefinition::new("objects");
/// By bucket, key and upload id.
pub(crate) const UPLOADS: TableDefinition<(&str, &[u8], &str), &[u8]> = TableDefinition::new("uploads");
/// By upload id and part number.
pub(crate) const PARTS: TableDefinition<(&str, u32), &[u8]> = TableDefinition::new("parts");
/// By access key id.
pub(crate) const USAGE: TableDefinition<&str, &[u8]> = TableDefinition::new("usage");

pub(crate) fn require_bucket(buckets: &impl ReadableTable<&'static str, &'static [u8]>, bucket: &str) -> Result<()> {
    match buckets.get(bucket)? {
        Some(_) => Ok(()),
        None => Err(StoreError::NoSuchBucket(bucket.to_owned())),
    }
}

pub(crate) fn get_bucket(
    buckets: &impl ReadableTable<&'static str, &'static [u8]>,
    bucket: &str,
) -> Result<BucketMeta> {
    let record = buckets.get(bucket)?.ok_or_else(|| StoreError::NoSuchBucket(bucket.to_owned()))?;
    decode(record.value())
}
