//! The contestants, which differ in the operators that run a query.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use datafusion::common::config::{ConfigNonZeroUsize, SpillCompression};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use pushdowndb_spill::files::{DiskOptions, QueryOptions, QuerySpill, RemoteStore, SpillProcess, SpillUsage};
use pushdowndb_spill::memory::SharedMemoryPool;

use super::answer::Answer;
use super::before::Blocks;
use super::counted::Requests;
use super::data::TABLES;
use super::measure::{Measured, Spilled, Work};
use super::operators::{Operators, Replace};
use super::place::{Client, folder_client};
use super::queries::Operator;
use super::{duckdb, threads};
use crate::contestant::process::own_cpu;

/// Bytes of memory per row of a batch, from which the size of batches is derived.
const MEMORY_BYTES_PER_BATCH_ROW: u64 = 8192;

/// The range for the number of rows in a batch.
const MIN_BATCH_ROWS: u64 = 128;
const MAX_BATCH_ROWS: u64 = 8192;

/// Divides the memory to get the maximum that DataFusion's sort reserves for merging.
const MERGE_DIVISOR: u64 = 32;

/// Maximum files that DataFusion's operators merge at once.
const FAN_IN: usize = 16;

/// Maximum bytes that wait to be written, and that are read ahead, in units of parts.
const BUFFERED_PARTS: u64 = 8;

/// A way to run a query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Contestant {
    /// The sort by blocks; all other operators are DataFusion's.
    Before,
    /// DataFusion's operators, which spill to the files of `pushdowndb-spill`.
    DataFusion,
    /// The operators of `pushdowndb-spill`; all others are DataFusion's.
    Ours,
    DuckDb,
}

impl Contestant {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Before, Self::DataFusion, Self::Ours, Self::DuckDb];

    /// Its name in tables and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::DataFusion => "datafusion",
            Self::Ours => "ours",
            Self::DuckDb => "duckdb",
        }
    }

    /// Whether the contestant can be measured with a query that spills in this `operator`.
    pub fn takes(self, operator: Operator) -> bool {
        self != Self::Before || operator == Operator::Sort
    }

    /// Runs the query and consumes its answer batch by batch. Spilled data is deleted afterwards,
    /// which is not part of the measured time.
    pub fn run(self, work: &Work) -> Result<Measured> {
        fs::create_dir_all(&work.disk).with_context(|| work.disk.display().to_string())?;
        let work = work.clone();
        match self {
            Self::Before => threads::run(work.threads, async move { by_blocks(&work).await }),
            Self::DataFusion => threads::run(work.threads, async move { by_files(&work, Operators::DataFusion).await }),
            Self::Ours => threads::run(work.threads, async move { by_files(&work, Operators::Ours).await }),
            Self::DuckDb => duckdb::run(&work),
        }
    }
}

/// Runs the contestant `before`.
async fn by_blocks(work: &Work) -> Result<Measured> {
    let client = work.place.client()?;
    let Client { store, prefix, .. } = match client {
        Some(client) => client,
        None => folder_client(&work.disk.join("blocks"))?,
    };
    let prefix = prefix.join(format!("{:016x}", query_id()?));
    let blocks = Arc::new(Blocks::new(Arc::new(store.clone()), prefix, work.block_bytes));
    let none = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let session = session(work, none, Operators::Blocks(Arc::clone(&blocks), work.fan_in));
    let measured = measured(work, session?).await;
    let cleaned = blocks.clean().await;
    // The error of the query takes precedence over that of the clean-up.
    let measured = measured?;
    cleaned?;
    let Requests { puts, gets, deletes, lists, written_bytes, read_bytes } = store.requests();
    let wait_s = blocks.waited().as_secs_f64();
    let spilled = Spilled { wait_s, written_bytes, read_bytes, puts, gets, deletes, lists };
    Ok(Measured { spilled: Some(spilled), ..measured })
}

/// Runs the contestants that spill to the files of `pushdowndb-spill`.
async fn by_files(work: &Work, operators: Operators) -> Result<Measured> {
    let client = work.place.client()?;
    let process = SpillProcess::new(DiskOptions { folder: work.disk.clone(), ..DiskOptions::default() });
    let remote = client.as_ref().map(|client| RemoteStore {
        store: Arc::new(client.store.clone()),
        prefix: client.prefix.clone(),
        url: client.url.clone(),
    });
    let options = QueryOptions {
        disk: remote.is_none(),
        remote,
        part_bytes: work.part_bytes,
        buffer_bytes: work.part_bytes as u64 * BUFFERED_PARTS,
        ..QueryOptions::default()
    };
    let spill = QuerySpill::new(&process, &options)?;
    let meter = spill.meter();
    let files = DiskManagerBuilder::default()
        .with_temp_file_factory(Arc::new(spill.clone()))
        .with_max_spill_merge_fan_in(FAN_IN);
    let session = session(work, files, operators);
    drop(spill);
    let measured = measured(work, session?).await;
    process.settle().await;
    let measured = measured?;
    let usage = meter.usage();
    let spilled = match client {
        Some(client) => uploaded(&usage, client.store.requests())?,
        None => on_disk(&usage),
    };
    Ok(Measured { spilled: Some(spilled), ..measured })
}

fn on_disk(usage: &SpillUsage) -> Spilled {
    Spilled {
        wait_s: (usage.write_wait + usage.read_wait).as_secs_f64(),
        written_bytes: usage.disk_bytes_written,
        read_bytes: usage.disk_bytes_read,
        puts: usage.parts_written,
        gets: usage.parts_read,
        deletes: 0,
        lists: 0,
    }
}

/// The requests that a store has counted. They must equal the count of the spill files, which holds
/// if no request failed.
fn uploaded(usage: &SpillUsage, requests: Requests) -> Result<Spilled> {
    let Requests { puts, gets, deletes, lists, written_bytes, read_bytes } = requests;
    let counted = (usage.puts, usage.gets, usage.deletes);
    ensure!((puts, gets, deletes) == counted, "{counted:?} requests were counted by files, and {requests:?} sent");
    let wait_s = (usage.write_wait + usage.read_wait).as_secs_f64();
    Ok(Spilled { wait_s, written_bytes, read_bytes, puts, gets, deletes, lists })
}

/// Creates a DataFusion session with the limits of `work`, which are the same for all contestants
/// in this program.
fn session(work: &Work, files: DiskManagerBuilder, operators: Operators) -> Result<SessionContext> {
    let pool = Arc::new(SharedMemoryPool::new(usize::try_from(work.memory)?));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(files).build_arc()?;
    let mut config = SessionConfig::new().with_target_partitions(work.threads);
    let options = config.options_mut();
    let execution = &mut options.execution;
    let rows = (work.memory / MEMORY_BYTES_PER_BATCH_ROW).clamp(MIN_BATCH_ROWS, MAX_BATCH_ROWS);
    execution.batch_size = ConfigNonZeroUsize::try_new(usize::try_from(rows)?)?;
    execution.spill_compression = SpillCompression::Lz4Frame;
    let merge = usize::try_from(work.memory / MERGE_DIVISOR)?;
    execution.sort_spill_reservation_bytes = execution.sort_spill_reservation_bytes.min(merge);
    execution.sort_in_place_threshold_bytes = execution.sort_in_place_threshold_bytes.min(merge);
    // Makes rows of 200 bytes, as Databend's; string views would add a quarter.
    execution.parquet.schema_force_view_types = false;
    // DataFusion's hash join fails if its build side does not fit into memory.
    options.optimizer.prefer_hash_join = !matches!(operators, Operators::DataFusion);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(Replace(operators)))
        .build();
    Ok(SessionContext::new_with_state(state))
}

/// Runs the query in `session`, which is then dropped.
async fn measured(work: &Work, session: SessionContext) -> Result<Measured> {
    for table in TABLES {
        let folder = format!("{}/", work.tables.join(table).display());
        session.register_parquet(table, folder, ParquetReadOptions::default()).await?;
    }
    let mut answer = Answer::empty();
    let (cpu, wall) = (own_cpu()?, Instant::now());
    let mut rows = session.sql(work.query.sql).await?.execute_stream().await?;
    while let Some(batch) = rows.try_next().await? {
        answer.add(&batch, &work.query.checked)?;
    }
    let (cpu_s, wall_s) = (own_cpu()? - cpu, wall.elapsed().as_secs_f64());
    Ok(Measured { wall_s, cpu_s, answer, spilled: None })
}

/// A number that is unique to this query, for its prefix.
fn query_id() -> Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(48))
}
