//! Checking a store that nobody serves: everything is read and compared, nothing is changed.

use std::path::Path;

use pushdown::{Error, ErrorKind};

use super::adopt::{Adoption, NOT_THE_ETAG};
use super::data::{ObjectData, Piece, Source};
use super::local::{LocalStore, Shared};
use super::record::ObjectRecord;
use super::{Result, StoreError, mark};
use crate::Limits;

/// Entries of the index that are looked up at once.
const BATCH: usize = 100;

/// Bytes that are read at once.
const STEP: usize = 1 << 20;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Objects that were read.
    pub objects: u64,
    /// Their bytes, and those of parts of uploads under way.
    pub bytes: u64,
    /// Objects of an earlier version that have no checksums yet and were compared with their ETags.
    pub without_checksums: u64,
    /// What is damaged: the object or what else it is, and what is wrong with it.
    pub damaged: Vec<(String, String)>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckProgress {
    /// Objects that were read.
    pub objects: u64,
    /// How many there are.
    pub all_objects: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Reads all of the store in `dir` and compares it with its checksums. No node may have it open. Blocks.
///
/// # Errors
///
/// There is no store of this version in `dir`, or it is in use, or cannot be read; damage is in the report.
pub fn check(dir: &Path, watch: &mut dyn FnMut(CheckProgress)) -> pushdown::Result<CheckReport> {
    mark::require(dir)?;
    let mut report = CheckReport::default();
    let store = match LocalStore::open_to_look(dir, Limits::default()) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.damaged.push(("the index".to_owned(), error.to_string()));
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let mut check = Check { shared: store.shared(), report, buffer: vec![0; STEP], watch, all_objects: 0 };
    match check.everything() {
        Ok(()) => {}
        Err(StoreError::Corrupt(what) | StoreError::DamagedIndex(what)) => {
            check.report.damaged.push(("the index".to_owned(), what))
        }
        Err(error) => return Err(Error::from(error)),
    }
    Ok(check.report)
}

struct Check<'a> {
    shared: &'a Shared,
    report: CheckReport,
    buffer: Vec<u8>,
    watch: &'a mut dyn FnMut(CheckProgress),
    all_objects: u64,
}

impl Check<'_> {
    fn everything(&mut self) -> Result<()> {
        self.all_objects = self.shared.index.objects()?;
        for (what, error) in self.shared.index.wrong_records()? {
            self.report.damaged.push((what, error.to_string()));
        }
        let mut after = None;
        loop {
            let batch = self.shared.index.objects_after(after.as_ref(), BATCH)?;
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
            return Err(NOT_THE_ETAG.to_owned());
        }
        let data = self.shared.data(bucket, key, record, &self.shared.reading);
        let data = data.map_err(|error| error.to_string())?.ok_or("its data file is missing")?;
        let mut adoption = Adoption::is_due(record).then(|| Adoption::new(record));
        self.report.without_checksums += u64::from(adoption.is_some());
        let mut at = 0;
        for segment in &record.segments {
            self.read(&data, at, segment.size, |bytes| {
                if let Some(adoption) = &mut adoption {
                    adoption.update(bytes);
                }
            })?;
            at += segment.size;
            if let Some(adoption) = &mut adoption {
                adoption.end_file(*segment);
            }
        }
        match adoption.map(Adoption::finish) {
            Some(None) => Err(NOT_THE_ETAG.to_owned()),
            _ => Ok(()),
        }
    }

    /// Those of uploads under way.
    fn parts(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let batch = self.shared.index.parts_after(after.as_ref(), BATCH)?;
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
            data.read_aside(at, step).map_err(|error| match super::sums::Damaged::in_error(&error) {
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
