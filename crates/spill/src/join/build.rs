//! The build side: it is read into memory, and partitioned by hash if it does not fit.

use arrow::record_batch::RecordBatch;
use datafusion_common::Result;
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::EmptyRecordBatchStream;
use datafusion_physical_plan::spill::get_record_batch_memory_size;
use futures::TryStreamExt;

use super::buffer::{Finished, PartitionBuffer};
use super::file::SpilledRows;
use super::partition::{PARTITIONS, Partitioner, each_its_own};
use super::spec::Task;
use super::views::merged;

/// A build side that was read completely. The memory to build a hash table from the rows in memory
/// is reserved.
pub(super) enum Build {
    /// All of it is in memory.
    Fits(BuildRows),
    /// It was partitioned by hash, and some partitions were spilled.
    Partitioned(PartitionedBuild),
}

/// Rows of a build side in memory.
#[derive(Default)]
pub(super) struct BuildRows {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    /// Bytes of the buffers of all batches.
    pub(super) bytes: usize,
}

/// A build side of which some partitions were spilled to files.
pub(super) struct PartitionedBuild {
    /// The rows of all partitions that were not spilled.
    pub(super) resident: BuildRows,
    /// For each partition, its rows in a file; `None` if it was not spilled.
    pub(super) spilled: Vec<Option<SpilledRows>>,
}

impl PartitionedBuild {
    /// Returns the number of rows in memory and files together.
    pub(super) fn rows(&self) -> usize {
        self.resident.rows + self.spilled.iter().flatten().map(|spilled| spilled.rows).sum::<usize>()
    }

    /// Returns a copy that shares the files and has no rows in memory.
    pub(super) fn clone_of_files(&self) -> Self {
        Self { resident: BuildRows::default(), spilled: self.spilled.clone() }
    }
}

/// Reads the build side `input` to its end. If it does not fit into memory, its rows are
/// partitioned by the hash of `level`, and the largest partitions are spilled until the rest fits.
///
/// In addition, `window` bytes are reserved for the readers of files, if there is memory.
pub(super) async fn read_build(
    task: &Task,
    mut input: SendableRecordBatchStream,
    level: usize,
    window: usize,
) -> Result<Build> {
    let mut build = BuildRows::default();
    let mut counter = RecordBatchMemoryCounter::new();
    while let Some(batch) = input.try_next().await? {
        if batch.num_rows() == 0 {
            continue;
        }
        counter.count_batch(&batch);
        build.bytes = counter.memory_usage();
        build.rows += batch.num_rows();
        build.batches.push(batch);
        let bytes = task.spec.memory.building(build.bytes, build.rows).saturating_add(window);
        if !task.budget.try_resize(bytes) {
            drop(counter);
            return Ok(Build::Partitioned(partition_build(task, build.batches, input, level, window).await?));
        }
    }
    let Some(merged) = merged(&build.batches, build.rows)? else { return Ok(Build::Fits(build)) };
    // Values that several rows shared are copied for each of them.
    let mut counter = RecordBatchMemoryCounter::new();
    for batch in &merged {
        counter.count_batch(batch);
    }
    build = BuildRows { batches: merged, bytes: counter.memory_usage(), ..build };
    if !task.budget.try_resize(task.spec.memory.building(build.bytes, build.rows).saturating_add(window)) {
        let ended = Box::pin(EmptyRecordBatchStream::new(input.schema()));
        return Ok(Build::Partitioned(partition_build(task, build.batches, ended, level, window).await?));
    }
    Ok(Build::Fits(build))
}

/// Partitions the rows that were already `read` and the rest of `input`.
async fn partition_build(
    task: &Task,
    read: Vec<RecordBatch>,
    mut input: SendableRecordBatchStream,
    level: usize,
    window: usize,
) -> Result<PartitionedBuild> {
    let mut partitions = Partitions::new(task, level, window);
    // The memory reserved so far suffices for a copy of the rows that were read.
    for batch in read {
        partitions.add(&batch)?;
    }
    partitions.make_room()?;
    while let Some(batch) = input.try_next().await? {
        partitions.add(&batch)?;
        drop(batch);
        partitions.make_room()?;
    }
    partitions.finish()
}

/// The hash partitions of a build side that is being read.
struct Partitions<'a> {
    task: &'a Task,
    partitioner: Partitioner,
    buffers: Vec<PartitionBuffer>,
    window: usize,
}

impl<'a> Partitions<'a> {
    fn new(task: &'a Task, level: usize, window: usize) -> Self {
        let partitioner = Partitioner::new(task.spec.build_keys(), level);
        let buffers = (0..PARTITIONS).map(|_| PartitionBuffer::default()).collect();
        Self { task, partitioner, buffers, window }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let pieces = self.partitioner.split(batch, &each_its_own())?;
        for (buffer, piece) in self.buffers.iter_mut().zip(pieces) {
            if let Some(piece) = piece {
                buffer.push(piece, self.task.spec.batch_size)?;
            }
        }
        Ok(())
    }

    /// Reserves memory for the rows that are held, and spills the largest partitions until that
    /// succeeds. Batches that a spilled partition still collects count, too.
    fn make_room(&mut self) -> Result<()> {
        while !self.task.budget.try_resize(self.needed()) {
            let largest = self.buffers.iter_mut().max_by_key(|buffer| buffer.bytes());
            match largest {
                Some(buffer) if buffer.bytes() > 0 => buffer.spill(&self.task.build_files, "build side of a join")?,
                // Nothing is left in memory. Readers go on without a reservation.
                _ => {
                    self.task.budget.shrink_to(0);
                    break;
                }
            }
        }
        Ok(())
    }

    fn needed(&self) -> usize {
        let sum = |spilled: bool, of: fn(&PartitionBuffer) -> usize| -> usize {
            self.buffers.iter().filter(|buffer| buffer.is_spilled() == spilled).map(of).sum()
        };
        let join =
            self.task.spec.memory.building(sum(false, PartitionBuffer::bytes), sum(false, PartitionBuffer::rows));
        join.saturating_add(sum(true, PartitionBuffer::bytes)).saturating_add(self.window)
    }

    fn finish(mut self) -> Result<PartitionedBuild> {
        // Combining collected batches changes their size a little.
        for buffer in &mut self.buffers {
            buffer.settle()?;
        }
        self.make_room()?;
        let mut build = PartitionedBuild { resident: BuildRows::default(), spilled: vec![] };
        for buffer in self.buffers {
            build.spilled.push(match buffer.finish()? {
                Finished::Spilled(rows) => Some(rows),
                Finished::Resident(batches) => {
                    build.resident.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
                    build.resident.bytes += batches.iter().map(get_record_batch_memory_size).sum::<usize>();
                    build.resident.batches.extend(batches);
                    None
                }
            });
        }
        Ok(build)
    }
}

/// Writes all of `build` to files, partitioned by the hash of level 0.
pub(super) fn spill_all(task: &Task, build: PartitionedBuild) -> Result<PartitionedBuild> {
    let mut partitioner = Partitioner::new(task.spec.build_keys(), 0);
    let mut buffers: Vec<_> = (0..PARTITIONS).map(|_| PartitionBuffer::default()).collect();
    for batch in build.resident.batches {
        for (buffer, piece) in buffers.iter_mut().zip(partitioner.split(&batch, &each_its_own())?) {
            if let Some(piece) = piece {
                buffer.push(piece, task.spec.batch_size)?;
            }
        }
    }
    let mut spilled = build.spilled;
    for (buffer, spilled) in buffers.iter_mut().zip(&mut spilled) {
        if buffer.bytes() > 0 {
            buffer.spill(&task.build_files, "build side of a join")?;
            if let Finished::Spilled(rows) = std::mem::take(buffer).finish()? {
                *spilled = Some(rows);
            }
        }
    }
    task.budget.shrink_to(0);
    Ok(PartitionedBuild { resident: BuildRows::default(), spilled })
}
