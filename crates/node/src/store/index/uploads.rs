//! Multipart uploads in the index: created, filled with parts, listed, aborted.
//!
//! Completion is in [`super::multipart`].

use redb::{ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::Index;
use super::record::{decode, encode};
use super::tables::{BUCKETS, OBJECTS, PARTS, UPLOADS, get_bucket, require_bucket};
use super::usage::{self, Usage};
use crate::store::disk::data_files::Segment;
use crate::store::grant::Grant;
use crate::store::listing::{find, successor};
use crate::store::{PartRecord, Result, StoreError, UploadKey, UploadPage, UploadQuery, UploadRecord};

impl Index {
    /// Removes an empty bucket and its unfinished uploads. Returns the files of their parts.
    pub fn delete_bucket(&self, name: &str, grant: &Grant) -> Result<Vec<Segment>> {
        self.change(name, grant, |tx, _| {
            let mut buckets = tx.open_table(BUCKETS)?;
            let meta = get_bucket(&buckets, name)?;
            let objects = tx.open_table(OBJECTS)?;
            if let Some(first) = objects.range((name, [].as_slice())..)?.next()
                && first?.0.value().0 == name
            {
                return Err(StoreError::BucketNotEmpty(name.to_owned()));
            }
            buckets.remove(name)?;
            usage::subtract(tx, meta.settings.owner.as_deref(), Usage { buckets: 1, ..Usage::default() })?;
            drop_uploads_of(tx, name)
        })
    }

    pub fn create_upload(&self, at: &UploadKey, mut upload: UploadRecord, limit: usize, grant: &Grant) -> Result<()> {
        self.change(&at.bucket, grant, |tx, account| {
            let mut uploads = tx.open_table(UPLOADS)?;
            if uploads.len()? >= limit as u64 {
                return Err(StoreError::TooMany { what: "uploads under way", limit });
            }
            usage::add(tx, account, Usage { uploads: 1, ..Usage::default() })?;
            upload.initiator = account.map(|account| account.key.clone());
            uploads.insert((at.bucket.as_str(), at.key.as_bytes(), at.id.as_str()), encode(&upload)?.as_slice())?;
            Ok(())
        })
    }

    pub fn upload(&self, at: &UploadKey) -> Result<UploadRecord> {
        let tx = self.read()?;
        require_bucket(&tx.open_table(BUCKETS)?, &at.bucket)?;
        find_upload(&tx.open_table(UPLOADS)?, at)
    }

    /// Stores a part. Returns the file of the part that it replaced.
    pub fn put_part(&self, at: &UploadKey, number: u32, part: &PartRecord, grant: &Grant) -> Result<Vec<Segment>> {
        self.change(&at.bucket, grant, |tx, account| {
            // The upload may have been completed or aborted meanwhile.
            find_upload(&tx.open_table(UPLOADS)?, at)?;
            let mut parts = tx.open_table(PARTS)?;
            let before = parts.insert((at.id.as_str(), number), encode(part)?.as_slice())?;
            let before = before.map(|old| decode::<PartRecord>(old.value())).transpose()?;
            if let Some(old) = &before {
                usage::subtract(tx, old.writer.as_deref(), Usage::bytes(old.segment.size))?;
            }
            usage::add(tx, account, Usage::bytes(part.segment.size))?;
            Ok(before.map(|old| old.segment).into_iter().collect())
        })
    }

    pub fn parts(&self, at: &UploadKey, after: u32, limit: usize) -> Result<(Vec<(u32, PartRecord)>, bool)> {
        let tx = self.read()?;
        find_upload(&tx.open_table(UPLOADS)?, at)?;
        let mut parts = parts_of(&tx.open_table(PARTS)?, &at.id, after.saturating_add(1), limit + 1)?;
        let more = parts.len() > limit;
        parts.truncate(limit);
        Ok((parts, more))
    }

    pub fn abort(&self, at: &UploadKey, grant: &Grant) -> Result<Vec<Segment>> {
        self.change(&at.bucket, grant, |tx, _| {
            find_upload(&tx.open_table(UPLOADS)?, at)?;
            drop_upload(tx, at)
        })
    }

    /// Removes the uploads that started before `started_ms`. Returns their files.
    pub fn expire_uploads(&self, started_ms: u64) -> Result<Vec<Segment>> {
        let mut old = Vec::new();
        for entry in self.read()?.open_table(UPLOADS)?.iter()? {
            let (at, upload) = entry?;
            if decode::<UploadRecord>(upload.value())?.started_ms < started_ms {
                old.push(upload_key(at.value()));
            }
        }
        if old.is_empty() {
            return Ok(Vec::new());
        }
        self.write(|tx| drop_all(tx, &old))
    }

    pub fn uploads(&self, bucket: &str, query: &UploadQuery) -> Result<UploadPage> {
        let tx = self.read()?;
        require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
        let uploads = tx.open_table(UPLOADS)?;
        let (key, id) = query.after.clone().unwrap_or_default();
        let prefix = query.prefix.as_bytes();
        let (from, from_id) = if key.as_bytes() < prefix { (prefix, "") } else { (key.as_bytes(), id.as_str()) };
        let mut range = uploads.range((bucket, from, from_id)..)?;
        let mut page = UploadPage::default();
        let mut last = None;
        while let Some(entry) = range.next() {
            let (at, upload) = entry?;
            let at = at.value();
            if at.0 != bucket || !at.1.starts_with(prefix) {
                break;
            }
            let found = upload_key(at);
            // Without an upload id, the marker covers all uploads of its key, or, if it is a common
            // prefix, everything below it.
            let rolled = !query.delimiter.is_empty() && key.ends_with(&query.delimiter) && found.key.starts_with(&key);
            let covered = (found.key == key || rolled) && id.is_empty() || (found.key == key && found.id <= id);
            if query.after.is_some() && covered {
                continue;
            }
            if page.uploads.len() + page.prefixes.len() == query.limit {
                page.next = last;
                break;
            }
            let rest = at.1.get(prefix.len()..).unwrap_or_default();
            match find(rest, query.delimiter.as_bytes()) {
                None => {
                    last = Some((found.key.clone(), found.id.clone()));
                    page.uploads.push((found.key, found.id, decode(upload.value())?));
                }
                Some(place) => {
                    let common = at.1.get(..prefix.len() + place + query.delimiter.len()).unwrap_or(at.1).to_vec();
                    let text = String::from_utf8_lossy(&common).into_owned();
                    last = Some((text.clone(), String::new()));
                    page.prefixes.push(text);
                    match successor(&common) {
                        Some(after) => range = uploads.range((bucket, after.as_slice(), "")..)?,
                        None => break,
                    }
                }
            }
        }
        Ok(page)
    }
}

fn upload_key((bucket, key, id): (&str, &[u8], &str)) -> UploadKey {
    UploadKey { bucket: bucket.to_owned(), key: String::from_utf8_lossy(key).into_owned(), id: id.to_owned() }
}

pub(crate) fn find_upload(
    uploads: &impl ReadableTable<(&'static str, &'static [u8], &'static str), &'static [u8]>,
    at: &UploadKey,
) -> Result<UploadRecord> {
    match uploads.get((at.bucket.as_str(), at.key.as_bytes(), at.id.as_str()))? {
        Some(upload) => decode(upload.value()),
        None => Err(StoreError::NoSuchUpload(at.id.clone())),
    }
}

pub(crate) fn parts_of(
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

/// Removes an upload and its parts. Returns the files of the parts.
pub(crate) fn drop_upload(tx: &WriteTransaction, at: &UploadKey) -> Result<Vec<Segment>> {
    drop_all(tx, std::slice::from_ref(at))
}

/// Removes all uploads of a bucket.
fn drop_uploads_of(tx: &WriteTransaction, bucket: &str) -> Result<Vec<Segment>> {
    let mut all = Vec::new();
    for entry in tx.open_table(UPLOADS)?.range((bucket, [].as_slice(), "")..)? {
        let (at, _) = entry?;
        if at.value().0 != bucket {
            break;
        }
        all.push(upload_key(at.value()));
    }
    drop_all(tx, &all)
}

fn drop_all(tx: &WriteTransaction, all: &[UploadKey]) -> Result<Vec<Segment>> {
    let mut uploads = tx.open_table(UPLOADS)?;
    let mut parts = tx.open_table(PARTS)?;
    let mut freed = Vec::new();
    for at in all {
        let removed = uploads.remove((at.bucket.as_str(), at.key.as_bytes(), at.id.as_str()))?;
        let upload = removed.map(|upload| decode::<UploadRecord>(upload.value())).transpose()?;
        let initiator = upload.and_then(|upload| upload.initiator);
        usage::subtract(tx, initiator.as_deref(), Usage { uploads: 1, ..Usage::default() })?;
        for (number, part) in parts_of(&parts, &at.id, 0, usize::MAX)? {
            parts.remove((at.id.as_str(), number))?;
            usage::subtract(tx, part.writer.as_deref(), Usage::bytes(part.segment.size))?;
            freed.push(part.segment);
        }
    }
    Ok(freed)
}
