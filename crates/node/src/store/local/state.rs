//! The state shared by a local store and its background threads, and the steps of a write.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Limits;
use crate::store::disk::checksums::to_bytes;
use crate::store::disk::data_files::{DataFiles, Segment};
use crate::store::disk::fail_stop::FailStopDisk;
use crate::store::disk::stage::Draft;
use crate::store::index::Index;
use crate::store::index::record::ObjectRecord;
use crate::store::object::data::{ObjectData, ReadContext};
use crate::store::object::piece::{Piece, Source};
use crate::store::{Condition, Grant, ObjectMeta, Result, Staged, StoreError, now_ms};

/// Interval at which expired uploads are looked for.
const EXPIRY_INTERVAL_MS: u64 = 60_000;

/// The progress of the scrub.
#[derive(Debug, Default)]
pub(crate) struct ScrubProgress {
    /// Bytes read.
    pub bytes: AtomicU64,
    /// The end of the last complete pass, in seconds since 1970.
    pub last_pass_s: AtomicU64,
}

/// The parts of an open store.
#[derive(Debug)]
pub(crate) struct LocalState {
    pub disk: Arc<FailStopDisk>,
    pub index: Arc<Index>,
    pub files: Arc<DataFiles>,
    pub limits: Limits,
    pub reading: ReadContext,
    pub scrubbed: Arc<ScrubProgress>,
    /// When expired uploads were last looked for.
    pub expired_ms: AtomicU64,
}

impl LocalState {
    pub fn commit(
        &self,
        bucket: &str,
        key: &str,
        mut record: ObjectRecord,
        condition: &Condition,
        grant: &Grant,
    ) -> Result<ObjectMeta> {
        record.writer = grant.account().and_then(|account| account.writer().map(str::to_owned));
        match self.index.put(bucket, key, &record, condition, grant) {
            Ok(freed) => {
                self.files.remove(&freed);
                Ok(record.meta)
            }
            Err(error) => {
                self.undo(&error, &record.segments, || {
                    self.index.object(bucket, key).map(|now| now.segments == record.segments)
                });
                Err(error)
            }
        }
    }

    /// Removes the files of a failed write, unless `is_named` finds that the index refers to them:
    /// a failed commit may still have reached the disk. If that is unknown, they are left to the
    /// next sweep.
    pub fn undo(&self, error: &StoreError, segments: &[Segment], is_named: impl FnOnce() -> Result<bool>) {
        let named = match error {
            error if !error.is_uncertain() => false,
            _ => match is_named() {
                Ok(named) => named,
                Err(error) => error.is_uncertain(),
            },
        };
        if !named {
            self.files.remove(segments);
        }
    }

    pub fn expire_uploads(&self) -> Result<()> {
        let now = now_ms();
        if now.saturating_sub(self.expired_ms.swap(now, Relaxed)) < EXPIRY_INTERVAL_MS {
            return Ok(());
        }
        let lifetime = self.limits.upload_lifetime.as_millis() as u64;
        self.files.remove(&self.index.expire_uploads(now.saturating_sub(lifetime))?);
        Ok(())
    }

    /// Links `segments` under new ids, or copies them if the file system cannot link them.
    pub fn link_all(&self, segments: &[Segment]) -> io::Result<Vec<Segment>> {
        let mut link_all = Vec::with_capacity(segments.len());
        for segment in segments {
            let link = self.files.link(*segment).or_else(|error| match error.kind() {
                io::ErrorKind::TooManyLinks | io::ErrorKind::Unsupported => self.files.copy(*segment),
                _ => Err(error),
            });
            match link {
                Ok(link) => link_all.push(link),
                Err(error) => {
                    self.files.remove(&link_all);
                    return Err(error);
                }
            }
        }
        Ok(link_all)
    }

    pub fn commit_draft(&self, staged: Staged) -> Result<Segment> {
        let Draft { file, size, sums } = staged.take()?;
        let kept = || {
            // Written behind the bytes and synced with them.
            if let Some((_, all)) = sums.as_ref().filter(|(_, all)| all.len() > 1) {
                file.write(size, &to_bytes(all))?;
            }
            self.files.commit_draft(&file, size, sums.as_ref().map(|(sums, _)| *sums))
        };
        kept().map_err(|error| {
            drop(file.remove());
            StoreError::io("cannot keep the upload")(error)
        })
    }

    /// The error of an object that is damaged as a whole.
    pub fn damaged(&self, bucket: &str, key: &str, record: &ObjectRecord, what: &str) -> StoreError {
        let id = record.segments.first().map(|segment| segment.id);
        let object = format!("s3://{bucket}/{key}");
        StoreError::io("damage")(self.reading.verifier().report(&object, id, what.to_owned()))
    }

    /// Opens the bytes of an object and protects its files from removal. Returns `None` if the
    /// object was replaced since the record was read.
    pub fn data(
        &self,
        bucket: &str,
        key: &str,
        record: &ObjectRecord,
        reading: &ReadContext,
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
        // A pin does not undo a removal before it, so check that the object is still the same.
        if pin.is_some()
            && self.index.object(bucket, key).map(|now| now.segments).ok().as_ref() != Some(&record.segments)
        {
            return Ok(None);
        }
        Ok(Some(ObjectData::new(format!("s3://{bucket}/{key}"), reading, pieces, pin)))
    }
}
