//! From the record of an object to its bytes.

use std::fs;
use std::io;
use std::sync::Arc;

use super::data::{ObjectData, Piece, Reading, Source};
use super::local::Shared;
use super::record::ObjectRecord;
use super::{Result, StoreError};

impl Shared {
    /// The error of an object that is damaged as a whole.
    pub fn damaged(&self, bucket: &str, key: &str, record: &ObjectRecord, what: &str) -> StoreError {
        let id = record.segments.first().map(|segment| segment.id);
        let object = format!("s3://{bucket}/{key}");
        StoreError::io("damage")(self.reading.verifier().report(&object, id, what.to_owned()))
    }

    /// The bytes of an object, safe from removal; `None` if it was replaced since the record was read.
    pub fn data(
        &self,
        bucket: &str,
        key: &str,
        record: &ObjectRecord,
        reading: &Reading,
    ) -> Result<Option<ObjectData>> {
        let mut start = 0;
        let mut pieces = Vec::with_capacity(record.segments.len());
        let lone = record.segments.len() == 1;
        let pin = (!lone).then(|| self.files.pin(&record.segments));
        for segment in &record.segments {
            let path = self.files.path(segment.id);
            let source = if lone {
                match fs::File::open(&path) {
                    Ok(file) => Source::Open(Arc::new(file)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(source) => return Err(StoreError::Io { context: "cannot open an object".to_owned(), source }),
                }
            } else {
                Source::Path(path)
            };
            let sums = segment.sums.map(|sums| (segment.id, sums));
            pieces.push(Piece { start, size: segment.size, source, sums });
            start += segment.size;
        }
        // A pin protects from removals after it; look again that there was none before it.
        if pin.is_some()
            && self.index.object(bucket, key).map(|now| now.segments).ok().as_ref() != Some(&record.segments)
        {
            return Ok(None);
        }
        Ok(Some(ObjectData::new(format!("s3://{bucket}/{key}"), reading, pieces, pin)))
    }
}
