//! Single bits change on the disk, anywhere.
//!
//! A store holds objects of one block and of many, one of parts, copies, an upload in progress, and
//! several buckets. A bit of one of its files is flipped, everything is read, and the bit is
//! restored. Every successful read must return what was stored, and every failed one must return an
//! error that does not claim absence; or the store does not open at all. `PUSHDOWNDB_FLIPS=10000`
//! flips 10000 bits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use tempfile::TempDir;

use super::{Unsynced, folder, runtime, seed};
use crate::Limits;
use crate::store::{
    Body, BucketSettings, Completion, Condition, CopyRequest, Grant, ListQuery, Listed, LocalStore, PartRef,
    PutOptions, Result, Staged, Store, StoreError, UploadKey, UploadQuery, UploadRecord,
};

const BUCKETS: [&str; 3] = ["first", "second", "third"];

/// Default number of flipped bits.
const FLIPS: usize = 400;

fn flips() -> usize {
    std::env::var("PUSHDOWNDB_FLIPS").map_or(FLIPS, |flips| flips.parse().unwrap())
}

/// Limits under which every read is verified, and nothing runs in the background.
fn limits() -> Limits {
    Limits { verify_interval: Duration::ZERO, part_min_bytes: 1, scrub_bytes: 0, ..Limits::default() }
}

fn open(root: &Path) -> pushdowndb_contract::Result<LocalStore> {
    LocalStore::open_on(Arc::new(Unsynced), &root.join("store"), limits())
}

/// A store and its contents.
struct World {
    root: TempDir,
    objects: BTreeMap<(&'static str, String), Expected>,
    upload: UploadKey,
    part: String,
}

struct Expected {
    bytes: Vec<u8>,
    etag: String,
}

async fn stage(store: &LocalStore, bytes: &[u8]) -> Staged {
    let chunks: Vec<Result<Bytes>> = bytes.chunks(70_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let body: Body = stream::iter(chunks).boxed();
    store.stage(body, None).await.unwrap()
}

impl World {
    async fn new(random: &mut StdRng) -> (Self, LocalStore) {
        let root = folder();
        let store = open(root.path()).unwrap();
        let mut objects = BTreeMap::new();
        let mut bytes = |size: usize| {
            let mut bytes = vec![0; size];
            random.fill_bytes(&mut bytes);
            bytes
        };
        for bucket in BUCKETS {
            store.create_bucket(bucket, BucketSettings::default(), Grant::node()).await.unwrap();
            // Enough for an index of several levels.
            let small: Vec<_> = (0..120).map(|number| (format!("small/{number:03}"), bytes(200))).collect();
            let sizes = [("empty", 0), ("block", 65_536), ("blocks", 300_000), ("and-a-byte", 65_537)];
            let large = sizes.map(|(key, size)| (key.to_owned(), bytes(size)));
            for (key, bytes) in small.into_iter().chain(large) {
                let staged = stage(&store, &bytes).await;
                let etag = store.put(bucket, &key, staged, PutOptions::default(), Grant::node()).await.unwrap().etag;
                objects.insert((bucket, key), Expected { bytes, etag });
            }
        }
        let record = UploadRecord { started_ms: crate::store::now_ms(), ..UploadRecord::default() };
        let begin = async |key: &str| {
            let id = store.create_upload("first", key, record.clone(), Grant::node()).await.unwrap();
            UploadKey { bucket: "first".to_owned(), key: key.to_owned(), id }
        };
        let done = begin("parts").await;
        let mut whole = Vec::new();
        for (number, size) in [(1, 200_000), (2, 10), (3, 70_000)] {
            let bytes = bytes(size);
            store.put_part(done.clone(), number, stage(&store, &bytes).await, Grant::node()).await.unwrap();
            whole.extend(bytes);
        }
        let parts = (1..=3).map(|number| PartRef { number, etag: None, checksum: None }).collect();
        let completion = Completion { parts, condition: Condition::default(), checksum: None, size: None };
        let etag = store.complete(done, completion, Grant::node()).await.unwrap().etag;
        objects.insert(("first", "parts".to_owned()), Expected { bytes: whole, etag });
        for key in ["blocks", "parts"] {
            let Expected { bytes, etag } = &objects[&("first", key.to_owned())];
            let (bytes, etag) = (bytes.clone(), etag.clone());
            store.copy(copy("first", key, &etag, "third", "a-copy"), Grant::node()).await.unwrap();
            objects.insert(("third", "a-copy".to_owned()), Expected { bytes, etag });
        }
        let upload = begin("under-way").await;
        let part =
            store.put_part(upload.clone(), 7, stage(&store, &bytes(80_000)).await, Grant::node()).await.unwrap().etag;
        (Self { root, objects, upload, part }, store)
    }

    /// Reads everything. Returns the number of errors.
    async fn examine(&self, store: &LocalStore) -> std::result::Result<usize, String> {
        let mut errors = 0;
        let mut checked = |found: Result<bool>, what: &str| match found {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{what} is not what was stored")),
            Err(StoreError::NoSuchBucket(_) | StoreError::NoSuchKey(_) | StoreError::NoSuchUpload(_)) => {
                Err(format!("{what} is said not to exist"))
            }
            Err(_) => {
                errors += 1;
                Ok(())
            }
        };
        let names = store.buckets().await.map(|buckets| buckets.into_iter().map(|bucket| bucket.name).eq(BUCKETS));
        checked(names, "the list of buckets")?;
        for bucket in BUCKETS {
            let of_bucket = self.objects.iter().filter(|((name, _), _)| *name == bucket);
            let expected = of_bucket.map(|((_, key), object)| (key.clone(), object.etag.clone()));
            let page = store.list(bucket, ListQuery { limit: 1000, ..ListQuery::default() }).await;
            let listed = page.map(|page| {
                let entries = page.entries.into_iter().filter_map(|entry| match entry {
                    Listed::Object(key, meta) => Some((String::from_utf8(key).unwrap(), meta.etag)),
                    Listed::Prefix(_) => None,
                });
                entries.eq(expected)
            });
            checked(listed, &format!("the list of {bucket}"))?;
        }
        for ((bucket, key), object) in &self.objects {
            let what = format!("{bucket}/{key}");
            checked(store.head(bucket, key).await.map(|meta| meta.etag == object.etag), &what)?;
            checked(read(store, bucket, key).await.map(|bytes| bytes == object.bytes), &what)?;
            let size = object.bytes.len();
            if size > 1000 {
                let range = size / 3..size - 5;
                let part = slice(store, bucket, key, range.clone()).await;
                checked(part.map(|bytes| bytes == object.bytes[range]), &format!("a range of {what}"))?;
            }
        }
        let uploads = store.uploads("first", UploadQuery { limit: 10, ..UploadQuery::default() }).await;
        let found = uploads.map(|page| page.uploads.into_iter().map(|(key, id, _)| (key, id)).collect::<Vec<_>>());
        checked(found.map(|found| found == [(self.upload.key.clone(), self.upload.id.clone())]), "the uploads")?;
        let parts = store.parts(self.upload.clone(), 0, 10).await;
        let found =
            parts.map(|(parts, _)| parts.into_iter().map(|(number, part)| (number, part.etag)).collect::<Vec<_>>());
        checked(found.map(|found| found == [(7, self.part.clone())]), "the parts")?;
        Ok(errors)
    }

    /// Checks that a damaged object is not copied.
    async fn copies(&self, store: &LocalStore) -> std::result::Result<usize, String> {
        let mut errors = 0;
        for ((bucket, key), object) in self.objects.iter().filter(|((_, key), _)| !key.starts_with("small/")) {
            match store.copy(copy(bucket, key, &object.etag, "second", "copied"), Grant::node()).await {
                Err(_) => errors += 1,
                Ok(_) if read(store, "second", "copied").await.is_ok_and(|bytes| bytes == object.bytes) => {}
                Ok(_) => return Err(format!("{bucket}/{key} was copied, and the copy is something else")),
            }
        }
        store.delete("second", vec![("copied".to_owned(), Condition::default())], Grant::node()).await.unwrap();
        Ok(errors)
    }

    fn data_files(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.root.path().join("store/data")).unwrap();
        let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).filter(|file| fs::metadata(file).unwrap().len() > 0).collect()
    }
}

fn copy(from_bucket: &str, from_key: &str, etag: &str, bucket: &str, key: &str) -> CopyRequest {
    CopyRequest {
        from_bucket: from_bucket.to_owned(),
        from_key: from_key.to_owned(),
        from_etag: etag.to_owned(),
        source: Grant::node(),
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        attributes: None,
        tags: None,
        condition: Condition::default(),
    }
}

async fn read(store: &LocalStore, bucket: &str, key: &str) -> Result<Vec<u8>> {
    let size = store.head(bucket, key).await?.size as usize;
    slice(store, bucket, key, 0..size).await
}

async fn slice(store: &LocalStore, bucket: &str, key: &str, range: std::ops::Range<usize>) -> Result<Vec<u8>> {
    let object = store.open(bucket, key).await?;
    let blocks = object.data.blocks(range.start as u64..range.end as u64);
    let blocks: Vec<Bytes> = blocks.try_collect().await.map_err(StoreError::io("cannot read"))?;
    Ok(blocks.concat())
}

fn flip(file: &Path, bit: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(file, bytes).unwrap();
}

#[test]
fn no_bit_of_a_data_file_changes_unnoticed() {
    let mut random = StdRng::seed_from_u64(seed());
    runtime().block_on(async {
        let (world, store) = World::new(&mut random).await;
        let files = world.data_files();
        let large: Vec<_> = files.iter().filter(|file| fs::metadata(file).unwrap().len() > 1000).collect();
        assert_eq!(world.examine(&store).await, Ok(0));
        assert_eq!(world.copies(&store).await, Ok(0));
        let mut errors = 0;
        for number in 0..flips() {
            // Most files are small, most bits are in large ones.
            let file = if number % 4 == 0 {
                &files[random.random_range(0..files.len())]
            } else {
                large[random.random_range(0..large.len())]
            };
            let size = fs::metadata(file).unwrap().len() as usize;
            // In one case of eight, flips a bit of the trailer with the checksums.
            let bits = if number % 8 == 1 { (size - 20.min(size)) * 8..size * 8 } else { 0..size * 8 };
            let bit = random.random_range(bits);
            flip(file, bit);
            let found = world.examine(&store).await;
            let found = found.unwrap_or_else(|problem| panic!("bit {bit} of {}: {problem}", file.display()));
            if number % 16 == 0 {
                let copied = world.copies(&store).await;
                copied.unwrap_or_else(|problem| panic!("bit {bit} of {}: {problem}", file.display()));
            }
            errors += usize::from(found > 0);
            flip(file, bit);
        }
        // Flips in the part of the upload in progress cause no errors here, since it is not read.
        assert!(errors * 10 > flips() * 7, "{errors} of {}", flips());
        assert_eq!(world.examine(&store).await, Ok(0));
        let (damaged, reads) = store.shared().reading.verifier().counts();
        assert!(damaged > 10 && reads > damaged, "{damaged} {reads}");
    });
}

/// Flips bits in the index of a closed store, and in that of a store whose node was killed.
#[test]
fn no_bit_of_the_index_changes_unnoticed() {
    let began = Instant::now();
    let mut random = StdRng::seed_from_u64(seed());
    let runtime = runtime();
    let (world, store) = runtime.block_on(World::new(&mut random));
    let index = world.root.path().join("store/index.redb");
    let killed = fs::read(&index).unwrap();
    drop(store);
    let closed = fs::read(&index).unwrap();
    assert_ne!(killed, closed);
    let (mut refused, mut errors, mut right) = (0, 0, 0);
    for number in 0..flips() {
        let before = if number % 2 == 0 { &killed } else { &closed };
        // Most pages are free.
        let page = loop {
            let page = random.random_range(0..before.len() / 4096);
            if number % 8 < 2 {
                break page;
            }
            let is_used = before[page * 4096..(page + 1) * 4096].iter().any(|byte| *byte != 0);
            if is_used {
                break if number % 8 == 2 { 0 } else { page };
            }
        };
        let bit = page * 4096 * 8 + random.random_range(0..4096 * 8);
        let mut wrong = before.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        fs::write(&index, wrong).unwrap();
        match open(world.root.path()) {
            Err(error) => {
                assert!(error.to_string().contains("index"), "it names no damage: {error}");
                refused += 1;
            }
            Ok(store) => {
                let found = runtime.block_on(world.examine(&store));
                let killed = number % 2 == 0;
                let found =
                    found.unwrap_or_else(|problem| panic!("bit {bit} (page {page}), killed: {killed}: {problem}"));
                if found > 0 { errors += 1 } else { right += 1 }
            }
        }
    }
    println!("{refused} refused, {errors} errors, {right} right, {:.1?}", began.elapsed());
    assert!(refused + errors > flips() / 20, "{refused} refused, {errors} errors, {right} right");
    fs::write(&index, closed).unwrap();
    assert_eq!(runtime.block_on(world.examine(&open(world.root.path()).unwrap())), Ok(0));
}

#[test]
fn no_bit_of_the_mark_changes_unnoticed() {
    let mut random = StdRng::seed_from_u64(seed());
    let runtime = runtime();
    let (world, store) = runtime.block_on(World::new(&mut random));
    drop(store);
    let mark = world.root.path().join("store/VERSION");
    let size = fs::metadata(&mark).unwrap().len() as usize;
    let before = fs::read(&mark).unwrap();
    for bit in 0..size * 8 {
        flip(&mark, bit);
        match open(world.root.path()) {
            Err(error) => assert!(error.to_string().contains("format"), "{error}"),
            Ok(store) => assert_eq!(runtime.block_on(world.examine(&store)), Ok(0)),
        }
        fs::write(&mark, &before).unwrap();
    }
}
