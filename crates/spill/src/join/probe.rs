//! The probe side of a build side that has spilled: rows of spilled partitions go to files, too.

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

/// Distributes the rows of a probe side: those of resident partitions are handed out, those of
/// spilled ones are written to files.
pub(super) struct ProbeRouter {
    task: Task,
    probe: SendableRecordBatchStream,
    partitioner: Partitioner,
    /// Where the rows of each partition go: to the buffer of the same number, or beyond them.
    targets: [usize; PARTITIONS],
    /// The buffers of spilled partitions; those of others stay empty.
    buffers: Vec<PartitionBuffer>,
    /// Bytes that are reserved beside the buffers: the join of the resident partitions.
    joined: usize,
}

impl ProbeRouter {
    /// Makes a router for the rows of `probe`, with the partitions of `level`, of which those with
    /// `spilled` rows have files.
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

    /// Reads on until there are rows of resident partitions, and returns them; none at the end.
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

    /// Reserves the memory of the buffers, after writing the largest until there is enough.
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

    /// Notes that the join of the resident partitions has ended, and its memory is free.
    pub(super) fn release_joined(&mut self) -> Result<()> {
        self.joined = 0;
        self.make_room()
    }

    /// Ends the files, and returns the rows of each partition that has some.
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

/// The rows of resident partitions as a stream. The first time it is asked for some, the join that
/// asks has its hash table, and no longer needs what it was made of.
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
