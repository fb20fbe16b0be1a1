//! Blocks of sorted rows, each stored as an object, which are found and cleaned up by LIST.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// The blocks of one query: `PREFIX/PARTITION/PASS/RUN/BLOCK`.
#[derive(Debug)]
pub struct Blocks {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The size of a block in bytes of rows.
    pub block_bytes: usize,
    waited_ns: AtomicU64,
}

/// The keys of a run's blocks, in order.
pub(super) type Run = Vec<Path>;

impl Blocks {
    /// Creates an empty set of blocks below `prefix` of `store`, which nothing else may use.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, block_bytes: usize) -> Self {
        Self { store, prefix, block_bytes, waited_ns: AtomicU64::new(0) }
    }

    /// The time that partitions waited for requests, summed over all partitions.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Relaxed))
    }

    /// Deletes all blocks.
    pub async fn clean(&self) -> Result<()> {
        let found = self.store.list(Some(&self.prefix)).map_ok(|object| object.location).boxed();
        self.store.delete_stream(found).try_for_each(|_| std::future::ready(Ok(()))).await?;
        Ok(())
    }

    /// Writes a block of sorted rows.
    pub(super) async fn write(&self, place: (usize, usize, usize, usize), rows: &RecordBatch) -> Result<()> {
        let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema())?;
        writer.write(rows)?;
        let block = writer.into_inner()?;
        let (partition, pass, run, number) = place;
        let key = self.pass(partition, pass).join(format!("{run:06}")).join(format!("{number:06}"));
        let start = Instant::now();
        self.store.put(&key, block.into()).await?;
        self.waited_since(start);
        Ok(())
    }

    /// The runs that a pass has written, found by a LIST.
    pub(super) async fn runs(&self, partition: usize, pass: usize) -> Result<Vec<Run>> {
        let (start, prefix) = (Instant::now(), self.pass(partition, pass));
        let found: Vec<_> = self.store.list(Some(&prefix)).try_collect().await?;
        self.waited_since(start);
        let mut keys: Vec<Path> = found.into_iter().map(|object| object.location).collect();
        keys.sort();
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        for key in keys {
            let run = key.parts().nth_back(1).map(|part| part.as_ref().to_owned()).unwrap_or_default();
            runs.entry(run).or_default().push(key);
        }
        Ok(runs.into_values().collect())
    }

    /// Reads the rows of a run, one block after the other, each when it is needed.
    pub(super) fn read(self: &Arc<Self>, run: Run, schema: &SchemaRef) -> SendableRecordBatchStream {
        let blocks = Arc::clone(self);
        let rows = stream::iter(run).then(move |key| {
            let blocks = Arc::clone(&blocks);
            async move { blocks.read_block(&key).await }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows))
    }

    async fn read_block(&self, key: &Path) -> Result<RecordBatch> {
        let start = Instant::now();
        let block = self.store.get(key).await?.bytes().await?;
        self.waited_since(start);
        let reader = StreamReader::try_new(Cursor::new(block), None)?;
        let schema = reader.schema();
        let rows = reader.collect::<std::result::Result<Vec<_>, _>>()?;
        concat_batches(&schema, &rows).map_err(DataFusionError::from)
    }

    fn pass(&self, partition: usize, pass: usize) -> Path {
        self.prefix.clone().join(format!("{partition}")).join(format!("{pass}"))
    }

    fn waited_since(&self, start: Instant) {
        self.waited_ns.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
    }
}
