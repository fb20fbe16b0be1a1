//! Upgrades the index of a store of version 1 or 2, in redb's own format, to pages with checksums
//! (see `pages`).
//!
//! Runs once, before the index is used. The pages are copied to a draft that is renamed, so that a
//! crash leaves either format. An index that redb cannot verify is refused: new checksums would
//! hide the damage.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use redb::Database;

use super::pages::{FIRST_PAGE_BYTES, Format, PAGE, Pages};
use crate::store::disk::{Change, Disk, DiskFile};
use crate::store::{Result, StoreError};

/// Pages that are copied per step.
const PAGES_PER_COPY: u64 = 256;

/// Upgrades the index at `path` if it has the old format. `draft` is the path of the temporary
/// file.
pub(super) fn to_checked_pages(path: &Path, draft: &Path, disk: &Arc<dyn Disk>) -> Result<()> {
    let io = |error: io::Error| StoreError::io("cannot convert the index")(error);
    let file = DiskFile::open(disk, path.to_owned()).map_err(io)?;
    if Format::of(&file).map_err(io)? != Format::Plain {
        return Ok(());
    }
    tracing::info!("the index gets checksums; this is done once");
    let mut db = Database::open(path)?;
    if !db.check_integrity()? {
        tracing::warn!("the index was not whole; redb mended what it could");
    }
    drop(db);
    copy(&file, DiskFile::create(disk, draft.to_owned()).map_err(io)?).map_err(io)?;
    disk.apply(Change::Rename { from: draft, to: path }).map_err(io)?;
    disk.apply(Change::SyncFolder(path.parent().unwrap_or(path))).map_err(io)
}

fn copy(from: &DiskFile, to: DiskFile) -> io::Result<()> {
    let size = from.file().metadata()?.len();
    let pages = Pages::open(to)?;
    pages.set_len(size)?;
    let mut first = vec![0; FIRST_PAGE_BYTES];
    from.file().read_exact_at(&mut first, 0)?;
    pages.write(0, &first)?;
    let mut at = PAGE;
    while at < size {
        let end = (at + PAGES_PER_COPY * PAGE).min(size);
        let mut bytes = vec![0; usize::try_from(end - at).map_err(io::Error::other)?];
        from.file().read_exact_at(&mut bytes, at)?;
        pages.write(at, &bytes)?;
        at = end;
    }
    pages.write_sums()?;
    pages.sync()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use bytes::Bytes;
    use futures::TryStreamExt;
    use md5::{Digest, Md5};
    use redb::Database;
    use uuid::Uuid;

    use crate::Limits;
    use crate::store::hex::hex;
    use crate::store::index::tables::{BUCKETS, OBJECTS, PARTS, UPLOADS};
    use crate::store::{LocalStore, Store, StoreError};

    const DAMAGED: &str = "damaged";

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 31 % 251) as u8).collect()
    }

    /// A store of version 2: an object of one block, of several, of parts, and a damaged one.
    fn old_store(dir: &std::path::Path) {
        let limits = Limits { scrub_bytes: 0, ..Limits::default() };
        drop(LocalStore::open(dir, limits).unwrap());
        fs::remove_file(dir.join("index.redb")).unwrap();
        fs::write(dir.join("VERSION"), "pushdowndb store 2\n").unwrap();
        let db = Database::create(dir.join("index.redb")).unwrap();
        let tx = db.begin_write().unwrap();
        {
            let mut buckets = tx.open_table(BUCKETS).unwrap();
            buckets.insert("b", b"\x02{\"name\":\"b\",\"created_ms\":5}".as_slice()).unwrap();
            tx.open_table(UPLOADS).unwrap();
            tx.open_table(PARTS).unwrap();
            let mut objects = tx.open_table(OBJECTS).unwrap();
            for (key, sizes) in
                [("small", vec![5]), ("large", vec![300_000]), ("parts", vec![200_000, 7]), (DAMAGED, vec![200_000])]
            {
                let (mut segments, mut md5s, mut size) = (Vec::new(), Vec::new(), 0);
                for length in sizes.iter().copied() {
                    let (id, mut bytes) = (Uuid::new_v4().simple().to_string(), bytes(length));
                    md5s.push(Md5::digest(&bytes));
                    if key == DAMAGED {
                        bytes[77] ^= 1;
                    }
                    fs::write(dir.join("data").join(&id[..2]).join(&id), bytes).unwrap();
                    segments.push(format!("{{\"id\":\"{id}\",\"size\":{length}}}"));
                    size += length;
                }
                let etag = match md5s.as_slice() {
                    [md5] => hex(md5),
                    md5s => format!("{}-{}", hex(&Md5::digest(md5s.concat())), md5s.len()),
                };
                let meta = format!("{{\"size\":{size},\"etag\":\"{etag}\",\"modified_ms\":1}}");
                let record = format!("\x02{{\"meta\":{meta},\"segments\":[{}]}}", segments.join(","));
                objects.insert(("b", key.as_bytes()), record.as_bytes()).unwrap();
            }
        }
        tx.commit().unwrap();
    }

    async fn read(store: &LocalStore, key: &str) -> Result<Vec<u8>, StoreError> {
        let object = store.open("b", key).await?;
        let blocks: Vec<Bytes> =
            object.data.blocks(0..object.meta.size).try_collect().await.map_err(StoreError::io("cannot read"))?;
        Ok(blocks.concat())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_of_an_earlier_version_get_their_checksums() {
        let dir = tempfile::tempdir().unwrap();
        old_store(dir.path());
        let limits = Limits { scrub_bytes: 0, verify_interval: Duration::ZERO, ..Limits::default() };
        let store = LocalStore::open(dir.path(), limits.clone()).unwrap();
        let whole = |key: &str| if key == "parts" { [bytes(200_000), bytes(7)].concat() } else { bytes(300_000) };
        for key in ["large", "parts"] {
            assert_eq!(read(&store, key).await.unwrap(), whole(key), "read as it is until then");
        }
        let verified = async |key: &str| match store.open("b", key).await {
            Ok(object) => object.verify_etag().await.is_ok(),
            Err(_) => false,
        };
        assert!(verified("small").await && verified("large").await && verified("parts").await);
        assert!(!verified(DAMAGED).await, "it is not copied before it has checksums either");
        let records = || {
            let walked = store.shared().index.objects_after(None, 10).unwrap();
            walked.into_iter().map(|object| (object.key, object.record.unwrap())).collect::<Vec<_>>()
        };
        let is_done = || {
            records()
                .iter()
                .all(|(_, record)| record.damaged || record.segments.iter().all(|segment| segment.sums.is_some()))
        };
        let mut tries = 0;
        while !is_done() {
            tries += 1;
            assert!(tries < 1000, "no pass makes checksums");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for key in ["large", "parts"] {
            assert_eq!(read(&store, key).await.unwrap(), whole(key));
        }
        assert_eq!(read(&store, "small").await.unwrap(), bytes(5));
        let error = read(&store, DAMAGED).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        // Reads are verified from here on.
        for (key, record) in records().into_iter().filter(|(key, _)| key != DAMAGED) {
            let file = store.shared().files.path(record.segments[0].id);
            let before = fs::read(&file).unwrap();
            let mut wrong = before.clone();
            wrong[3] ^= 64;
            fs::write(&file, wrong).unwrap();
            assert!(matches!(read(&store, &key).await, Err(StoreError::Damaged(_))), "{key}");
            fs::write(&file, before).unwrap();
        }
        drop(store);
        let store = LocalStore::open(dir.path(), limits).unwrap();
        assert_eq!(read(&store, "large").await.unwrap(), whole("large"));
        assert!(matches!(read(&store, DAMAGED).await, Err(StoreError::Damaged(_))));
    }
}
