//! The index of a store: an ordered, transactional table from (bucket, key) to data files.
//!
//! A commit acknowledges a write, and is durable when it returns. All calls block; callers run them
//! on blocking tasks. After a disk error during a commit redb refuses everything; the index is then
//! reopened, which recovers the last complete commit. Only after a failed sync (`fail_stop`) is
//! this left to the next start: the contents of the file are unknown, so readers keep the state
//! before that commit.

mod file;
pub(crate) mod multipart;
pub(crate) mod pages;
pub(crate) mod record;
pub(crate) mod tables;
mod upgrade;
pub(crate) mod uploads;
pub(crate) mod usage;
pub(crate) mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError,
    TransactionError, WriteTransaction,
};
use uuid::Uuid;

use super::disk::data_files::Segment;
use super::disk::fail_stop::FailStopDisk;
use super::disk::{Change, Disk, DiskFile};
use super::grant::{Account, Grant};
use super::listing::Cursor;
use super::{BucketMeta, BucketSettings, Condition, ObjectMeta, Result, StoreError, Tag};
use file::{FileHealth, IndexFile};
use pages::{Format, PAGE, Pages};
use record::{ObjectRecord, RecordSegments, decode, encode};
use tables::{BUCKETS, OBJECTS, PARTS, UPLOADS, USAGE, get_bucket, require_bucket};
use usage::Usage;

/// The page cache of the index, in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// The index of a store.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    disk: Arc<FailStopDisk>,
    /// The default quota of a key, in bytes.
    key_bytes: u64,
    /// `None` only if the index failed and was not reopened yet.
    db: RwLock<Option<Database>>,
    /// Whether a commit failed in such a way that only the file shows whether it took effect. The
    /// index is then reopened.
    in_doubt: AtomicBool,
    health: Arc<FileHealth>,
    /// A snapshot from before the commit in progress. After a failed sync, all reads use it.
    before: Mutex<Option<Arc<ReadTransaction>>>,
}

impl Index {
    /// Opens or creates the index. Only one process can have it open.
    pub fn open(path: &Path, trusted: &Arc<FailStopDisk>, key_bytes: u64) -> Result<Self> {
        let disk: &Arc<dyn Disk> = &(Arc::clone(trusted) as _);
        let health = Arc::default();
        let io = |error: io::Error| StoreError::io("cannot make the index")(error);
        let draft = path.with_extension("new");
        if draft.exists() {
            disk.apply(Change::Remove(&draft)).map_err(io)?;
        }
        if !path.exists() {
            // Created as a draft and renamed: redb refuses a file that a crash left incomplete.
            drop(open_file(DiskFile::create(disk, draft.clone()).map_err(io)?, &health)?);
            disk.apply(Change::Rename { from: &draft, to: path }).map_err(io)?;
        }
        upgrade::to_checked_pages(path, &draft, disk)?;
        // After damage, redb itself only reports that an earlier read failed.
        let db = database(path, disk, &health).map_err(|error| health.error().unwrap_or(error))?;
        let (disk, in_doubt) = (Arc::clone(trusted), AtomicBool::new(false));
        let (path, db, before) = (path.to_owned(), RwLock::new(Some(db)), Mutex::default());
        Ok(Self { path, disk, key_bytes, db, in_doubt, health, before })
    }

    /// Begins a transaction; reopens the index if it failed before.
    fn begin<T>(&self, begin: impl Fn(&Database) -> Result<T, TransactionError>) -> Result<T> {
        if let Some(damaged) = self.health.error() {
            return Err(damaged);
        }
        let usable = |_: &&Database| !self.in_doubt.load(Ordering::SeqCst);
        let attempt = |db: &Option<Database>| match db.as_ref().filter(usable).map(&begin) {
            None | Some(Err(TransactionError::Storage(StorageError::PreviousIo))) => None,
            Some(begun) => Some(begun.map_err(StoreError::from)),
        };
        if let Some(begun) = attempt(&self.db.read()) {
            return begun;
        }
        let mut db = self.db.write();
        // Another thread may have reopened it meanwhile.
        if let Some(begun) = attempt(&db) {
            return begun;
        }
        tracing::warn!("the index failed; opening it again");
        // Closed first, since it locks its file.
        *db = None;
        *db = Some(database(&self.path, &(Arc::clone(&self.disk) as _), &self.health)?);
        self.in_doubt.store(false, Ordering::SeqCst);
        attempt(&db).unwrap_or(Err(StoreError::Index(Box::new(redb::Error::PreviousIo))))
    }

    /// Whether damage was found.
    pub fn is_damaged(&self) -> bool {
        self.health.damage.get().is_some()
    }

    /// A snapshot of the index.
    pub(super) fn read(&self) -> Result<Arc<ReadTransaction>> {
        if self.health.lost.load(Ordering::SeqCst) {
            let before = self.before.lock().clone();
            return before.ok_or(StoreError::Stopped);
        }
        self.begin(|db| db.begin_read()).map(Arc::new)
    }

    /// Runs `change` in a write transaction: when this returns, all of it is durable or none of it
    /// happened.
    pub(super) fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let tx = self.begin(|db| db.begin_write())?;
        // Checked after the transaction began, when all earlier writers have committed or failed.
        self.disk.check()?;
        let keep = |before| *self.before.lock() = before;
        keep(Some(self.read()?));
        let done = match change(&tx) {
            Ok(done) => tx.commit().map(|()| done).map_err(StoreError::from),
            Err(error) => tx.abort().map_err(StoreError::from).and(Err(error)),
        };
        if self.health.lost.load(Ordering::SeqCst) {
            return Err(StoreError::Stopped);
        }
        keep(None);
        if done.as_ref().is_err_and(StoreError::is_uncertain) {
            self.in_doubt.store(true, Ordering::SeqCst);
        }
        done
    }

    /// Runs `change` in a write transaction if `bucket` exists and `grant` is still valid. Every
    /// change inside a bucket goes through here.
    pub(super) fn change<T>(
        &self,
        bucket: &str,
        grant: &Grant,
        change: impl FnOnce(&WriteTransaction, Option<&Account>) -> Result<T>,
    ) -> Result<T> {
        let account = self.account(grant);
        self.write(|tx| {
            grant.check(&get_bucket(&tx.open_table(BUCKETS)?, bucket)?)?;
            change(tx, account.as_ref())
        })
    }

    fn account(&self, grant: &Grant) -> Option<Account> {
        let mut account = grant.account()?;
        account.quota.bytes.get_or_insert(self.key_bytes);
        Some(account)
    }

    pub fn create_bucket(&self, meta: &BucketMeta, limit: usize, grant: &Grant) -> Result<()> {
        let account = self.account(grant).filter(|account| meta.settings.owner.as_ref() == Some(&account.key));
        self.write(|tx| {
            grant.check_key()?;
            let mut buckets = tx.open_table(BUCKETS)?;
            if buckets.get(meta.name.as_str())?.is_some() {
                return Err(StoreError::BucketExists(meta.name.clone()));
            }
            if buckets.len()? >= limit as u64 {
                return Err(StoreError::TooMany { what: "buckets", limit });
            }
            buckets.insert(meta.name.as_str(), encode(meta)?.as_slice())?;
            usage::add(tx, account.as_ref(), Usage { buckets: 1, ..Usage::default() })
        })
    }

    pub fn bucket(&self, name: &str) -> Result<BucketMeta> {
        get_bucket(&self.read()?.open_table(BUCKETS)?, name)
    }

    pub fn buckets(&self) -> Result<Vec<BucketMeta>> {
        let buckets = self.read()?.open_table(BUCKETS)?;
        buckets.iter()?.map(|entry| decode(entry?.1.value())).collect()
    }

    pub fn change_bucket(&self, name: &str, change: impl FnOnce(&mut BucketSettings), grant: &Grant) -> Result<()> {
        self.change(name, grant, |tx, _| {
            let mut buckets = tx.open_table(BUCKETS)?;
            let mut meta = get_bucket(&buckets, name)?;
            change(&mut meta.settings);
            buckets.insert(name, encode(&meta)?.as_slice())?;
            Ok(())
        })
    }

    pub fn object(&self, bucket: &str, key: &str) -> Result<ObjectRecord> {
        let tx = self.read()?;
        match tx.open_table(OBJECTS)?.get((bucket, key.as_bytes()))? {
            Some(record) => decode(record.value()).map_err(|error| error.of(|| format!("s3://{bucket}/{key}"))),
            None => {
                require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
                Err(StoreError::NoSuchKey(key.to_owned()))
            }
        }
    }

    /// Puts an object in place if the condition holds. Returns the files of the object it replaced.
    pub fn put(
        &self,
        bucket: &str,
        key: &str,
        record: &ObjectRecord,
        condition: &Condition,
        grant: &Grant,
    ) -> Result<Vec<Segment>> {
        self.change(bucket, grant, |tx, account| put_object(tx, bucket, key, record, condition, account))
    }

    pub fn set_tags(&self, bucket: &str, key: &str, tags: Vec<Tag>, grant: &Grant) -> Result<()> {
        self.change(bucket, grant, |tx, _| {
            let mut objects = tx.open_table(OBJECTS)?;
            let at = (bucket, key.as_bytes());
            let record = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
            let mut record = record.ok_or_else(|| StoreError::NoSuchKey(key.to_owned()))?;
            record.meta.tags = tags;
            objects.insert(at, encode(&record)?.as_slice())?;
            Ok(())
        })
    }

    /// Removes objects. Returns their files, and one result per key.
    pub fn delete(
        &self,
        bucket: &str,
        keys: &[(String, Condition)],
        grant: &Grant,
    ) -> Result<(Vec<Segment>, Vec<Result<()>>)> {
        self.change(bucket, grant, |tx, _| {
            let mut objects = tx.open_table(OBJECTS)?;
            let mut freed = Vec::new();
            let mut answers = Vec::with_capacity(keys.len());
            for (key, condition) in keys {
                let at = (bucket, key.as_bytes());
                let present = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
                let answer = condition.check_removal(key, present.as_ref().map(|record| &record.meta));
                if let (Ok(()), Some(record)) = (&answer, present) {
                    objects.remove(at)?;
                    usage::subtract(tx, record.writer.as_deref(), Usage::bytes(record.meta.size))?;
                    freed.extend(record.segments);
                }
                answers.push(answer);
            }
            Ok((freed, answers))
        })
    }

    /// An ordered cursor over one bucket.
    pub fn cursor(&self, bucket: &str) -> Result<IndexCursor> {
        let tx = self.read()?;
        require_bucket(&tx.open_table(BUCKETS)?, bucket)?;
        let table = tx.open_table(OBJECTS)?;
        let range = table.range((bucket, [].as_slice())..)?;
        Ok(IndexCursor { bucket: bucket.to_owned(), table, range })
    }

    /// The numbers of buckets, objects and uploads.
    pub fn counts(&self) -> Result<[u64; 3]> {
        let tx = self.read()?;
        Ok([tx.open_table(BUCKETS)?.len()?, tx.open_table(OBJECTS)?.len()?, tx.open_table(UPLOADS)?.len()?])
    }

    /// The number of objects.
    pub fn objects(&self) -> Result<u64> {
        Ok(self.read()?.open_table(OBJECTS)?.len()?)
    }

    /// Visits the ids of all referenced data files until `visit` returns false.
    pub fn visit_files(&self, mut visit: impl FnMut(Uuid) -> bool) -> Result<()> {
        let tx = self.read()?;
        for entry in tx.open_table(OBJECTS)?.iter()? {
            let record: RecordSegments = decode(entry?.1.value())?;
            if !record.segments.iter().all(|segment| visit(segment.id)) {
                return Ok(());
            }
        }
        for entry in tx.open_table(PARTS)?.iter()? {
            let part: super::PartRecord = decode(entry?.1.value())?;
            if !visit(part.segment.id) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn database(path: &Path, disk: &Arc<dyn Disk>, health: &Arc<FileHealth>) -> Result<Database> {
    let io = |error: io::Error| StoreError::io("cannot open the index")(error);
    // Commits are durable only if the name of the file is.
    disk.apply(Change::SyncFolder(path.parent().unwrap_or(path))).map_err(io)?;
    let file = DiskFile::open(disk, path.to_owned()).map_err(io)?;
    file.drop_page_cache();
    // A file that was truncated to its head would be treated as a new one.
    let is_cut = file.file().metadata().map_err(io)?.len() <= PAGE;
    if is_cut || !matches!(Format::of(&file).map_err(io)?, Format::Checked) {
        let damage = "the index of the store is damaged: it does not begin as one does";
        return Err(StoreError::DamagedIndex(damage.to_owned()));
    }
    let db = open_file(file, health)?;
    health.in_use.store(true, Ordering::SeqCst);
    Ok(db)
}

fn open_file(file: DiskFile, health: &Arc<FileHealth>) -> Result<Database> {
    health.in_use.store(false, Ordering::SeqCst);
    let pages = Arc::new(Pages::open(file).map_err(|error| StoreError::from(redb::StorageError::Io(error)))?);
    let db = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(IndexFile::new(&pages, health)?)?;
    pages.accept_repaired().map_err(|error| StoreError::from(redb::StorageError::Io(error)))?;
    // An intact index is opened without writing, which a full disk would not allow.
    if db.begin_read()?.open_table(USAGE).is_ok() {
        return Ok(db);
    }
    let tx = db.begin_write()?;
    {
        tx.open_table(BUCKETS)?;
        tx.open_table(OBJECTS)?;
        tx.open_table(UPLOADS)?;
        tx.open_table(PARTS)?;
        usage::begin(&tx)?;
    }
    tx.commit()?;
    Ok(db)
}

/// Puts an object into the table, which is the step of each write that makes it visible. Returns
/// the files that are no longer referenced.
pub(super) fn put_object(
    tx: &WriteTransaction,
    bucket: &str,
    key: &str,
    record: &ObjectRecord,
    condition: &Condition,
    account: Option<&Account>,
) -> Result<Vec<Segment>> {
    let mut objects = tx.open_table(OBJECTS)?;
    let at = (bucket, key.as_bytes());
    let present = objects.get(at)?.map(|record| decode::<ObjectRecord>(record.value())).transpose()?;
    condition.check(key, present.as_ref().map(|record| &record.meta))?;
    if let Some(replaced) = &present {
        usage::subtract(tx, replaced.writer.as_deref(), Usage::bytes(replaced.meta.size))?;
    }
    usage::add(tx, account, Usage::bytes(record.meta.size))?;
    objects.insert(at, encode(record)?.as_slice())?;
    Ok(present.map(|record| record.segments).unwrap_or_default())
}

/// A cursor over the keys of one bucket in a snapshot.
pub(crate) struct IndexCursor {
    bucket: String,
    table: ReadOnlyTable<(&'static str, &'static [u8]), &'static [u8]>,
    range: redb::Range<'static, (&'static str, &'static [u8]), &'static [u8]>,
}

impl Cursor for IndexCursor {
    fn seek(&mut self, at: &[u8]) -> Result<()> {
        self.range = self.table.range((self.bucket.as_str(), at)..)?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
        let Some(entry) = self.range.next() else { return Ok(None) };
        let (key, record) = entry?;
        let (bucket, key) = key.value();
        if bucket != self.bucket {
            return Ok(None);
        }
        // Listings return no part metadata; dropping it saves memory.
        let record = decode::<ObjectRecord>(record.value());
        let record = record.map_err(|e| e.of(|| format!("s3://{bucket}/{}", String::from_utf8_lossy(key))))?;
        let meta = ObjectMeta { parts: Vec::new(), ..record.meta };
        Ok(Some((key.to_vec(), meta)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::LocalDisk;
    use super::super::listing::{ListQuery, Listed, list};
    use super::*;

    fn index(dir: &Path) -> Index {
        let disk = Arc::new(FailStopDisk::new(Arc::new(LocalDisk)));
        let index = Index::open(&dir.join("index.redb"), &disk, u64::MAX).unwrap();
        for name in ["a", "b", "c"] {
            index.create_bucket(&BucketMeta { name: name.into(), ..BucketMeta::default() }, 9, &Grant::node()).unwrap();
        }
        index
    }

    fn record() -> ObjectRecord {
        ObjectRecord { meta: ObjectMeta::default(), segments: Vec::new(), upload: None, writer: None, damaged: false }
    }

    /// Counts the steps of a cursor.
    struct Counted<C> {
        cursor: C,
        seeks: usize,
        reads: usize,
    }

    impl<C: Cursor> Cursor for Counted<C> {
        fn seek(&mut self, at: &[u8]) -> Result<()> {
            self.seeks += 1;
            self.cursor.seek(at)
        }
        fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
            self.reads += 1;
            self.cursor.next()
        }
    }

    #[test]
    fn a_page_of_a_million_objects_costs_the_page() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        let bytes = encode(&record()).unwrap();
        index
            .write(|tx| {
                let mut objects = tx.open_table(OBJECTS)?;
                for number in 0..1_000_000u32 {
                    // A thousand folders of a thousand objects, between two other buckets.
                    let key = format!("d{:03}/{:03}", number / 1000, number % 1000);
                    objects.insert(("b", key.as_bytes()), bytes.as_slice())?;
                }
                objects.insert(("a", b"d".as_slice()), bytes.as_slice())?;
                objects.insert(("c", b"d".as_slice()), bytes.as_slice())?;
                Ok(())
            })
            .unwrap();
        assert_eq!(index.objects().unwrap(), 1_000_002);
        let page = |query: ListQuery| {
            let mut cursor = Counted { cursor: index.cursor("b").unwrap(), seeks: 0, reads: 0 };
            let page = list(&mut cursor, &query).unwrap();
            (page, cursor.seeks, cursor.reads)
        };
        let query = ListQuery { limit: 1000, ..ListQuery::default() };
        let (plain, seeks, reads) = page(ListQuery { prefix: b"d500/".to_vec(), ..query.clone() });
        assert_eq!((plain.entries.len(), plain.next.is_some(), seeks, reads), (1000, false, 1, 1001));
        let (first, seeks, reads) = page(query.clone());
        assert_eq!((first.entries.len(), seeks, reads), (1000, 1, 1001));
        let (second, seeks, reads) = page(ListQuery { start: first.next.unwrap(), ..query.clone() });
        assert_eq!((second.entries.len(), seeks, reads), (1000, 1, 1001));
        assert!(matches!(&second.entries[0], Listed::Object(key, _) if key == b"d001/000"));
        // A thousand folders take one seek and one read each, regardless of their contents.
        let (folders, seeks, reads) = page(ListQuery { delimiter: b"/".to_vec(), ..query });
        assert_eq!((folders.entries.len(), folders.next, seeks, reads), (1000, None, 1001, 1001));
    }
}
