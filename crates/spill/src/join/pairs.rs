//! Joins of pairs of files: the spilled rows of one partition of both sides.

use std::sync::Arc;

use datafusion_common::{JoinType, Result};
use datafusion_execution::SendableRecordBatchStream;
use tokio::sync::Mutex;

use super::build::{Build, BuildRows, PartitionedBuild, read_build};
use super::chunks;
use super::file::SpilledRows;
use super::input::on_first_poll;
use super::output::Output;
use super::partition::LEVELS;
use super::probe::{ProbeRouter, resident_rows};
use super::spec::Task;

/// The spilled rows of one partition of both sides.
struct Pair {
    build: SpilledRows,
    /// The rows of the probe side; `None` if there are none.
    probe: Option<SpilledRows>,
    /// The level of the hash by which to partition the rows next; [`LEVELS`] if hashing does not
    /// help.
    level: usize,
}

/// Joins the rows of `build`, which are partitioned by the hash of level 0, with those of `probe`.
pub(super) async fn join_spilled(
    task: &Task,
    build: PartitionedBuild,
    probe: SendableRecordBatchStream,
    output: &mut Output,
) -> Result<()> {
    // A stack keeps the number of files low: the pairs of one partition are joined before the next
    // one.
    let mut pairs = join_resident(task, build, probe, 0, output).await?;
    while let Some(pair) = pairs.pop() {
        if output.is_done() {
            break;
        }
        pairs.extend(join_pair(task, pair, output).await?);
        task.budget.shrink_to(0);
    }
    Ok(())
}

/// Joins one pair, or partitions its rows further and returns the pairs that remain to be joined.
async fn join_pair(task: &Task, pair: Pair, output: &mut Output) -> Result<Vec<Pair>> {
    let Pair { build, probe, level } = pair;
    let probe = match probe {
        Some(probe) if level < LEVELS => probe,
        None if !puts_out_unmatched_build_rows(task.spec.join_type()) => return Ok(vec![]),
        probe => {
            Box::pin(chunks::join_in_chunks(task, build, probe, output)).await?;
            return Ok(vec![]);
        }
    };
    let rows = build.read()?;
    let window = build.batch_bytes.saturating_add(probe.batch_bytes);
    // The file is deleted as soon as its stream has ended.
    drop(build);
    let build = read_build(task, rows, level, window).await?;
    let probe = { probe }.read()?;
    match build {
        Build::Fits(build) => {
            join_rows(task, build, probe, window, output).await?;
            Ok(vec![])
        }
        Build::Partitioned(build) => join_resident(task, build, probe, level, output).await,
    }
}

/// Joins the rows of `build`, which are in memory, with those of `probe`. During the join, `window`
/// bytes stay reserved for reading files.
async fn join_rows(
    task: &Task,
    build: BuildRows,
    probe: SendableRecordBatchStream,
    window: usize,
    output: &mut Output,
) -> Result<()> {
    let joined = task.spec.memory.joined(build.bytes, build.rows).saturating_add(window);
    let budget = Arc::clone(&task.budget);
    let probe = on_first_poll(probe, move || budget.shrink_to(joined));
    output.emit_all(task.spec.join(build.batches, probe)?).await
}

/// Joins the resident partitions of `build` with their rows of `probe`, and returns the pairs of
/// files of the spilled partitions. `level` is the level of the hash by which `build` is
/// partitioned.
async fn join_resident(
    task: &Task,
    build: PartitionedBuild,
    probe: SendableRecordBatchStream,
    level: usize,
    output: &mut Output,
) -> Result<Vec<Pair>> {
    let rows = build.rows();
    let PartitionedBuild { resident, spilled } = build;
    let joined = task.spec.memory.joined(resident.bytes, resident.rows);
    let router = ProbeRouter::new(task, probe, level, &spilled, joined);
    let router = Arc::new(Mutex::new(router));
    let join = task.spec.join(resident.batches, resident_rows(&router, task))?;
    output.emit_all(join).await?;
    if output.is_done() {
        return Ok(vec![]);
    }

    let mut router = router.lock().await;
    router.release_joined()?;
    // If the join ended early, it does not need the remaining resident rows.
    while router.next_resident().await?.is_some() {}
    let probe = router.finish()?;
    let pairs = spilled.into_iter().zip(probe).filter_map(|(build, probe)| {
        let build = build?;
        // Rows with equal keys stay together with every hash, so the pair may not have become
        // smaller.
        let smaller = build.rows <= rows / 4 * 3;
        let level = if smaller { level + 1 } else { LEVELS };
        Some(Pair { build, probe, level })
    });
    Ok(pairs.collect())
}

/// Returns whether a join of this type emits rows of the build side without a match.
fn puts_out_unmatched_build_rows(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Left | JoinType::Full | JoinType::LeftAnti | JoinType::LeftMark)
}
