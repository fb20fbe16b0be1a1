//! The index of a store: an ordered, transactional table from (bucket, key) to where the bytes are.
//!
//! A commit here is the acknowledgement of every write. Commits are durable when they return. All calls
//! block; callers run them on blocking tasks. Records are JSON behind a format byte: a reader refuses a
//! format it does not know instead of guessing.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::disk::{Change, Disk, DiskFile};
use super::files::Segment;
use super::index_file::IndexFile;
use super::listing::Cursor;
use super::{BucketMeta, Condition, ObjectMeta, Result, StoreError};

pub(super) const BUCKETS: TableDefinition<&str, &[u8]> = TableDefinition::new("buckets");
pub(super) const OBJECTS: TableDefinition<(&str, &[u8]), &[u8]> = TableDefinition::new("objects");
/// By bucket, key and upload id.
pub(super) const UPLOADS: TableDefinition<(&str, &[u8], &str), &[u8]> = TableDefinition::new("uploads");
/// By upload id and part number.
pub(super) const PARTS: TableDefinition<(&str, u32), &[u8]> = TableDefinition::new("parts");

/// The format of the records in these tables.
const FORMAT: u8 = 1;

/// The page cache of the index, in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// An object in the index.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ObjectRecord {
    pub meta: ObjectMeta,
    /// The files that hold the bytes, in order; none for an empty object of no parts.
    pub segments: Vec<Segment>,
}

/// The tables.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) db: Database,
}

pub(super) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![FORMAT];
    serde_json::to_writer(&mut bytes, record)
        .map_err(|error| StoreError::Corrupt(format!("a record cannot be written: {error}")))?;
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&FORMAT, json)) => serde_json::from_slice(json)
            .map_err(|error| StoreError::Corrupt(format!("a record of the index cannot be read: {error}"))),
        Some((format, _)) => Err(StoreError::Corrupt(format!(
            "the index holds a record of format {format}; this version knows format {FORMAT}"
        ))),
        None => Err(StoreError::Corrupt("the index holds an empty record".to_owned())),
    }
}

impl Index {
    /// Opens or makes the index. It can be open in one process only.
    pub fn open(path: &Path, disk: &Arc<dyn Disk>) -> Result<Self> {
        let io = |error: io::Error| StoreError::io("cannot open the index")(error);
        if !path.exists() {
            // Beside and renamed: redb refuses a file that a crash left half laid out.
            let draft = path.with_extension("new");
            if draft.exists() {
                disk.apply(Change::Remove(&draft)).map_err(io)?;
            }
            drop(Self::over(DiskFile::create(disk, draft.clone()).map_err(io)?)?);
            disk.apply(Change::Rename { from: &draft, to: path }).map_err(io)?;
        }
        // Commits are durable only in a file that is found again.
        disk.apply(Change::SyncFolder(path.parent().unwrap_or(path))).map_err(io)?;
        Self::over(DiskFile::open(disk, path.to_owned()).map_err(io)?)
    }

    fn over(file: DiskFile) -> Result<Self> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(IndexFile::new(file)?)?;
        let index = Self { db };
        index.write(|tx| {
            tx.open_table(BUCKETS)?;
            tx.open_table(OBJECTS)?;
            tx.open_table(UPLOADS)?;
            tx.open_table(PARTS)?;
            Ok(())
        })?;
        Ok(index)
    }

    /// Runs `change` in a write transaction: all of it is durable when this returns, or none of it happened.
    pub(super) fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let tx = self.db.begin_write()?;
        match change(&tx) {
            Ok(done) => {
                tx.commit()?;
                Ok(done)
            }
            Err(error) => {
                tx.abort()?;
                Err(error)
            }
        }
    }

    pub fn create_bucket(&self, meta: &BucketMeta, limit: usize) -> Result<()> {
        self.write(|tx| {
            let mut buckets = tx.open_table(BUCKETS)?;
            if buckets.get(meta.name.as_str())?.is_some() {
                return Err(StoreError::BucketExists(meta.name.clone()));
            }
            if redb::ReadableTableMetadata::len(&buckets)? >= limit as u64 {
                return Err(StoreError::TooMany { what: "buckets", limit });
            }
            buckets.insert(meta.name.as_str(), encode(meta)?.as_slice())?;
            Ok(())
        })
    }

    pub fn bucket(&self, name: &str) -> Result<BucketMeta> {
        let buckets = self.db.begin_read()?.open_table(BUCKETS)?;
        let record = buckets.get(name)?.ok_or_else(|| StoreError::NoSuchBucket(name.to_owned()))?;
        decode(record.value())
    }

    pub fn buckets(&self) -> Result<Vec<BucketMeta>> {
        let buckets = self.db.begin_read()?.open_table(BUCKETS)?;
        buckets.iter()?.map(|entry| decode(entry?.1.value())).collect()
    }

    /// Removes an empty bucket together with its unfinished uploads; gives the files of their parts.
    pub fn delete_bucket(&self, name: &str) -> Result<Vec<Segment>> {
        self.write(|tx| {
            if tx.open_table(BUCKETS)?.remove(name)?.is_none() {
                return Err(StoreError::NoSuchBucket(name.to_owned()));
            }
            let objects = tx.open_table(OBJECTS)?;
            if let Some(first) = objects.range((name, [].as_slice())..)?.next()
                && first?.0.value().0 == name
            {
                return Err(StoreError::BucketNotEmpty(name.to_owned()));
            }
            super::multipart::drop_uploads(tx, |bucket, _| bucket == name)
        })
    }

    pub fn object(&self, bucket: &str, key: &str) -> Result<ObjectRecord> {
        let tx = self.db.begin_read()?;
        match tx.open_table(OBJECTS)?.get((bucket, key.as_bytes()))? {
            Some(record) => decode(record.value()),
            None => {
                require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
                Err(StoreError::NoSuchKey(key.to_owned()))
            }
        }
    }

    /// Puts an object in its place if the condition holds; gives the files of the one it replaced.
    pub fn put(&self, bucket: &str, key: &str, record: &ObjectRecord, condition: &Condition) -> Result<Vec<Segment>> {
        self.write(|tx| put_in(tx, bucket, key, record, condition))
    }

    /// Removes objects; gives their files and one answer per key.
    pub fn delete(&self, bucket: &str, keys: &[(String, Condition)]) -> Result<(Vec<Segment>, Vec<Result<()>>)> {
        self.write(|tx| {
            require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
            let mut objects = tx.open_table(OBJECTS)?;
            let mut freed = Vec::new();
            let mut answers = Vec::with_capacity(keys.len());
            for (key, condition) in keys {
                let at = (bucket, key.as_bytes());
                let present = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
                let answer = condition.check(key, present.as_ref().map(|record| record.meta.etag.as_str()));
                if let (Ok(()), Some(record)) = (&answer, present) {
                    objects.remove(at)?;
                    freed.extend(record.segments);
                }
                answers.push(answer);
            }
            Ok((freed, answers))
        })
    }

    /// An ordered walk over one bucket.
    pub fn cursor(&self, bucket: &str) -> Result<IndexCursor> {
        let tx = self.db.begin_read()?;
        require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
        let table = tx.open_table(OBJECTS)?;
        let range = table.range((bucket, [].as_slice())..)?;
        Ok(IndexCursor { bucket: bucket.to_owned(), table, range })
    }

    /// Every data file that anything names.
    pub fn live(&self) -> Result<HashSet<Uuid>> {
        let tx = self.db.begin_read()?;
        let mut live = HashSet::new();
        for entry in tx.open_table(OBJECTS)?.iter()? {
            let record: ObjectRecord = decode(entry?.1.value())?;
            live.extend(record.segments.iter().map(|segment| segment.id));
        }
        for entry in tx.open_table(PARTS)?.iter()? {
            let part: super::PartRecord = decode(entry?.1.value())?;
            live.insert(part.segment.id);
        }
        Ok(live)
    }
}

pub(super) fn require_bucket(buckets: &impl ReadableTable<&'static str, &'static [u8]>, bucket: &str) -> Result<()> {
    match buckets.get(bucket)? {
        Some(_) => Ok(()),
        None => Err(StoreError::NoSuchBucket(bucket.to_owned())),
    }
}

/// The step of every write that makes an object visible.
pub(super) fn put_in(
    tx: &WriteTransaction,
    bucket: &str,
    key: &str,
    record: &ObjectRecord,
    condition: &Condition,
) -> Result<Vec<Segment>> {
    require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
    let mut objects = tx.open_table(OBJECTS)?;
    let at = (bucket, key.as_bytes());
    let present = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
    condition.check(key, present.as_ref().map(|record| record.meta.etag.as_str()))?;
    objects.insert(at, encode(record)?.as_slice())?;
    Ok(present.map(|record| record.segments).unwrap_or_default())
}

/// A walk over the keys of one bucket as they were when it began.
pub(crate) struct IndexCursor {
    bucket: String,
    table: ReadOnlyTable<(&'static str, &'static [u8]), &'static [u8]>,
    range: redb::Range<'static, (&'static str, &'static [u8]), &'static [u8]>,
}

impl Cursor for IndexCursor {
    fn seek(&mut self, at: &[u8]) -> Result<()> {
        self.range = self.table.range((self.bucket.as_str(), at)..)?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
        let Some(entry) = self.range.next() else { return Ok(None) };
        let (key, record) = entry?;
        let (bucket, key) = key.value();
        if bucket != self.bucket {
            return Ok(None);
        }
        Ok(Some((key.to_vec(), decode::<ObjectRecord>(record.value())?.meta)))
    }
}
