//! Zones of objects (what earlier scans learned about the values in parts of an object), cached
//! between requests and, in a folder, between restarts.
//!
//! Entries are evicted in LRU order above a memory limit. A replaced object has another ETag and is
//! another entry. Files are never synced and may be lost at any time: they only save work. A file
//! holds one object: a head that names it, a checksum, and the zones ([`Zones::to_bytes`]).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::Fingerprint;
use pushdowndb_scan::Zones;

/// Maximum number of objects in memory.
const MAX_OBJECTS: usize = 100_000;

/// The magic bytes of a file; the last one is the version.
const MAGIC: &[u8; 5] = b"PDBZ\x01";

/// Size of the files relative to the memory limit; objects evicted from memory stay on disk.
const DISK_FACTOR: u64 = 4;

/// The zones of many objects.
#[derive(Debug)]
pub(crate) struct ZoneCache {
    bytes: usize,
    folder: Option<PathBuf>,
    entries: Mutex<Entries>,
}

/// A version of an object: bucket, key, ETag.
type Version = (String, String, String);

#[derive(Debug, Default)]
struct Entries {
    objects: HashMap<Version, Entry>,
    /// Number of uses so far, for the LRU order.
    clock: u64,
    /// Entries added since the last eviction.
    added: usize,
}

#[derive(Debug)]
struct Entry {
    zones: Arc<Zones>,
    used: u64,
    /// The change count of the zones when they were last saved.
    saved: u64,
}

impl ZoneCache {
    /// Creates a cache of about `bytes` in memory and a multiple of that in `folder`.
    pub fn new(bytes: usize, folder: Option<PathBuf>) -> Self {
        let cache = Self { bytes, folder, entries: Mutex::default() };
        if let Some(folder) = &cache.folder
            && let Err(error) = fs::create_dir_all(folder).and_then(|()| trim(folder, bytes as u64 * DISK_FACTOR))
        {
            tracing::warn!(%error, "what is known of objects' values is not kept");
        }
        cache
    }

    /// Returns the zones of an object version, new ones if there are none yet. May read a small
    /// file.
    pub fn get_or_load(&self, bucket: &str, key: &str, etag: &str) -> Arc<Zones> {
        let version = (bucket.to_owned(), key.to_owned(), etag.to_owned());
        if let Some(zones) = self.lock().get(&version) {
            return zones;
        }
        let zones = Arc::new(self.read(&version).unwrap_or_default());
        let mut entries = self.lock();
        // Another scan may have added it meanwhile.
        if let Some(zones) = entries.get(&version) {
            return zones;
        }
        let entry = Entry { zones: Arc::clone(&zones), used: entries.clock, saved: zones.changes() };
        entries.objects.insert(version, entry);
        let gone = entries.make_room(self.bytes);
        drop(entries);
        self.write_all(gone);
        zones
    }

    /// The memory of the zones, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.lock().size_bytes()
    }

    /// Writes changed zones to disk. Blocks.
    pub fn save(&self) {
        let mut entries = self.lock();
        let changed = entries.objects.iter_mut().filter(|(_, entry)| entry.zones.changes() != entry.saved);
        let changed = changed.map(|(version, entry)| {
            entry.saved = entry.zones.changes();
            (version.clone(), Arc::clone(&entry.zones))
        });
        let changed: Vec<_> = changed.collect();
        drop(entries);
        self.write_all(changed);
        if let Some(folder) = &self.folder
            && let Err(error) = trim(folder, self.bytes as u64 * DISK_FACTOR)
        {
            tracing::debug!(%error, "cannot tidy up what is known of objects' values");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    fn file(&self, version: &Version) -> Option<PathBuf> {
        let (bucket, key, etag) = version;
        let name = Fingerprint::builder("zones of an object", 1).text(bucket).text(key).text(etag).finish();
        Some(self.folder.as_ref()?.join(format!("{name}.zones")))
    }

    fn read(&self, version: &Version) -> Option<Zones> {
        let bytes = fs::read(self.file(version)?).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (sum, rest) = rest.split_first_chunk::<4>()?;
        let zones = rest.strip_prefix(head(version).as_slice())?;
        (checksum(rest) == u32::from_le_bytes(*sum)).then(|| Zones::from_bytes(zones).ok()).flatten()
    }

    fn write_all(&self, changed: Vec<(Version, Arc<Zones>)>) {
        for (version, zones) in changed {
            let Some(file) = self.file(&version) else { return };
            if let Err(error) = write(&file, &version, &zones) {
                tracing::debug!(%error, file = %file.display(), "cannot keep what is known of an object's values");
            }
        }
    }
}

/// The head of a file, which names the object.
fn head((bucket, key, etag): &Version) -> Vec<u8> {
    let mut head = Vec::new();
    for part in [bucket, key, etag] {
        head.extend_from_slice(&(part.len() as u64).to_le_bytes());
        head.extend_from_slice(part.as_bytes());
    }
    head
}

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn write(file: &Path, version: &Version, zones: &Zones) -> io::Result<()> {
    let mut body = head(version);
    body.extend(zones.to_bytes().map_err(io::Error::other)?);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&checksum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    let new = file.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, file)
}

/// Removes the oldest files until the rest have at most `bytes`.
fn trim(folder: &Path, bytes: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        files.push((about.modified()?, about.len(), entry.path()));
    }
    files.sort_unstable();
    let mut size: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, freed, file) in files {
        if size <= bytes {
            break;
        }
        fs::remove_file(file)?;
        size -= freed;
    }
    Ok(())
}

impl Entries {
    fn get(&mut self, version: &Version) -> Option<Arc<Zones>> {
        self.clock += 1;
        let entry = self.objects.get_mut(version)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.zones))
    }

    fn size_bytes(&self) -> usize {
        self.objects.values().map(|entry| entry.zones.size_bytes()).sum()
    }

    /// Evicts the least recently used entries and returns those with unsaved changes. The zones of
    /// scans in progress still grow, so memory may exceed `bytes` until the next call.
    fn make_room(&mut self, bytes: usize) -> Vec<(Version, Arc<Zones>)> {
        // Measuring every object for each new one would take longer than most scans.
        self.added += 1;
        if self.added <= self.objects.len() / 64 && self.objects.len() <= MAX_OBJECTS {
            return vec![];
        }
        self.added = 0;
        let mut size = self.size_bytes();
        if size <= bytes && self.objects.len() <= MAX_OBJECTS {
            return vec![];
        }
        let mut by_use: Vec<(u64, Version)> =
            self.objects.iter().map(|(version, entry)| (entry.used, version.clone())).collect();
        by_use.sort_unstable();
        // Evicts more than needed, to amortize the sort.
        let (bytes, objects) = (bytes / 8 * 7, MAX_OBJECTS / 8 * 7);
        let mut gone = Vec::new();
        for (_, version) in by_use {
            if size <= bytes && self.objects.len() <= objects {
                break;
            }
            if let Some(entry) = self.objects.remove(&version) {
                size = size.saturating_sub(entry.zones.size_bytes());
                if entry.zones.changes() != entry.saved {
                    gone.push((version, entry.zones));
                }
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_zones_until_it_is_replaced() {
        let cache = ZoneCache::new(1 << 20, None);
        let first = cache.get_or_load("b", "k", "1");
        assert!(Arc::ptr_eq(&first, &cache.get_or_load("b", "k", "1")));
        assert!(!Arc::ptr_eq(&first, &cache.get_or_load("b", "k", "2")));
        assert!(!Arc::ptr_eq(&first, &cache.get_or_load("c", "k", "1")));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = ZoneCache::new(1 << 20, None);
        let used = cache.get_or_load("b", "kept", "1");
        for i in 0..MAX_OBJECTS {
            cache.get_or_load("b", &i.to_string(), "1");
            if i % 1000 == 0 {
                assert!(Arc::ptr_eq(&used, &cache.get_or_load("b", "kept", "1")));
            }
        }
        assert!(cache.lock().objects.len() <= MAX_OBJECTS);
        assert!(!cache.lock().objects.contains_key(&("b".to_owned(), "0".to_owned(), "1".to_owned())));
        assert!(Arc::ptr_eq(&used, &cache.get_or_load("b", "kept", "1")));
    }

    /// Lets a scan of some records fill `zones`.
    async fn learned(zones: Arc<Zones>) {
        use arrow::datatypes::{DataType, Field, Schema};
        use futures::TryStreamExt;
        use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Format, Fragment};
        use pushdowndb_scan::{InMemory, ScanOptions, scan};

        let text: String = (0..100_000).map(|row| format!("{row},{}\n", "x".repeat(40))).collect();
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
        let format = Format::Csv(CsvOptions { header: false, ..CsvOptions::default() });
        let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::int(5)));
        let fragment = Fragment { predicate, ..Fragment::all(format, Arc::new(Schema::new(fields))) };
        let options = ScanOptions { zones: Some(zones), ..ScanOptions::default() };
        let rows = scan(Arc::new(fragment), Arc::new(InMemory::new("k", text)), None, options, Arc::default()).unwrap();
        assert_eq!(rows.try_collect::<Vec<_>>().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn zones_outlive_the_node_and_lies_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let open = || ZoneCache::new(1 << 20, Some(folder.path().to_owned()));
        let cache = open();
        learned(cache.get_or_load("b", "k", "1")).await;
        let size = cache.size_bytes();
        assert!(size > 0);
        cache.save();
        assert_eq!(open().get_or_load("b", "k", "1").size_bytes(), size);
        assert_eq!(open().get_or_load("b", "k", "2").size_bytes(), 0);
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(&file).unwrap();
        let step = (bytes.len() * 8 / 5000).max(1);
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, broken).unwrap();
            let cache = ZoneCache { bytes: 1 << 20, folder: Some(folder.path().to_owned()), entries: Mutex::default() };
            assert_eq!(cache.get_or_load("b", "k", "1").size_bytes(), 0, "bit {bit}");
        }
        fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(open().get_or_load("b", "k", "1").size_bytes(), 0);
        // More than the limit.
        fs::write(folder.path().join("0.zones"), vec![0; 5 << 20]).unwrap();
        let size = |_: &ZoneCache| {
            fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum::<u64>()
        };
        assert!(size(&open()) <= 4 << 20);
    }
}
