//! Walks over the whole index in steps, for scrubs and checks. No step holds a snapshot for long.

use std::ops::Bound;

use redb::ReadableTable;

use super::Index;
use super::record::{ObjectRecord, decode, encode};
use super::tables::{BUCKETS, OBJECTS, PARTS, UPLOADS, USAGE};
use super::usage::Usage;
use crate::store::disk::data_files::Segment;
use crate::store::{BucketMeta, PartRecord, Result, StoreError, UploadRecord};

/// An object, or the error that decoding its record caused.
pub(crate) struct WalkedObject {
    pub bucket: String,
    pub key: String,
    pub record: Result<ObjectRecord>,
}

/// The backfilled checksums of an object.
pub(crate) struct Backfilled {
    pub bucket: String,
    pub key: String,
    /// Its files as they were when their bytes were read.
    pub before: Vec<Segment>,
    /// The same files with checksums; `None` if their bytes do not match the ETag.
    pub after: Option<Vec<Segment>>,
}

/// A part of an upload in progress: the upload, its number, its record.
pub(crate) type WalkedPart = (String, u32, Result<PartRecord>);

impl Index {
    /// At most `limit` objects after this bucket and key.
    pub fn objects_after(&self, after: Option<&(String, String)>, limit: usize) -> Result<Vec<WalkedObject>> {
        let objects = self.read()?.open_table(OBJECTS)?;
        let from = after.map_or(Bound::Unbounded, |(bucket, key)| Bound::Excluded((bucket.as_str(), key.as_bytes())));
        let mut walked = Vec::new();
        for entry in objects.range::<(&str, &[u8])>((from, Bound::Unbounded))?.take(limit) {
            let (at, record) = entry?;
            let (bucket, key) = at.value();
            let (bucket, key) = (bucket.to_owned(), String::from_utf8_lossy(key).into_owned());
            walked.push(WalkedObject { bucket, key, record: decode(record.value()) });
        }
        Ok(walked)
    }

    /// At most `limit` parts after this upload and number.
    pub fn parts_after(&self, after: Option<&(String, u32)>, limit: usize) -> Result<Vec<WalkedPart>> {
        let parts = self.read()?.open_table(PARTS)?;
        let from = after.map_or(Bound::Unbounded, |(upload, number)| Bound::Excluded((upload.as_str(), *number)));
        let mut walked = Vec::new();
        for entry in parts.range::<(&str, u32)>((from, Bound::Unbounded))?.take(limit) {
            let (at, part) = entry?;
            let (upload, number) = at.value();
            walked.push((upload.to_owned(), number, decode(part.value())));
        }
        Ok(walked)
    }

    /// Lists the damaged records of buckets, uploads and usage, each with a name and the error.
    pub fn wrong_records(&self) -> Result<Vec<(String, StoreError)>> {
        let tx = self.read()?;
        let mut wrong = Vec::new();
        for entry in tx.open_table(BUCKETS)?.iter()? {
            let (name, record) = entry?;
            if let Err(error) = decode::<BucketMeta>(record.value()) {
                wrong.push((format!("the bucket {}", name.value()), error));
            }
        }
        for entry in tx.open_table(UPLOADS)?.iter()? {
            let (at, record) = entry?;
            if let Err(error) = decode::<UploadRecord>(record.value()) {
                let (bucket, key, id) = at.value();
                wrong.push((format!("the upload {id} of s3://{bucket}/{}", String::from_utf8_lossy(key)), error));
            }
        }
        for entry in tx.open_table(USAGE)?.iter()? {
            let (key, record) = entry?;
            if let Err(error) = decode::<Usage>(record.value()) {
                wrong.push((format!("what the key {} holds", key.value()), error));
            }
        }
        Ok(wrong)
    }

    /// Stores the checksums of objects whose files have not changed since they were read.
    pub fn store_backfilled(&self, backfilled: &[Backfilled]) -> Result<()> {
        if backfilled.is_empty() {
            return Ok(());
        }
        self.write(|tx| {
            let mut objects = tx.open_table(OBJECTS)?;
            for object in backfilled {
                let at = (object.bucket.as_str(), object.key.as_bytes());
                let present = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
                let Some(mut record) = present.filter(|record| record.segments == object.before) else { continue };
                match &object.after {
                    Some(after) => record.segments.clone_from(after),
                    None => record.damaged = true,
                }
                objects.insert(at, encode(&record)?.as_slice())?;
            }
            Ok(())
        })
    }
}
