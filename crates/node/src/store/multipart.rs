//! Uploads in parts: what the index keeps of them, and how parts become an object.
//!
//! Completing copies nothing: the object names the files of its parts in order. The parts that the client
//! did not name, and those of uploads that were given up, are removed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::files::Segment;
use super::index::{BUCKETS, Index, ObjectRecord, PARTS, UPLOADS, decode, encode, put_in, require_bucket};
use super::stage::Hasher;
use super::{Algorithm, Attributes, Checksum, Completion, ObjectMeta, Result, StoreError, UploadKey, now_ms};
use crate::Limits;

/// An upload under way.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct UploadRecord {
    pub started_ms: u64,
    pub attributes: Attributes,
    /// The checksum that every part carries.
    pub algorithm: Option<Algorithm>,
    /// The checksum of the object is that of its bytes, not of the checksums of its parts.
    pub full_object: bool,
}

/// A part that was received.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PartRecord {
    pub segment: Segment,
    /// The MD5 in hexadecimal.
    pub etag: String,
    pub modified_ms: u64,
    pub checksum: Option<Checksum>,
}

/// A part as the client names it when it completes the upload.
#[derive(Clone, Debug)]
pub(crate) struct PartRef {
    pub number: u32,
    pub etag: Option<String>,
    /// The value of its checksum, if the client repeats it.
    pub checksum: Option<String>,
}

/// A page of the uploads under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadPage {
    /// Key, upload id, upload.
    pub uploads: Vec<(String, String, UploadRecord)>,
    pub more: bool,
}

impl Index {
    pub fn create_upload(&self, at: &UploadKey, upload: &UploadRecord, limit: usize) -> Result<()> {
        self.write(|tx| {
            require_bucket(&tx.open_table(BUCKETS)?, &at.bucket)?;
            let mut uploads = tx.open_table(UPLOADS)?;
            if uploads.len()? >= limit as u64 {
                return Err(StoreError::TooMany { what: "uploads under way", limit });
            }
            uploads.insert((at.bucket.as_str(), at.key.as_bytes(), at.id.as_str()), encode(upload)?.as_slice())?;
            Ok(())
        })
    }

    pub fn upload(&self, at: &UploadKey) -> Result<UploadRecord> {
        find_upload(&self.db.begin_read()?.open_table(UPLOADS)?, at)
    }

    /// Keeps a part; gives the file of the part with the same number before it.
    pub fn put_part(&self, at: &UploadKey, number: u32, part: &PartRecord) -> Result<Vec<Segment>> {
        self.write(|tx| {
            // The upload may have been completed or aborted while the part arrived.
            find_upload(&tx.open_table(UPLOADS)?, at)?;
            let mut parts = tx.open_table(PARTS)?;
            let before = parts.insert((at.id.as_str(), number), encode(part)?.as_slice())?;
            before.map(|old| decode::<PartRecord>(old.value()).map(|old| old.segment)).into_iter().collect()
        })
    }

    pub fn parts(&self, at: &UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        let tx = self.db.begin_read()?;
        find_upload(&tx.open_table(UPLOADS)?, at)?;
        let mut parts = parts_of(&tx.open_table(PARTS)?, &at.id, after.saturating_add(1), limit + 1)?;
        let more = parts.len() > limit;
        parts.truncate(limit);
        Ok((parts, more))
    }

    /// Makes the object; gives the files that are no longer named.
    pub fn complete(&self, at: &UploadKey, done: &Completion, limits: &Limits) -> Result<(ObjectMeta, Vec<Segment>)> {
        self.write(|tx| {
            let upload = find_upload(&tx.open_table(UPLOADS)?, at)?;
            let received = parts_of(&tx.open_table(PARTS)?, &at.id, 1, usize::MAX)?;
            let chosen = choose(&received, done, limits)?;
            let record = assemble(&upload, &chosen, done, limits)?;
            let mut freed = put_in(tx, &at.bucket, &at.key, &record, &done.condition)?;
            let dropped = drop_uploads(tx, |_, id| id == at.id)?;
            freed.extend(dropped.into_iter().filter(|segment| !record.segments.contains(segment)));
            Ok((record.meta, freed))
        })
    }

    pub fn abort(&self, at: &UploadKey) -> Result<Vec<Segment>> {
        self.write(|tx| {
            find_upload(&tx.open_table(UPLOADS)?, at)?;
            drop_uploads(tx, |_, id| id == at.id)
        })
    }

    /// Drops the uploads that started before `started_ms`; gives their files.
    pub fn expire_uploads(&self, started_ms: u64) -> Result<Vec<Segment>> {
        let tx = self.db.begin_read()?;
        let mut old = Vec::new();
        for entry in tx.open_table(UPLOADS)?.iter()? {
            let (key, upload) = entry?;
            if decode::<UploadRecord>(upload.value())?.started_ms < started_ms {
                old.push(key.value().2.to_owned());
            }
        }
        if old.is_empty() {
            return Ok(Vec::new());
        }
        self.write(|tx| drop_uploads(tx, |_, id| old.iter().any(|old| old == id)))
    }

    pub fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, String)>,
        limit: usize,
    ) -> Result<UploadPage> {
        let tx = self.db.begin_read()?;
        require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
        let (key, id) = after.clone().unwrap_or_default();
        let from = if key.as_str() < prefix { prefix } else { &key };
        let mut page = UploadPage::default();
        for entry in tx.open_table(UPLOADS)?.range((bucket, from.as_bytes(), id.as_str())..)? {
            let (at, upload) = entry?;
            let (in_bucket, found, found_id) = at.value();
            if in_bucket != bucket || !found.starts_with(prefix.as_bytes()) {
                break;
            }
            let found = String::from_utf8_lossy(found).into_owned();
            // Without an id the marker covers every upload of its key.
            let before = after.as_ref().is_some_and(|_| found == key && (id.is_empty() || found_id <= id.as_str()));
            if before {
                continue;
            }
            if page.uploads.len() == limit {
                page.more = true;
                break;
            }
            page.uploads.push((found, found_id.to_owned(), decode(upload.value())?));
        }
        Ok(page)
    }
}

fn find_upload(
    uploads: &impl ReadableTable<(&'static str, &'static [u8], &'static str), &'static [u8]>,
    at: &UploadKey,
) -> Result<UploadRecord> {
    match uploads.get((at.bucket.as_str(), at.key.as_bytes(), at.id.as_str()))? {
        Some(upload) => decode(upload.value()),
        None => Err(StoreError::NoSuchUpload(at.id.clone())),
    }
}

fn parts_of(
    parts: &impl ReadableTable<(&'static str, u32), &'static [u8]>,
    id: &str,
    from: u32,
    limit: usize,
) -> Result<Vec<(u32, PartRecord)>> {
    let entries = parts.range((id, from)..=(id, u32::MAX))?.take(limit);
    entries
        .map(|entry| {
            let (at, part) = entry?;
            Ok((at.value().1, decode(part.value())?))
        })
        .collect()
}

/// Removes uploads and their parts; gives the files of the parts.
pub(super) fn drop_uploads(tx: &WriteTransaction, which: impl Fn(&str, &str) -> bool) -> Result<Vec<Segment>> {
    let mut uploads = tx.open_table(UPLOADS)?;
    let mut ids = Vec::new();
    uploads.retain(|(bucket, _, id), _| {
        let dropped = which(bucket, id);
        if dropped {
            ids.push(id.to_owned());
        }
        !dropped
    })?;
    let mut table = tx.open_table(PARTS)?;
    let mut freed = Vec::new();
    for id in ids {
        for (number, part) in parts_of(&table, &id, 0, usize::MAX)? {
            table.remove((id.as_str(), number))?;
            freed.push(part.segment);
        }
    }
    Ok(freed)
}

/// The received parts that the client names, checked against what it says of them.
fn choose<'a>(received: &'a [(u32, PartRecord)], done: &Completion, limits: &Limits) -> Result<Vec<&'a PartRecord>> {
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
        let same_checksum = wanted
            .checksum
            .as_ref()
            .is_none_or(|value| part.checksum.as_ref().is_some_and(|checksum| checksum.value == *value));
        if !same_etag || !same_checksum {
            return Err(StoreError::InvalidPart(wanted.number));
        }
        let (number, size, least) = (wanted.number, part.segment.size, limits.part_min_bytes);
        if place + 1 < done.parts.len() && size < least {
            return Err(StoreError::PartTooSmall { number, size, least });
        }
        chosen.push(part);
    }
    Ok(chosen)
}

fn assemble(upload: &UploadRecord, chosen: &[&PartRecord], done: &Completion, limits: &Limits) -> Result<ObjectRecord> {
    let size = chosen.iter().map(|part| part.segment.size).sum();
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
        && checksum.as_ref() != Some(said)
    {
        return Err(StoreError::BadDigest("checksum of the whole object"));
    }
    let mut md5 = Md5::new();
    for part in chosen {
        md5.update(unhex(&part.etag)?);
    }
    let meta = ObjectMeta {
        size,
        etag: format!("{}-{}", hex(&md5.finalize()), chosen.len()),
        modified_ms: now_ms(),
        attributes: upload.attributes.clone(),
        checksum,
        parts: chosen.iter().map(|part| part.segment.size).collect(),
    };
    Ok(ObjectRecord { meta, segments: chosen.iter().map(|part| part.segment).collect() })
}

/// The checksum of the object from those of its parts, if all carry the upload's algorithm.
fn combine(upload: &UploadRecord, chosen: &[&PartRecord]) -> Result<Option<Checksum>> {
    let Some(algorithm) = upload.algorithm else { return Ok(None) };
    let corrupt = || StoreError::Corrupt("a part's checksum in the index is malformed".to_owned());
    let mut parts = Vec::with_capacity(chosen.len());
    for part in chosen {
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
        // Only CRCs of parts make the CRC of the whole.
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

/// Lower-case hexadecimal, as ETags are written.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.ok_or_else(|| StoreError::Corrupt("a part's ETag in the index is no MD5".to_owned()))?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |all, digit| all << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn part(bytes: &[u8], algorithm: Algorithm) -> PartRecord {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        PartRecord {
            segment: Segment { id: Uuid::new_v4(), size: bytes.len() as u64 },
            etag: hex(&Md5::digest(bytes)),
            modified_ms: 0,
            checksum: Some(Checksum { algorithm, value: BASE64_STANDARD.encode(hasher.finish()) }),
        }
    }

    #[test]
    fn the_crc_of_the_whole_is_that_of_its_bytes() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64nvme] {
            let (a, b) = (part(b"hello ", algorithm), part(b"world", algorithm));
            let upload = UploadRecord { algorithm: Some(algorithm), full_object: true, ..UploadRecord::default() };
            let whole = combine(&upload, &[&a, &b]).unwrap().unwrap();
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
        assert_eq!(record.meta.parts, [2, 1]);
        done.parts.swap(0, 1);
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::PartOrder)));
        done.parts = vec![name(&b, 5), name(&a, 6)];
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::PartTooSmall { .. })));
        done.parts = vec![name(&b, 1)];
        assert!(matches!(choose(&received, &done, &limits), Err(StoreError::InvalidPart(1))));
    }
}
