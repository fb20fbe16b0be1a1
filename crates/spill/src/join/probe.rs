//! The probe side for a build side that has spilled: rows of spilled partitions are written to
//! files.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, async_try_stream};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use tokio::sync::Mutex;

use super::buffer::{Finished, PartitionBuffer};
use super::file::SpilledRows;
use super::partition::{PARTITIONS, Partitioner};
use super::spec::Task;

/// Partitions the rows of a probe side. Rows of resident partitions are returned, rows of spilled
/// partitions are written to files.
pub(super) struct ProbeRouter {
    task: Task,
    probe: SendableRecordBatchStream,
    partitioner: Partitioner,
    /// The target of each partition: the buffer with the same index if it is spilled, and otherwise
    /// an index after all buffers.
    targets: [usize; PARTITIONS],
    /// The buffers of spilled partitions. Those of resident partitions stay empty.
    buffers: Vec<PartitionBuffer>,
    /// Bytes that are reserved in addition to the buffers, for the join of the resident partitions.
    joined: usize,
}

impl ProbeRouter {
    /// Creates a router for the rows of `probe`, partitioned by the hash of `level`. The partitions
    /// with rows in `spilled` are the spilled ones.
    pub(super) fn new(
        task: &Task,
        probe: SendableRecordBatchStream,
        level: usize,
        spilled: &[Option<SpilledRows>],
        joined: usize,
    ) -> Self {
        let is_spilled = |partition: usize| spilled.get(partition).is_some_and(Option::is_some);
        Self {
            task: task.clone(),
            probe,
            partitioner: Partitioner::new(task.spec.probe_keys(), level),
            targets: std::array::from_fn(|partition| if is_spilled(partition) { partition } else { PARTITIONS }),
            buffers: (0..PARTITIONS).map(|_| PartitionBuffer::default()).collect(),
            joined,
        }
    }

    /// Reads until there are rows of resident partitions, and returns them; `None` at the end.
    pub(super) async fn next_resident(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.probe.try_next().await? {
            let pieces = self.partitioner.split(&batch, &self.targets)?;
            drop(batch);
            let mut resident = None;
            for (target, piece) in pieces.into_iter().enumerate() {
                match (piece, self.buffers.get_mut(target)) {
                    (Some(piece), Some(buffer)) => {
                        if !buffer.is_spilled() {
                            buffer.spill(&self.task.probe_files, "probe side of a join")?;
                        }
                        buffer.push(piece, self.task.spec.batch_size)?;
                    }
                    (Some(piece), None) => resident = Some(piece),
                    (None, _) => {}
                }
            }
            self.make_room()?;
            if resident.is_some() {
                return Ok(resident);
            }
        }
        Ok(None)
    }

    /// Reserves memory for the buffers, and spills the largest ones until that succeeds.
    fn make_room(&mut self) -> Result<()> {
        loop {
            let buffered: usize = self.buffers.iter().map(PartitionBuffer::bytes).sum();
            if self.task.budget.try_resize(self.joined.saturating_add(buffered)) {
                return Ok(());
            }
            match self.buffers.iter_mut().max_by_key(|buffer| buffer.bytes()) {
                Some(buffer) if buffer.bytes() > 0 => buffer.spill(&self.task.probe_files, "probe side of a join")?,
                _ => return Ok(()),
            }
        }
    }

    /// Releases the memory of the join of the resident partitions, which has ended.
    pub(super) fn release_joined(&mut self) -> Result<()> {
        self.joined = 0;
        self.make_room()
    }

    /// Ends the files. Returns the rows of each partition; `None` for a partition without rows in a
    /// file.
    pub(super) fn finish(&mut self) -> Result<Vec<Option<SpilledRows>>> {
        let buffers = std::mem::take(&mut self.buffers);
        let spilled = (buffers.into_iter())
            .map(|buffer| match buffer.finish()? {
                Finished::Spilled(rows) => Ok(Some(rows)),
                Finished::Resident(_) => Ok(None),
            })
            .collect();
        self.task.budget.shrink_to(self.joined);
        spilled
    }
}

/// Streams the rows of resident partitions. When the join first polls the stream, its hash table is
/// built, so the memory that was needed to build it is released.
pub(super) fn resident_rows(router: &Arc<Mutex<ProbeRouter>>, task: &Task) -> SendableRecordBatchStream {
    let router = Arc::clone(router);
    let budget = Arc::clone(&task.budget);
    let stream = async_try_stream(|mut emitter| async move {
        budget.shrink_to(router.lock().await.joined);
        loop {
            let batch = router.lock().await.next_resident().await?;
            match batch {
                Some(batch) => emitter.emit(batch).await,
                None => return Ok(()),
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(task.spec.probe_schema(), stream))
}
