//! Footers of Parquet objects that were read before, kept by address and version: most queries of a table ask for the
//! footers that the one before asked for, and every split of an object needs the whole footer.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::parquet::file::metadata::ParquetMetaData;
use pushdown::Result;

use super::footer::parquet_metadata;
use crate::ObjectReader;

/// Footers of many objects, of which the least recently used go first.
pub struct Footers {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

/// Address and version.
type Key = (String, String);

#[derive(Default)]
struct Kept {
    footers: HashMap<Key, Entry>,
    bytes: usize,
    /// Counts uses; the larger, the later.
    clock: u64,
}

struct Entry {
    footer: Arc<ParquetMetaData>,
    bytes: usize,
    used: u64,
}

impl Footers {
    /// Keeps footers that take about so many bytes of memory together.
    pub fn new(most_bytes: usize) -> Arc<Self> {
        Arc::new(Self { most_bytes, kept: Mutex::default() })
    }

    /// The footer of objects that are read in this version, an ETag for one.
    pub fn of(self: &Arc<Self>, version: impl Into<String>) -> KnownFooter {
        KnownFooter { footers: Arc::clone(self), version: version.into() }
    }

    /// The memory that they take, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.lock().bytes
    }

    fn get(&self, key: &Key) -> Option<Arc<ParquetMetaData>> {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let entry = kept.footers.get_mut(key)?;
        entry.used = now;
        Some(Arc::clone(&entry.footer))
    }

    fn keep(&self, key: Key, footer: &Arc<ParquetMetaData>) {
        let bytes = footer.memory_size() + key.0.len() + key.1.len();
        if bytes > self.most_bytes / 2 {
            return;
        }
        let mut kept = self.lock();
        let used = kept.clock;
        kept.bytes += bytes;
        if let Some(before) = kept.footers.insert(key, Entry { footer: Arc::clone(footer), bytes, used }) {
            kept.bytes -= before.bytes;
        }
        if kept.bytes > self.most_bytes {
            kept.make_room(self.most_bytes / 8 * 7);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Some more than needed, or the next one would look at all of them again.
    fn make_room(&mut self, bytes: usize) {
        let mut by_use: Vec<(u64, Key)> = self.footers.iter().map(|(key, entry)| (entry.used, key.clone())).collect();
        by_use.sort_unstable();
        for (_, key) in by_use {
            if self.bytes <= bytes {
                return;
            }
            if let Some(entry) = self.footers.remove(&key) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

impl fmt::Debug for Footers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footers").field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}

/// The footer of an object in one version, known or not.
#[derive(Clone, Debug)]
pub struct KnownFooter {
    footers: Arc<Footers>,
    version: String,
}

impl KnownFooter {
    /// The footer, read if it is not known and has at most so many bytes.
    pub async fn read(&self, reader: &dyn ObjectReader, footer_bytes: u64) -> Result<Arc<ParquetMetaData>> {
        let key = (reader.location().to_owned(), self.version.clone());
        if let Some(footer) = self.footers.get(&key) {
            return Ok(footer);
        }
        let footer = Arc::new(parquet_metadata(reader, footer_bytes).await?);
        self.footers.keep(key, &footer);
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::InMemory;

    fn object(name: &str, value: i64) -> InMemory {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![value]))]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        InMemory::new(name, bytes)
    }

    #[tokio::test]
    async fn a_version_is_read_once_and_room_is_bounded() {
        let footers = Footers::new(1 << 20);
        let first = footers.of("1").read(&object("k", 1), 1 << 20).await.unwrap();
        let again = footers.of("1").read(&InMemory::new("k", "nobody looks at these bytes"), 1 << 20).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(footers.of("2").read(&InMemory::new("k", "another version"), 1 << 20).await.is_err());
        assert!(footers.of("1").read(&InMemory::new("l", "another object"), 1 << 20).await.is_err());

        let room = 10 * footers.size_bytes();
        let few = Footers::new(room);
        for n in 0..50 {
            few.of("1").read(&object("used", 1), 1 << 20).await.unwrap();
            few.of("1").read(&object(&n.to_string(), n), 1 << 20).await.unwrap();
            assert!(few.size_bytes() <= room);
        }
        few.of("1").read(&InMemory::new("used", "still known"), 1 << 20).await.unwrap();
        assert!(few.of("1").read(&InMemory::new("0", "long gone"), 1 << 20).await.is_err());
    }
}
