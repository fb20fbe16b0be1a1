//! A cache of Parquet footers by address and version. Most queries of a table need the same footers
//! as the query before, and every split of an object needs the whole footer. A footer with its page
//! index is a separate entry, since many queries do not need the page index.

use std::fmt;
use std::sync::Arc;

use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use pushdowndb_contract::Result;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::io::reader::ObjectReader;
use crate::parquet::meta::footer::{first_byte, parquet_metadata_within};
use crate::runtime::memory::MemoryBudget;

/// The average bytes of a footer, from which the number of cache entries is estimated.
const USUAL_BYTES: usize = 32 * 1024;

/// A cache of the footers of many objects. Rarely used footers are evicted first.
pub struct Footers(Cache<Key, Arc<ParquetMetaData>, Bytes>);

/// The address, the version, and the parts of the page index.
type Key = (String, String, Index);

/// The position of a row group, from a cached footer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RowGroupPlace {
    /// The offset of the row group in the file.
    pub first_byte: u64,
    /// The number of rows.
    pub rows: u64,
}

/// The parts of the page index that are read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Index {
    Nothing,
    /// Page locations.
    Places,
    /// Page locations, and bounds of values.
    Bounds,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Arc<ParquetMetaData>> for Bytes {
    fn weight(&self, (address, version, _): &Key, footer: &Arc<ParquetMetaData>) -> u64 {
        (footer.memory_size() + address.len() + version.len()) as u64
    }
}

impl Footers {
    /// Creates a cache for footers that take up to `most_bytes` of memory.
    pub fn new(most_bytes: usize) -> Arc<Self> {
        Arc::new(Self(Cache::with_weighter(most_bytes / USUAL_BYTES, most_bytes as u64, Bytes)))
    }

    /// Returns a handle of the footer of an object with this `version`, such as an ETag.
    pub fn of(self: &Arc<Self>, version: impl Into<String>) -> KnownFooter {
        KnownFooter { footers: Arc::clone(self), version: version.into() }
    }

    /// Returns the memory of the cached footers, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.0.weight() as usize
    }
}

impl fmt::Debug for Footers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footers").field("most_bytes", &self.0.capacity()).finish_non_exhaustive()
    }
}

/// The footer of one version of an object, whether or not it is cached.
#[derive(Clone, Debug)]
pub struct KnownFooter {
    footers: Arc<Footers>,
    version: String,
}

impl KnownFooter {
    /// Returns the footer. If it is not cached it is read, unless it has more than `footer_bytes`
    /// bytes; concurrent calls read it once. Its memory is reserved in `memory`.
    pub async fn read(
        &self,
        reader: &dyn ObjectReader,
        footer_bytes: u64,
        memory: &MemoryBudget,
    ) -> Result<Arc<ParquetMetaData>> {
        let read = async { parquet_metadata_within(reader, footer_bytes, memory).await.map(Arc::new) };
        self.footers.0.get_or_insert_async(&self.key(reader, Index::Nothing), read).await
    }

    /// Returns the row groups of the object at this address. Returns `None` unless its footer is
    /// cached and the file has a page index.
    pub fn row_groups(&self, address: &str) -> Option<Vec<RowGroupPlace>> {
        let footer = self.footers.0.get(&(address.to_owned(), self.version.clone(), Index::Nothing))?;
        let mut chunks = footer.row_groups().iter().flat_map(RowGroupMetaData::columns);
        if chunks.any(|chunk| chunk.offset_index_offset().is_none()) {
            return None;
        }
        let place = |group: &RowGroupMetaData| {
            Some(RowGroupPlace { first_byte: first_byte(group)?, rows: u64::try_from(group.num_rows()).ok()? })
        };
        footer.row_groups().iter().map(place).collect()
    }

    /// Returns the stored bytes of the largest row group of the object at this address; `None` if
    /// its footer is not cached.
    pub fn largest_row_group(&self, address: &str) -> Option<u64> {
        let footer = self.footers.0.get(&(address.to_owned(), self.version.clone(), Index::Nothing))?;
        footer.row_groups().iter().filter_map(|group| u64::try_from(group.compressed_size()).ok()).max()
    }

    /// Returns the footer with its page index, which is read by `read` if it is not cached.
    pub(crate) async fn indexed<E>(
        &self,
        reader: &dyn ObjectReader,
        index: Index,
        read: impl Future<Output = Result<Arc<ParquetMetaData>, E>>,
    ) -> Result<Arc<ParquetMetaData>, E> {
        if index == Index::Places
            && let Some(more) = self.footers.0.get(&self.key(reader, Index::Bounds))
        {
            return Ok(more);
        }
        self.footers.0.get_or_insert_async(&self.key(reader, index), read).await
    }

    fn key(&self, reader: &dyn ObjectReader, index: Index) -> Key {
        (reader.location().to_owned(), self.version.clone(), index)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::io::memory::InMemory;

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
        let first = footers.of("1").read(&object("k", 1), 1 << 20, &MemoryBudget::unbounded()).await.unwrap();
        let again = footers
            .of("1")
            .read(&InMemory::new("k", "nobody looks at these bytes"), 1 << 20, &MemoryBudget::unbounded())
            .await
            .unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(
            footers
                .of("2")
                .read(&InMemory::new("k", "another version"), 1 << 20, &MemoryBudget::unbounded())
                .await
                .is_err()
        );
        assert!(
            footers
                .of("1")
                .read(&InMemory::new("l", "another object"), 1 << 20, &MemoryBudget::unbounded())
                .await
                .is_err()
        );

        let room = 10 * footers.size_bytes();
        let few = Footers::new(room);
        for n in 0..50 {
            few.of("1").read(&object("used", 1), 1 << 20, &MemoryBudget::unbounded()).await.unwrap();
            few.of("1").read(&object(&n.to_string(), n), 1 << 20, &MemoryBudget::unbounded()).await.unwrap();
            assert!(few.size_bytes() <= room);
        }
        few.of("1").read(&InMemory::new("used", "still known"), 1 << 20, &MemoryBudget::unbounded()).await.unwrap();
        let mut gone = 0;
        for n in 0..50 {
            let read = few
                .of("1")
                .read(&InMemory::new(n.to_string(), "gone, for most"), 1 << 20, &MemoryBudget::unbounded())
                .await;
            gone += usize::from(read.is_err());
        }
        assert!(gone >= 40, "{gone} of 50");
    }
}
