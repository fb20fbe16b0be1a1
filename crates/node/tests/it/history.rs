//! What clients did to a node that may die at any moment, and what they may find afterwards.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// Stamps are unique in a test, so that every version can be told from every other.
static STAMPS: AtomicU64 = AtomicU64::new(1);

fn next_stamp() -> u64 {
    STAMPS.fetch_add(1, Ordering::SeqCst)
}

/// The user metadata that repeats the stamp; uploads in parts have none, as this client cannot send
/// any.
const STAMP: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("stamp"));

/// One version of an object: its bytes follow from its stamp and begin with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version {
    stamp: u64,
    /// Of an upload in parts; 0 for a single PUT.
    parts: usize,
}

impl Version {
    fn put() -> Self {
        Self { stamp: next_stamp(), parts: 0 }
    }

    fn part(&self, part: usize) -> Vec<u8> {
        let mut random = StdRng::seed_from_u64(self.stamp << 16 | part as u64);
        let most = if random.random_bool(0.1) { 200_000 } else { 4_000 };
        let mut bytes = vec![0; random.random_range(8..most)];
        random.fill_bytes(&mut bytes);
        bytes[..8].copy_from_slice(&self.stamp.to_be_bytes());
        bytes
    }

    pub fn body(&self) -> Vec<u8> {
        (0..self.files()).flat_map(|part| self.part(part)).collect()
    }

    /// How many files hold it.
    pub fn files(&self) -> usize {
        self.parts.max(1)
    }

    fn attributes(&self) -> Attributes {
        Attributes::from_iter([(STAMP, self.stamp.to_string())])
    }
}

/// A version that a client was told of, or found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Known {
    pub version: Version,
    /// Unless the client was not told.
    pub etag: Option<String>,
}

/// What is under a key, checked to be one of `candidates` in all its bytes.
async fn find(client: &AmazonS3, path: &Path, candidates: &[&Version]) -> Option<Known> {
    let found = match client.get(path).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return None,
        Err(error) => panic!("{path}: {error}"),
    };
    let metadata: Option<u64> = found.attributes.get(&STAMP).map(|stamp| stamp.parse().unwrap());
    let etag = found.meta.e_tag.clone();
    let bytes = found.bytes().await.unwrap();
    let stamp = u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let version = candidates.iter().find(|version| version.stamp == stamp);
    let version = (*version.unwrap_or_else(|| panic!("{path} is {stamp}, not one of {candidates:?}"))).clone();
    assert!(bytes == version.body(), "{path} is {version:?} with other bytes");
    assert_eq!(metadata, (version.parts == 0).then_some(stamp), "{path} is {version:?} with other metadata");
    Some(Known { version, etag })
}

/// A write that was not answered.
#[derive(Debug)]
enum Attempt {
    /// The key becomes this.
    Object(String, Option<Version>),
    Part(usize),
    Complete,
    Abort,
}

/// An upload in parts under way.
struct Upload {
    key: String,
    version: Version,
    id: String,
    parts: Vec<PartId>,
}

impl Upload {
    fn path(&self) -> Path {
        Path::from(self.key.as_str())
    }

    /// Of the parts so far.
    fn version(&self) -> Version {
        Version { parts: self.parts.len(), ..self.version.clone() }
    }
}

/// A client that writes keys of its own, one request after the other.
pub struct Writer {
    name: u64,
    random: StdRng,
    settled: BTreeMap<String, Known>,
    attempt: Option<Attempt>,
    upload: Option<Upload>,
    pub acknowledged: u64,
}

impl Writer {
    pub fn new(name: u64, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { name, random, settled: BTreeMap::new(), attempt: None, upload: None, acknowledged: 0 }
    }

    pub fn known(&self) -> impl Iterator<Item = (Path, Known)> {
        self.settled.iter().map(|(key, known)| (Path::from(key.as_str()), known.clone()))
    }

    pub fn pending_parts(&self) -> usize {
        self.upload.as_ref().map_or(0, |upload| upload.parts.len())
    }

    fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let name = self.name;
        (0..4).map(move |key| format!("{name}/{key}"))
    }

    fn any_key(&mut self) -> String {
        format!("{}/{}", self.name, self.random.random_range(0..4))
    }

    /// Writes until the node is gone.
    pub async fn write(&mut self, client: &AmazonS3, hot: &Hot, killed: &AtomicBool) {
        loop {
            match self.step(client, hot).await {
                Ok(()) => self.acknowledged += 1,
                Err(_) if killed.load(Ordering::SeqCst) => return,
                Err(error) => panic!("a node that lives refused {:?}: {error}", self.attempt),
            }
        }
    }

    async fn step(&mut self, client: &AmazonS3, hot: &Hot) -> object_store::Result<()> {
        let key = self.any_key();
        match self.random.random_range(0..100) {
            0..30 => self.put(client, key).await,
            30..45 => self.delete(client, key).await,
            45..60 => self.copy(client, key).await,
            60..90 => self.multipart(client, key).await,
            90..95 => hot.put(client).await,
            // What was written can be read at once.
            _ => {
                let known = self.settled.get(&key);
                let candidates: Vec<&Version> = known.iter().map(|known| &known.version).collect();
                let found = client.get(&Path::from(key.as_str())).await;
                if matches!(found, Ok(_) | Err(object_store::Error::NotFound { .. })) {
                    assert_eq!(found.is_ok(), !candidates.is_empty(), "{key}");
                } else {
                    found?;
                }
                Ok(())
            }
        }
    }

    fn settle(&mut self, key: &str, known: Option<Known>) {
        match known {
            Some(known) => drop(self.settled.insert(key.to_owned(), known)),
            None => drop(self.settled.remove(key)),
        }
        self.attempt = None;
    }

    async fn put(&mut self, client: &AmazonS3, key: String) -> object_store::Result<()> {
        let version = Version::put();
        self.attempt = Some(Attempt::Object(key.clone(), Some(version.clone())));
        let etag = put(client, &key, &version).await?;
        self.settle(&key, Some(Known { version, etag }));
        Ok(())
    }

    async fn delete(&mut self, client: &AmazonS3, key: String) -> object_store::Result<()> {
        self.attempt = Some(Attempt::Object(key.clone(), None));
        match client.delete(&Path::from(key.as_str())).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => self.settle(&key, None),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn copy(&mut self, client: &AmazonS3, key: String) -> object_store::Result<()> {
        let Some((from, known)) = self.settled.iter().find(|(from, _)| **from != key) else { return Ok(()) };
        let (from, version) = (from.clone(), known.version.clone());
        self.attempt = Some(Attempt::Object(key.clone(), Some(version.clone())));
        client.copy(&Path::from(from), &Path::from(key.as_str())).await?;
        // This client does not tell the ETag of a copy.
        self.settle(&key, Some(Known { version, etag: None }));
        Ok(())
    }

    /// The next step of an upload in parts.
    async fn multipart(&mut self, client: &AmazonS3, key: String) -> object_store::Result<()> {
        let Some(upload) = &self.upload else {
            let version = Version { stamp: next_stamp(), parts: 1 };
            // If the answer is lost, nobody knows the id: the upload is invisible and holds no
            // file.
            let id = client.create_multipart(&Path::from(key.as_str())).await?;
            self.upload = Some(Upload { key, version, id, parts: Vec::new() });
            return Ok(());
        };
        match self.random.random_range(0..10) {
            0..2 if !upload.parts.is_empty() => self.complete(client).await,
            2 => self.abort(client).await,
            // Sometimes a part that is there already.
            _ => {
                let part = upload.parts.len();
                let part = if part > 0 && self.random.random_bool(0.2) { part - 1 } else { part };
                self.put_part(client, part).await
            }
        }
    }

    async fn put_part(&mut self, client: &AmazonS3, part: usize) -> object_store::Result<()> {
        self.attempt = Some(Attempt::Part(part));
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let id = client.put_part(&upload.path(), &upload.id, part, upload.version.part(part).into()).await?;
        upload.parts.truncate(part);
        upload.parts.push(id);
        self.attempt = None;
        Ok(())
    }

    async fn complete(&mut self, client: &AmazonS3) -> object_store::Result<()> {
        self.attempt = Some(Attempt::Complete);
        let Some(upload) = &self.upload else { return Ok(()) };
        let done = client.complete_multipart(&upload.path(), &upload.id, upload.parts.clone()).await?;
        let known = Known { version: upload.version(), etag: done.e_tag };
        if let Some(upload) = self.upload.take() {
            self.settle(&upload.key, Some(known));
        }
        Ok(())
    }

    async fn abort(&mut self, client: &AmazonS3) -> object_store::Result<()> {
        self.attempt = Some(Attempt::Abort);
        let Some(upload) = &self.upload else { return Ok(()) };
        client.abort_multipart(&upload.path(), &upload.id).await?;
        (self.upload, self.attempt) = (None, None);
        Ok(())
    }

    /// Looks at everything after a restart and settles what was open.
    pub async fn check(&mut self, client: &AmazonS3) {
        let attempt = self.attempt.take();
        let completed = match (&attempt, &self.upload) {
            (Some(Attempt::Complete), Some(upload)) => Some((upload.key.clone(), upload.version())),
            _ => None,
        };
        for key in self.keys() {
            let settled = self.settled.get(&key);
            let tried = match (&attempt, &completed) {
                (Some(Attempt::Object(at, version)), _) if *at == key => Some(version.as_ref()),
                (_, Some((at, version))) if *at == key => Some(Some(version)),
                _ => None,
            };
            let candidates: Vec<&Version> =
                settled.map(|known| &known.version).into_iter().chain(tried.flatten()).collect();
            let found = find(client, &Path::from(key.as_str()), &candidates).await;
            let as_before = match (&found, settled) {
                // A copy onto a key may have brought the same bytes.
                (Some(found), Some(settled)) => found.version == settled.version,
                (None, None) => true,
                _ => false,
            };
            match &found {
                _ if as_before => {}
                Some(found) => assert_eq!(tried, Some(Some(&found.version)), "{key}"),
                None => assert_eq!(tried, Some(None), "{key} is gone; it was {settled:?}"),
            }
            if let (None, Some(found), Some(Known { etag: Some(told), .. })) = (tried, &found, settled) {
                assert_eq!(found.etag.as_ref(), Some(told), "{key}");
            }
            self.settle(&key, found);
        }
        let happened = completed
            .is_some_and(|(key, version)| self.settled.get(&key).is_some_and(|known| known.version == version));
        match attempt {
            Some(Attempt::Complete) if happened => self.upload = None,
            // As a client that tries again would.
            Some(Attempt::Part(part)) => self.put_part(client, part).await.expect("a part is uploaded again"),
            Some(Attempt::Abort) => match self.abort(client).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => (self.upload, self.attempt) = (None, None),
                Err(error) => panic!("an upload cannot be aborted: {error}"),
            },
            _ => {}
        }
        let parts = self.upload.as_ref().map_or(0, |upload| upload.parts.len());
        if parts > 0 && self.random.random_bool(0.3) {
            self.complete(client).await.expect("acknowledged parts make an object");
        }
    }
}

async fn put(client: &AmazonS3, key: &str, version: &Version) -> object_store::Result<Option<String>> {
    let options = PutOptions { attributes: version.attributes(), ..PutOptions::default() };
    let done = client.put_opts(&Path::from(key), version.body().into(), options).await?;
    assert!(done.e_tag.is_some());
    Ok(done.e_tag)
}

/// A key that all clients write at once: the last write wins, whichever that was.
#[derive(Default)]
pub struct Hot {
    clock: AtomicU64,
    writes: Mutex<Vec<HotWrite>>,
}

struct HotWrite {
    version: Version,
    began: u64,
    /// When it was acknowledged, and as what.
    done: Option<(u64, Option<String>)>,
}

impl Hot {
    const KEY: &'static str = "hot";

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    async fn put(&self, client: &AmazonS3) -> object_store::Result<()> {
        let version = Version::put();
        let began = self.now();
        self.writes.lock().unwrap().push(HotWrite { version: version.clone(), began, done: None });
        let etag = put(client, Self::KEY, &version).await?;
        let done = Some((self.now(), etag));
        let mut writes = self.writes.lock().unwrap();
        writes.iter_mut().filter(|write| write.version == version).for_each(|write| write.done = done.clone());
        Ok(())
    }

    /// What is there now was not overwritten by a write that began after it was acknowledged.
    pub async fn check(&self, client: &AmazonS3) {
        let versions: Vec<Version> = self.writes.lock().unwrap().iter().map(|write| write.version.clone()).collect();
        let found = find(client, &Path::from(Self::KEY), &versions.iter().collect::<Vec<_>>()).await;
        let mut writes = self.writes.lock().unwrap();
        let last_began = writes.iter().filter(|write| write.done.is_some()).map(|write| write.began).max();
        let Some(found) = found else {
            assert_eq!(last_began, None, "an acknowledged write of '{}' is gone", Self::KEY);
            return writes.clear();
        };
        let mine = writes.iter().find(|write| write.version == found.version).expect("one of the candidates");
        if let Some((done, etag)) = &mine.done {
            assert!(last_began.is_none_or(|began| began < *done), "'{}' went back to {found:?}", Self::KEY);
            assert_eq!(*etag, found.etag);
        }
        *writes = vec![HotWrite { version: found.version, began: self.now(), done: Some((self.now(), found.etag)) }];
    }

    pub fn known(&self) -> Option<(Path, Known)> {
        let writes = self.writes.lock().unwrap();
        let write = writes.last()?;
        let etag = write.done.as_ref().and_then(|(_, etag)| etag.clone());
        Some((Path::from(Self::KEY), Known { version: write.version.clone(), etag }))
    }
}
