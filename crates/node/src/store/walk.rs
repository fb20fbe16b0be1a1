//! Walking over the whole index in steps, for the scrub and for checks: no step keeps a view of the index for long.

use std::ops::Bound;

use redb::ReadableTable;

use super::files::Segment;
use super::index::{BUCKETS, Index, OBJECTS, ObjectRecord, PARTS, UPLOADS, decode, encode};
use super::usage::{USAGE, Usage};
use super::{BucketMeta, PartRecord, Result, StoreError, UploadRecord};

/// An object that a walk met, or what is wrong with its record.
pub(super) struct Walked {
    pub bucket: String,
    pub key: String,
    pub record: Result<ObjectRecord>,
}

/// The checksums of an object that had none.
pub(super) struct Adopted {
    pub bucket: String,
    pub key: String,
    /// Its files as they were read.
    pub before: Vec<Segment>,
    /// The same with checksums; `None` if their bytes are not those of the ETag.
    pub after: Option<Vec<Segment>>,
}

/// A part of an upload under way that a walk met: the upload, its number, its record.
pub(super) type WalkedPart = (String, u32, Result<PartRecord>);

impl Index {
    /// The next objects after this bucket and key, at most `limit`.
    pub fn objects_after(&self, after: Option<&(String, String)>, limit: usize) -> Result<Vec<Walked>> {
        let objects = self.read()?.open_table(OBJECTS)?;
        let from = after.map_or(Bound::Unbounded, |(bucket, key)| Bound::Excluded((bucket.as_str(), key.as_bytes())));
        let mut walked = Vec::new();
        for entry in objects.range::<(&str, &[u8])>((from, Bound::Unbounded))?.take(limit) {
            let (at, record) = entry?;
            let (bucket, key) = at.value();
            let (bucket, key) = (bucket.to_owned(), String::from_utf8_lossy(key).into_owned());
            walked.push(Walked { bucket, key, record: decode(record.value()) });
        }
        Ok(walked)
    }

    /// The next parts after this upload and number, at most `limit`.
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

    /// What is wrong with the records of buckets and uploads: which one, and what.
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

    /// Keeps checksums of objects that are still as they were read.
    pub fn adopt(&self, adopted: &[Adopted]) -> Result<()> {
        if adopted.is_empty() {
            return Ok(());
        }
        self.write(|tx| {
            let mut objects = tx.open_table(OBJECTS)?;
            for object in adopted {
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
