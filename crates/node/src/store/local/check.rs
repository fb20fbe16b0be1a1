//! Checks a store that is not in use: everything is read and verified, nothing is changed.

use std::path::Path;

use pushdowndb_contract::{Error, ErrorKind};

use super::checksum_backfill::{ChecksumBackfill, ETAG_MISMATCH};
use super::state::LocalState;
use super::{LocalStore, version_file};
use crate::Limits;
use crate::store::index::record::ObjectRecord;
use crate::store::object::data::ObjectData;
use crate::store::object::piece::{Piece, Source};
use crate::store::{Result, StoreError};

/// Index entries that are read per batch.
const BATCH_ENTRIES: usize = 100;

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Objects read.
    pub objects: u64,
    /// Bytes read, of objects and of parts of uploads in progress.
    pub bytes: u64,
    /// Objects of earlier versions without checksums, verified by their ETags.
    pub without_checksums: u64,
    /// Damaged objects and records: the name and the problem.
    pub damaged: Vec<(String, String)>,
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckProgress {
    /// Objects read.
    pub objects: u64,
    /// All objects.
    pub all_objects: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Reads the whole store in `dir` and verifies its checksums. No node may have it open. Blocks.
///
/// # Errors
///
/// There is no store of this version in `dir`, it is in use, or it cannot be read. Damage is in the
/// report instead.
pub fn check(dir: &Path, watch: &mut dyn FnMut(CheckProgress)) -> pushdowndb_contract::Result<CheckReport> {
    version_file::require(dir)?;
    let mut report = CheckReport::default();
    let store = match LocalStore::open_read_only(dir, Limits::default()) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.damaged.push(("the index".to_owned(), error.to_string()));
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let mut check = Check { shared: store.shared(), report, buffer: vec![0; READ_BYTES], watch, all_objects: 0 };
    match check.run() {
        Ok(()) => {}
        Err(StoreError::Corrupt(what) | StoreError::DamagedIndex(what)) => {
            check.report.damaged.push(("the index".to_owned(), what))
        }
        Err(error) => return Err(Error::from(error)),
    }
    Ok(check.report)
}

struct Check<'a> {
    shared: &'a LocalState,
    report: CheckReport,
    buffer: Vec<u8>,
    watch: &'a mut dyn FnMut(CheckProgress),
    all_objects: u64,
}

impl Check<'_> {
    fn run(&mut self) -> Result<()> {
        self.all_objects = self.shared.index.objects()?;
        for (what, error) in self.shared.index.wrong_records()? {
            self.report.damaged.push((what, error.to_string()));
        }
        let mut after = None;
        loop {
            let batch = self.shared.index.objects_after(after.as_ref(), BATCH_ENTRIES)?;
            let Some(last) = batch.last() else { break };
            after = Some((last.bucket.clone(), last.key.clone()));
            for object in batch {
                let location = format!("s3://{}/{}", object.bucket, object.key);
                let found = object.record.map_err(|error| error.to_string());
                let found = found.and_then(|record| self.object(&object.bucket, &object.key, &record));
                self.report.damaged.extend(found.err().map(|what| (location, what)));
                self.report.objects += 1;
                self.show();
            }
        }
        self.parts()
    }

    fn object(&mut self, bucket: &str, key: &str, record: &ObjectRecord) -> Result<(), String> {
        if record.damaged {
            return Err(ETAG_MISMATCH.to_owned());
        }
        let data = self.shared.data(bucket, key, record, &self.shared.reading);
        let data = data.map_err(|error| error.to_string())?.ok_or("its data file is missing")?;
        let mut backfill = ChecksumBackfill::is_due(record).then(|| ChecksumBackfill::new(record));
        self.report.without_checksums += u64::from(backfill.is_some());
        let mut at = 0;
        for segment in &record.segments {
            self.read(&data, at, segment.size, |bytes| {
                if let Some(backfill) = &mut backfill {
                    backfill.update(bytes);
                }
            })?;
            at += segment.size;
            if let Some(backfill) = &mut backfill {
                backfill.end_file(*segment);
            }
        }
        match backfill.map(ChecksumBackfill::finish) {
            Some(None) => Err(ETAG_MISMATCH.to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks the parts of uploads in progress.
    fn parts(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let batch = self.shared.index.parts_after(after.as_ref(), BATCH_ENTRIES)?;
            let Some((upload, number, _)) = batch.last() else { return Ok(()) };
            after = Some((upload.clone(), *number));
            for (upload, number, part) in batch {
                let location = format!("part {number} of the upload {upload}");
                let found = part.map_err(|error| error.to_string()).and_then(|part| {
                    let sums = part.segment.sums.map(|sums| (part.segment.id, sums));
                    let source = Source::Path(self.shared.files.path(part.segment.id));
                    let piece = Piece { start: 0, size: part.segment.size, source, sums };
                    let data = ObjectData::new(location.clone(), &self.shared.reading, vec![piece], None);
                    self.read(&data, 0, part.segment.size, |_| {})
                });
                self.report.damaged.extend(found.err().map(|what| (location, what)));
                self.show();
            }
        }
    }

    fn read(&mut self, data: &ObjectData, start: u64, size: u64, mut take: impl FnMut(&[u8])) -> Result<(), String> {
        let (mut at, end) = (start, start + size);
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(self.buffer.len());
            let step = self.buffer.get_mut(..length).unwrap_or_default();
            data.read_uncached(at, step).map_err(|error| match crate::store::fault::Damaged::in_error(&error) {
                Some(damaged) => damaged.what.clone(),
                None => format!("it cannot be read: {error}"),
            })?;
            take(step);
            at += length as u64;
            self.report.bytes += length as u64;
            self.show();
        }
        Ok(())
    }

    fn show(&mut self) {
        let CheckReport { objects, bytes, .. } = self.report;
        (self.watch)(CheckProgress { objects, all_objects: self.all_objects, bytes });
    }
}
