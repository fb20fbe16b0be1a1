//! The sort of one partition by blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::sorts::sort::sort_batch;
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::blocks::Blocks;

/// The sort of `partition`: its parameters, and its blocks in memory.
pub(super) struct PartitionSort {
    pub(super) partition: usize,
    pub(super) schema: SchemaRef,
    pub(super) ordering: LexOrdering,
    pub(super) batch_rows: usize,
    /// Maximum runs that are merged at once, at least 2.
    pub(super) fan_in: usize,
    pub(super) blocks: Arc<Blocks>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) memory: MemoryReservation,
    /// The sorted blocks in memory; empty once `is_short`.
    pub(super) held: Vec<RecordBatch>,
    /// Whether memory has become short. From then on every block is spilled at once.
    pub(super) is_short: bool,
    /// The number of spilled blocks.
    pub(super) spilled: usize,
}

impl PartitionSort {
    /// Sorts all rows of `input`.
    pub(super) async fn sort(mut self, mut input: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        let (mut block, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = input.next().await {
            let batch = batch?;
            bytes += get_record_batch_memory_size(&batch);
            block.push(batch);
            if bytes >= self.blocks.block_bytes {
                self.add(std::mem::take(&mut block)).await?;
                bytes = 0;
            }
        }
        self.add(block).await?;
        if !self.is_short {
            let runs = std::mem::take(&mut self.held);
            let schema = Arc::clone(&self.schema);
            let runs = runs.into_iter().map(|run| {
                let rows = stream::iter([Ok(run)]);
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows)) as SendableRecordBatchStream
            });
            let merged = self.merge(runs.collect())?;
            let memory = self.memory.take();
            let merged = merged.inspect(move |_| {
                let _held = &memory;
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema, merged)));
        }
        self.merge_blocks().await
    }

    /// Sorts a block, and spills it if memory is short.
    async fn add(&mut self, block: Vec<RecordBatch>) -> Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        let block = sort_batch(&concat_batches(&self.schema, &block)?, &self.ordering, None)?;
        if !self.is_short && self.memory.try_grow(get_record_batch_memory_size(&block)).is_ok() {
            self.held.push(block);
            return Ok(());
        }
        self.is_short = true;
        for held in std::mem::take(&mut self.held) {
            self.spill(&held).await?;
        }
        self.memory.free();
        self.spill(&block).await
    }

    async fn spill(&mut self, block: &RecordBatch) -> Result<()> {
        self.blocks.write((self.partition, 0, self.spilled, 0), block).await?;
        self.spilled += 1;
        Ok(())
    }

    /// Merges the spilled blocks, in as many passes as needed.
    async fn merge_blocks(self) -> Result<SendableRecordBatchStream> {
        let mut pass = 0;
        let mut runs = self.blocks.runs(self.partition, pass).await?;
        while runs.len() > self.fan_in {
            // The groups have about the same number of runs each.
            let groups = runs.len().div_ceil(self.fan_in);
            let mut rest = VecDeque::from(runs);
            for group in 0..groups {
                let some = rest.drain(..rest.len().div_ceil(groups - group));
                let some = some.map(|run| self.blocks.read(run, &self.schema)).collect();
                self.write_run((pass + 1, group), self.merge(some)?).await?;
            }
            pass += 1;
            runs = self.blocks.runs(self.partition, pass).await?;
        }
        let runs = runs.into_iter().map(|run| self.blocks.read(run, &self.schema)).collect();
        self.merge(runs)
    }

    /// Writes merged rows as blocks of a run.
    async fn write_run(&self, (pass, run): (usize, usize), mut rows: SendableRecordBatchStream) -> Result<()> {
        let (mut block, mut bytes, mut number) = (Vec::new(), 0, 0);
        loop {
            let batch = rows.next().await.transpose()?;
            let is_last = batch.is_none();
            if let Some(batch) = batch {
                bytes += get_record_batch_memory_size(&batch);
                block.push(batch);
            }
            if bytes >= self.blocks.block_bytes || is_last && !block.is_empty() {
                let rows = concat_batches(&self.schema, &std::mem::take(&mut block))?;
                self.blocks.write((self.partition, pass, run, number), &rows).await?;
                (bytes, number) = (0, number + 1);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Merges sorted `runs`. This uses a block of each run, whose memory is not limited.
    fn merge(&self, runs: Vec<SendableRecordBatchStream>) -> Result<SendableRecordBatchStream> {
        let unlimited: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        StreamingMergeBuilder::new()
            .with_streams(runs)
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(&self.ordering)
            .with_metrics(BaselineMetrics::new(&self.metrics, self.partition))
            .with_batch_size(self.batch_rows)
            .with_reservation(MemoryConsumer::new("merge of blocks").register(&unlimited))
            .build()
    }
}
