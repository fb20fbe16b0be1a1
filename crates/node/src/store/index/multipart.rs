//! Assembles the parts of an upload.
//!
//! No bytes are copied: the object refers to the files of its parts in order. Parts that the client
//! did not name are removed. Completing an upload again returns the same result, since the client
//! may not have received the first one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use redb::ReadableTable;

use super::record::{ObjectRecord, decode};
use super::tables::{OBJECTS, PARTS, UPLOADS};
use super::uploads::{drop_upload, find_upload, parts_of};
use super::{Index, put_object};
use crate::Limits;
use crate::store::disk::data_files::Segment;
use crate::store::disk::stage::Hasher;
use crate::store::grant::Grant;
use crate::store::hex::{hex, unhex};
use crate::store::{
    Algorithm, Checksum, Completion, ObjectMeta, PartMeta, PartRecord, Result, StoreError, UploadKey, UploadRecord,
    now_ms,
};

impl Index {
    /// Completes an upload by creating its object. Returns the files that are no longer referenced.
    pub fn complete(
        &self,
        at: &UploadKey,
        done: &Completion,
        limits: &Limits,
        grant: &Grant,
    ) -> Result<(ObjectMeta, Vec<Segment>)> {
        self.change(&at.bucket, grant, |tx, account| {
            let upload = match find_upload(&tx.open_table(UPLOADS)?, at) {
                Ok(upload) => upload,
                Err(missing) => {
                    let objects = tx.open_table(OBJECTS)?;
                    let present = objects.get((at.bucket.as_str(), at.key.as_bytes()))?;
                    let present = present.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
                    let same = present.filter(|record| record.upload.as_deref() == Some(at.id.as_str()));
                    return same.map(|record| (record.meta, Vec::new())).ok_or(missing);
                }
            };
            let received = parts_of(&tx.open_table(PARTS)?, &at.id, 1, usize::MAX)?;
            let chosen = choose(&received, done, limits)?;
            let mut record = assemble(&upload, &chosen, done, limits)?;
            record.upload = Some(at.id.clone());
            record.writer = account.and_then(|account| account.writer().map(str::to_owned));
            // Dropped before the object is added, so that the bytes of the parts are not counted
            // twice.
            let dropped = drop_upload(tx, at)?;
            let mut freed = put_object(tx, &at.bucket, &at.key, &record, &done.condition, account)?;
            freed.extend(dropped.into_iter().filter(|segment| !record.segments.contains(segment)));
            Ok((record.meta, freed))
        })
    }
}

/// Selects the received parts that the client named, and checks them.
fn choose<'a>(
    received: &'a [(u32, PartRecord)],
    done: &Completion,
    limits: &Limits,
) -> Result<Vec<(u32, &'a PartRecord)>> {
    if done.parts.is_empty() {
        return Err(StoreError::InvalidRequest("an upload is completed with at least one part".to_owned()));
    }
    if done.parts.windows(2).any(|pair| matches!(pair, [a, b] if a.number >= b.number)) {
        return Err(StoreError::PartOrder);
    }
    let mut chosen = Vec::with_capacity(done.parts.len());
    for (place, wanted) in done.parts.iter().enumerate() {
        let at = received.binary_search_by_key(&wanted.number, |(number, _)| *number);
        let part = at.ok().and_then(|at| received.get(at)).map(|(_, part)| part);
        let part = part.ok_or(StoreError::InvalidPart(wanted.number))?;
        let same_etag = wanted.etag.as_ref().is_none_or(|etag| *etag == part.etag);
        let same_checksum = wanted.checksum.is_none() || wanted.checksum == part.checksum;
        if !same_etag || !same_checksum {
            return Err(StoreError::InvalidPart(wanted.number));
        }
        let (number, size, least) = (wanted.number, part.segment.size, limits.part_min_bytes);
        if place + 1 < done.parts.len() && size < least {
            return Err(StoreError::PartTooSmall { number, size, least });
        }
        chosen.push((number, part));
    }
    Ok(chosen)
}

fn assemble(
    upload: &UploadRecord,
    chosen: &[(u32, &PartRecord)],
    done: &Completion,
    limits: &Limits,
) -> Result<ObjectRecord> {
    let size = chosen.iter().map(|(_, part)| part.segment.size).sum();
    if size > limits.object_bytes {
        return Err(StoreError::TooLarge { what: "object", limit: limits.object_bytes });
    }
    if done.size.is_some_and(|said| said != size) {
        return Err(StoreError::InvalidRequest(format!(
            "the parts have {size} bytes, not as many as the request says"
        )));
    }
    let checksum = combine(upload, chosen)?;
    if let Some(said) = &done.checksum
        && checksum.as_ref().is_none_or(|made| !said.matches(made))
    {
        return Err(StoreError::BadDigest("checksum of the whole object"));
    }
    let mut md5 = Md5::new();
    for (_, part) in chosen {
        md5.update(unhex(&part.etag)?);
    }
    let parts = chosen.iter().map(|(number, part)| PartMeta {
        number: *number,
        size: part.segment.size,
        checksum: part.checksum.as_ref().filter(|_| checksum.is_some()).map(|checksum| checksum.value.clone()),
    });
    let parts = parts.collect();
    let meta = ObjectMeta {
        size,
        etag: format!("{}-{}", hex(&md5.finalize()), chosen.len()),
        modified_ms: now_ms(),
        attributes: upload.attributes.clone(),
        checksum,
        parts,
        tags: upload.tags.clone(),
    };
    Ok(ObjectRecord {
        meta,
        segments: chosen.iter().map(|(_, part)| part.segment).collect(),
        upload: None,
        writer: None,
        damaged: false,
    })
}

/// Combines the checksums of the parts, if all have the upload's algorithm; otherwise returns
/// `None`.
fn combine(upload: &UploadRecord, chosen: &[(u32, &PartRecord)]) -> Result<Option<Checksum>> {
    let Some(algorithm) = upload.algorithm else { return Ok(None) };
    let corrupt = || StoreError::Corrupt("a part's checksum in the index is malformed".to_owned());
    let mut parts = Vec::with_capacity(chosen.len());
    for (_, part) in chosen {
        match &part.checksum {
            Some(checksum) if checksum.algorithm == algorithm => {
                parts.push((BASE64_STANDARD.decode(&checksum.value).map_err(|_| corrupt())?, part.segment.size));
            }
            _ => return Ok(None),
        }
    }
    if !upload.full_object {
        let mut hasher = Hasher::new(algorithm);
        parts.iter().for_each(|(sum, _)| hasher.update(sum));
        let value = format!("{}-{}", BASE64_STANDARD.encode(hasher.finish()), parts.len());
        return Ok(Some(Checksum { algorithm, value }));
    }
    let (crc, bytes) = match algorithm {
        Algorithm::Crc32 => (CrcAlgorithm::Crc32IsoHdlc, 4),
        Algorithm::Crc32c => (CrcAlgorithm::Crc32Iscsi, 4),
        Algorithm::Crc64nvme => (CrcAlgorithm::Crc64Nvme, 8),
        // Only CRCs can be combined to that of the whole.
        Algorithm::Sha1 | Algorithm::Sha256 => return Ok(None),
    };
    let number = |sum: &[u8]| sum.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let whole = parts
        .iter()
        .map(|(sum, size)| (number(sum), *size))
        .reduce(|(all, before), (next, size)| (crc_fast::checksum_combine(crc, all, next, size), before + size));
    let whole = whole.map_or(0, |(sum, _)| sum).to_be_bytes();
    let value = BASE64_STANDARD.encode(whole.get(8 - bytes..).ok_or_else(corrupt)?);
    Ok(Some(Checksum { algorithm, value }))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::PartRef;

    fn part(bytes: &[u8], algorithm: Algorithm) -> PartRecord {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        PartRecord {
            segment: Segment { id: Uuid::new_v4(), size: bytes.len() as u64, sums: None },
            etag: hex(&Md5::digest(bytes)),
            modified_ms: 0,
            checksum: Some(Checksum { algorithm, value: BASE64_STANDARD.encode(hasher.finish()) }),
            writer: None,
        }
    }

    #[test]
    fn the_crc_of_the_whole_is_that_of_its_bytes() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64nvme] {
            let (a, b) = (part(b"hello ", algorithm), part(b"world", algorithm));
            let upload = UploadRecord { algorithm: Some(algorithm), full_object: true, ..UploadRecord::default() };
            let whole = combine(&upload, &[(1, &a), (2, &b)]).unwrap().unwrap();
            assert_eq!(Some(whole), part(b"hello world", algorithm).checksum);
        }
    }

    #[test]
    fn etags_count_their_parts() {
        let (a, b) = (part(b"aa", Algorithm::Crc32), part(b"b", Algorithm::Crc32));
        let limits = Limits { part_min_bytes: 2, ..Limits::default() };
        let name = |part: &PartRecord, number| PartRef { number, etag: Some(part.etag.clone()), checksum: None };
        let mut done = Completion {
            parts: vec![name(&a, 1), name(&b, 5)],
            condition: Default::default(),
            checksum: None,
            size: None,
        };
        let received = [(1, a.clone()), (5, b.clone())];
        let chosen = choose(&received, &done, &limits).unwrap();
        let record = assemble(&UploadRecord::default(), &chosen, &done, &limits).unwrap();
        let whole = Md5::digest([Md5::digest(b"aa"), Md5::digest(b"b")].concat());
        assert_eq!(record.meta.etag, format!("{}-2", hex(&whole)));
        let parts: Vec<_> = record.meta.parts.iter().map(|part| (part.number, part.size)).collect();
        assert_eq!(parts, [(1, 2), (5, 1)]);
        done.parts.swap(0, 1);
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::PartOrder)));
        done.parts = vec![name(&b, 5), name(&a, 6)];
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::PartTooSmall { .. })));
        done.parts = vec![name(&b, 1)];
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::InvalidPart(1))));
    }
}
