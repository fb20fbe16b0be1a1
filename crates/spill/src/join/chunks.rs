//! Joins of pairs that hashing cannot make smaller, such as rows with a single key: in chunks that
//! fit into memory.
//!
//! A hash table is built for one chunk of a side after the other, and the other side is read again
//! for each chunk. That is correct if each row of the chunked side can be processed independently:
//! its output depends only on its matches, and the whole other side is read for its chunk. So inner
//! and left joins chunk the build side, and right joins the probe side. A full join is a left join,
//! followed by the rows of the probe side without a match.

use arrow::array::new_null_array;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::utils::memory::RecordBatchMemoryCounter;
use datafusion_common::{JoinType, Result};
use datafusion_execution::SendableRecordBatchStream;
use futures::stream::Fuse;
use futures::{StreamExt, TryStreamExt};

use super::file::SpilledRows;
use super::input::stream_of;
use super::output::Output;
use super::spec::{JoinSpec, Task};

/// Joins the rows of `build` and `probe`; `probe` is `None` if it has no rows.
pub(super) async fn join_in_chunks(
    task: &Task,
    build: SpilledRows,
    probe: Option<SpilledRows>,
    output: &mut Output,
) -> Result<()> {
    let spec = &task.spec;
    let of_build = |join_type| {
        let probe = &probe;
        move |batches| {
            let probe = match probe {
                Some(probe) => probe.read()?,
                None => stream_of(spec.probe_schema(), vec![]),
            };
            spec.join_as(join_type, batches, probe)
        }
    };
    let of_probe = |join_type, whole| {
        let build = &build;
        move |batches| spec.join_swapped(join_type, whole, build.read()?, batches)
    };
    let window = build.batch_bytes.saturating_add(probe.as_ref().map_or(0, |probe| probe.batch_bytes));

    match (spec.join_type(), &probe) {
        (JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark, None) => Ok(()),
        (
            join_type @ (JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark),
            Some(probe),
        ) => {
            let mut chunks = Chunks::open(task, probe, window)?;
            while let Some(join) = chunks.next(of_probe(join_type, false)).await? {
                output.emit_all(join).await?;
            }
            Ok(())
        }
        (JoinType::Inner, Some(probe)) if probe.bytes < build.bytes => {
            let mut chunks = Chunks::open(task, probe, window)?;
            while let Some(join) = chunks.next(of_probe(JoinType::Inner, false)).await? {
                output.emit_all(join).await?;
            }
            Ok(())
        }
        (JoinType::Full, probe) => {
            let mut chunks = Chunks::open(task, &build, window)?;
            while let Some(join) = chunks.next(of_build(JoinType::Left)).await? {
                output.emit_all(join).await?;
            }
            let Some(probe) = probe else { return Ok(()) };
            let mut chunks = Chunks::open(task, probe, window)?;
            while let Some(mut unmatched) = chunks.next(of_probe(JoinType::RightAnti, true)).await? {
                while let Some(batch) = unmatched.try_next().await? {
                    output.emit(without_match(spec, &batch)?).await?;
                }
            }
            Ok(())
        }
        (join_type, _) => {
            let mut chunks = Chunks::open(task, &build, window)?;
            while let Some(join) = chunks.next(of_build(join_type)).await? {
                output.emit_all(join).await?;
            }
            Ok(())
        }
    }
}

/// Returns the output rows of a full join for `probe` rows without a match.
fn without_match(spec: &JoinSpec, probe: &RecordBatch) -> Result<RecordBatch> {
    let rows = probe.num_rows();
    let join = spec.template();
    let build = spec.build_schema();
    let nulls = build.fields().iter().map(|field| new_null_array(field.data_type(), rows));
    let columns = nulls.chain(probe.columns().iter().cloned()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(join.join_schema().clone(), columns, &options)?;
    match &join.projection {
        Some(projection) => Ok(batch.project(projection)?),
        None => Ok(batch),
    }
}

/// Reads a file in chunks: as many rows as fit into memory, and at least one batch of the file.
struct Chunks<'a> {
    task: &'a Task,
    rows: Fuse<SendableRecordBatchStream>,
    /// The first batch of the next chunk, if it was already read.
    next: Option<RecordBatch>,
    /// The number of bytes reserved for reading files, in addition to a chunk.
    window: usize,
}

impl<'a> Chunks<'a> {
    fn open(task: &'a Task, rows: &SpilledRows, window: usize) -> Result<Self> {
        Ok(Self { task, rows: rows.read()?.fuse(), next: None, window })
    }

    /// Reads the next chunk and passes it to `join`, whose result is returned; `None` at the end of
    /// the file. Expects that the stream returned before has ended, since its memory is released.
    async fn next(
        &mut self,
        join: impl FnOnce(Vec<RecordBatch>) -> Result<SendableRecordBatchStream>,
    ) -> Result<Option<SendableRecordBatchStream>> {
        self.task.budget.shrink_to(0);
        let mut counter = RecordBatchMemoryCounter::new();
        let (mut chunk, mut rows) = (vec![], 0);
        loop {
            let batch = match self.next.take() {
                Some(batch) => Some(batch),
                None => self.rows.try_next().await?,
            };
            let Some(batch) = batch else { break };
            counter.count_batch(&batch);
            rows += batch.num_rows();
            let needed = self.task.spec.memory.building(counter.memory_usage(), rows).saturating_add(self.window);
            let fits = self.task.budget.try_resize(needed);
            if fits || chunk.is_empty() {
                chunk.push(batch);
            } else {
                self.next = Some(batch);
            }
            if !fits {
                break;
            }
        }
        if chunk.is_empty() { Ok(None) } else { join(chunk).map(Some) }
    }
}
