//! Adds checksums to objects that an earlier version stored without them.
//!
//! The bytes are read once and compared with the ETag, an MD5 of the bytes or of the MD5s of the
//! parts: damaged bytes must not get matching checksums. Until it has checksums, such an object is
//! read unverified. The trailer is appended to the data file, where readers of older records do not
//! look, and then committed to the index. A crash in between leaves surplus bytes, which the next
//! attempt overwrites. Copies that share a file compute the same trailer.

use futures::StreamExt;
use md5::{Digest, Md5};
use pushdowndb_scan::ObjectReader;

use crate::store::disk::checksums::{BlockChecksums, ChecksumBuilder};
use crate::store::disk::data_files::Segment;
use crate::store::hex::hex;
use crate::store::index::record::ObjectRecord;
use crate::store::{Object, Result, StoreError};

/// The block size for these objects, in bytes. It does not depend on the configuration, since
/// copies may share a file.
pub(super) const BACKFILL_BLOCK_BYTES: u32 = 64 << 10;

/// The problem of an object that was damaged before it had checksums.
pub(super) const ETAG_MISMATCH: &str = "its bytes are not those of its ETag";

/// The checksums of an object while they are computed.
pub(super) struct ChecksumBackfill<'a> {
    record: &'a ObjectRecord,
    files: Vec<(Segment, Vec<u32>)>,
    md5s: Vec<[u8; 16]>,
    md5: Md5,
    summing: ChecksumBuilder,
}

impl<'a> ChecksumBackfill<'a> {
    pub fn new(record: &'a ObjectRecord) -> Self {
        Self {
            record,
            files: Vec::new(),
            md5s: Vec::new(),
            md5: Md5::new(),
            summing: ChecksumBuilder::new(BACKFILL_BLOCK_BYTES),
        }
    }

    /// Whether an object needs a backfill.
    pub fn is_due(record: &ObjectRecord) -> bool {
        !record.damaged && record.segments.iter().any(|segment| segment.sums.is_none())
    }

    /// Adds the next bytes of the current file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.summing.update(bytes);
    }

    /// Ends the current file.
    pub fn end_file(&mut self, segment: Segment) {
        let summing = std::mem::replace(&mut self.summing, ChecksumBuilder::new(BACKFILL_BLOCK_BYTES));
        let (sums, all) = summing.finish();
        self.md5s.push(std::mem::take(&mut self.md5).finalize().into());
        // Existing checksums were verified by the read.
        let (sums, all) = segment.sums.map_or((sums, all), |kept| (kept, Vec::new()));
        self.files.push((Segment { sums: Some(sums), ..segment }, all));
    }

    /// The files with their checksums and trailers; `None` if the bytes do not match the ETag.
    pub fn finish(self) -> Option<Vec<(Segment, Vec<u32>)>> {
        matches_etag(&self.record.meta.etag, &self.md5s).then_some(self.files)
    }
}

/// Whether an object with this ETag can consist of files with these MD5s.
fn matches_etag(etag: &str, md5s: &[[u8; 16]]) -> bool {
    match (etag.split_once('-'), md5s) {
        (None, [md5]) => hex(md5) == etag,
        (Some((_, count)), md5s) => format!("{}-{count}", hex(&Md5::digest(md5s.concat()))) == etag,
        // An object without bytes has nothing to compare.
        (None, md5s) => md5s.is_empty(),
    }
}

impl Object {
    /// Compares an object without checksums with its ETag, before a copy of its bytes gets
    /// checksums.
    pub async fn verify_etag(&self) -> Result<()> {
        let Some(pieces) = self.data.pieces_without_checksums() else { return Ok(()) };
        let mut md5s = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut md5 = Md5::new();
            let mut blocks = Box::pin(self.data.blocks(piece));
            while let Some(block) = blocks.next().await {
                md5.update(block.map_err(StoreError::io("cannot read the source"))?);
            }
            md5s.push(md5.finalize().into());
        }
        match matches_etag(&self.meta.etag, &md5s) {
            true => Ok(()),
            false => Err(StoreError::Damaged(format!("{} is damaged: {ETAG_MISMATCH}", self.data.location()))),
        }
    }
}

/// The segments for the index.
pub(super) fn segments(files: &[(Segment, Vec<u32>)]) -> Vec<Segment> {
    files.iter().map(|(segment, _)| *segment).collect()
}

/// Whether a file has a trailer.
pub(super) fn has_trailer(sums: Option<BlockChecksums>, all: &[u32]) -> bool {
    sums.is_some() && all.len() > 1
}
