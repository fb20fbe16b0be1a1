//! Checksums for objects that an earlier version stored without them.
//!
//! Their bytes are read once and compared with the ETag, an MD5 of the bytes or of the MD5s of the parts: what rotted
//! before must not get checksums that say it is well. Until then such an object is read as it is. Checksums of the
//! blocks go behind the bytes of the data file, where no reader of an earlier record looks, and then into the index; a
//! crash between leaves some bytes too many, which the next attempt writes again. Copies that share a file make the same.

use futures::StreamExt;
use md5::{Digest, Md5};
use pushdowndb_scan::ObjectReader;

use super::files::Segment;
use super::multipart::hex;
use super::record::ObjectRecord;
use super::sums::{Summing, Sums};
use super::{Object, Result, StoreError};

/// The blocks of these objects, in bytes. One size for all: copies may share a file.
pub(super) const BLOCK: u32 = 64 << 10;

/// What is wrong with an object whose bytes have rotted before they had checksums.
pub(super) const NOT_THE_ETAG: &str = "its bytes are not those of its ETag";

/// The checksums of an object's files while they are made.
pub(super) struct Adoption<'a> {
    record: &'a ObjectRecord,
    files: Vec<(Segment, Vec<u32>)>,
    md5s: Vec<[u8; 16]>,
    md5: Md5,
    summing: Summing,
}

impl<'a> Adoption<'a> {
    pub fn new(record: &'a ObjectRecord) -> Self {
        Self { record, files: Vec::new(), md5s: Vec::new(), md5: Md5::new(), summing: Summing::new(BLOCK) }
    }

    /// Whether an object needs it.
    pub fn is_due(record: &ObjectRecord) -> bool {
        !record.damaged && record.segments.iter().any(|segment| segment.sums.is_none())
    }

    /// Takes the next bytes of the file that is being read.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.summing.update(bytes);
    }

    /// The file was read.
    pub fn end_file(&mut self, segment: Segment) {
        let summing = std::mem::replace(&mut self.summing, Summing::new(BLOCK));
        let (sums, all) = summing.finish();
        self.md5s.push(std::mem::take(&mut self.md5).finalize().into());
        // What has checksums was read by them.
        let (sums, all) = segment.sums.map_or((sums, all), |kept| (kept, Vec::new()));
        self.files.push((Segment { sums: Some(sums), ..segment }, all));
    }

    /// The files with their checksums, and those that are written behind the bytes; `None` if the bytes are not those of
    /// the ETag.
    pub fn finish(self) -> Option<Vec<(Segment, Vec<u32>)>> {
        are_of_etag(&self.record.meta.etag, &self.md5s).then_some(self.files)
    }
}

/// Whether files with these MD5s are what an object with this ETag is made of.
fn are_of_etag(etag: &str, md5s: &[[u8; 16]]) -> bool {
    match (etag.split_once('-'), md5s) {
        (None, [md5]) => hex(md5) == etag,
        (Some((_, count)), md5s) => format!("{}-{count}", hex(&Md5::digest(md5s.concat()))) == etag,
        // An object without bytes of its own has nothing to compare.
        (None, md5s) => md5s.is_empty(),
    }
}

impl Object {
    /// Reads an object that has no checksums yet and compares it with its ETag, before its bytes get new checksums by
    /// being copied.
    pub async fn vouch(&self) -> Result<()> {
        let Some(pieces) = self.data.pieces_to_vouch_for() else { return Ok(()) };
        let mut md5s = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut md5 = Md5::new();
            let mut blocks = Box::pin(self.data.blocks(piece));
            while let Some(block) = blocks.next().await {
                md5.update(block.map_err(StoreError::io("cannot read the source"))?);
            }
            md5s.push(md5.finalize().into());
        }
        match are_of_etag(&self.meta.etag, &md5s) {
            true => Ok(()),
            false => Err(StoreError::Damaged(format!("{} is damaged: {NOT_THE_ETAG}", self.data.location()))),
        }
    }
}

/// The segments as the index keeps them.
pub(super) fn segments(files: &[(Segment, Vec<u32>)]) -> Vec<Segment> {
    files.iter().map(|(segment, _)| *segment).collect()
}

/// Whether checksums are written behind the bytes.
pub(super) fn are_behind(sums: Option<Sums>, all: &[u32]) -> bool {
    sums.is_some() && all.len() > 1
}
