//! One execution of a join: the state that its output partitions share, and the work of each of
//! them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion_common::{DataFusionError, JoinType, Result, plan_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, TryEmitter, async_try_stream};
use datafusion_physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use parking_lot::Mutex;

use super::budget::Budget;
use super::build::{Build, BuildRows, PartitionedBuild, read_build, spill_all};
use super::input::{StreamInput, on_first_poll};
use super::output::Output;
use super::pairs::join_spilled;
use super::spec::{JoinSpec, Task};

/// One execution of a join, in which each output partition is executed once.
pub(super) struct Run {
    /// The join as planned.
    planned: Arc<HashJoinExec>,
    /// The same join over the inputs `build` and `probe`, which joins what fits into memory. All
    /// partitions share it, so that their parts of the dynamic filter are combined. If the stream
    /// of a partition is dropped, the filter passes all rows for that partition.
    in_memory: HashJoinExec,
    build: Arc<StreamInput>,
    probe: Arc<StreamInput>,
    spec: Arc<JoinSpec>,
    context: Arc<TaskContext>,
    /// True once a memory reservation failed in any partition.
    short: Arc<AtomicBool>,
    /// The build side, if all partitions share it.
    shared: Option<SharedBuild>,
}

type SharedBuild = Shared<BoxFuture<'static, Result<Arc<Collected>, Arc<DataFusionError>>>>;

/// A build side that all output partitions share, after it was read.
enum Collected {
    /// It is in memory, as the input of the join. Once the hash table is built, `joined` bytes are
    /// in use.
    Fits { task: Task, joined: usize },
    /// It was partitioned and spilled. Each output partition takes its element of `builds`; one
    /// without an element has no output.
    Spilled { task: Task, builds: Mutex<Vec<Option<PartitionedBuild>>> },
}

impl Run {
    /// Starts an execution of `planned` in `context`. The spilling of a shared build side is
    /// counted in `metrics`.
    pub(super) fn begin(
        planned: &Arc<HashJoinExec>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Self> {
        let build = StreamInput::in_place_of(planned.left());
        let probe = StreamInput::in_place_of(planned.right());
        let mut in_memory = (planned.builder().reset_state())
            .with_new_children(vec![Arc::clone(&build) as _, Arc::clone(&probe) as _])?
            .build()?;
        let filter = dynamic_filter(planned);
        if let Some(filter) = &filter {
            in_memory = in_memory.with_dynamic_filter_expr(Arc::clone(filter))?;
        }
        let mut run = Self {
            planned: Arc::clone(planned),
            in_memory,
            build,
            probe,
            spec: Arc::new(JoinSpec::new(planned, context)?),
            context: Arc::clone(context),
            short: Arc::default(),
            shared: None,
        };
        if *planned.partition_mode() == PartitionMode::CollectLeft {
            run.shared = Some(run.collect(filter, metrics)?);
        }
        Ok(run)
    }

    /// Returns the metrics of the joins in memory, for the partitions that were executed so far.
    pub(super) fn metrics(&self) -> MetricsSet {
        self.in_memory.metrics().unwrap_or_default()
    }

    /// Returns the number of output partitions, which is that of the probe side.
    fn partitions(&self) -> usize {
        self.planned.right().output_partitioning().partition_count()
    }

    /// Executes output `partition`. Its spilling is counted in `metrics`.
    pub(super) fn execute(
        self: &Arc<Self>,
        partition: usize,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        // A scan of a far server begins to read here, while the build side is read.
        let probe = match self.one_for_all() && self.partitions() > 1 {
            true => None,
            false => Some(self.planned.right().execute(partition, Arc::clone(&self.context))?),
        };
        let execution = Execution {
            run: Arc::clone(self),
            partition,
            in_memory: self.in_memory.execute(partition, self.spec.context())?,
            probe,
            rows: BaselineMetrics::new(metrics, partition),
        };
        let schema = self.planned.schema();
        let task = || {
            let name = format!("HybridHashJoin[{partition}]");
            self.task(name, self.partitions(), SpillMetrics::new(metrics, partition))
        };
        let Some(shared) = self.shared.clone() else {
            let build = self.planned.left().execute(partition, Arc::clone(&self.context))?;
            let task = task();
            let stream = async_try_stream(|emitter| execution.own_build(build, task, emitter).boxed());
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)));
        };
        // Only a partition that joins files independently has a separate memory budget.
        let task = (!self.one_for_all()).then(task);
        let stream = async_try_stream(|emitter| execution.shared_build(shared, task, emitter).boxed());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    /// Creates a task named `name`, one of `count` that need memory at the same time.
    fn task(&self, name: String, count: usize, metrics: SpillMetrics) -> Task {
        let budget = Budget::new(name, &self.context, count, Arc::clone(&self.short));
        Task::new(Arc::clone(&self.spec), budget, &self.context, metrics)
    }

    /// Returns whether a shared build side that has spilled is joined in output partition 0, with
    /// the probe rows of all partitions.
    ///
    /// It is if the join emits rows of the build side, since each of them must be emitted once.
    /// Otherwise each partition joins its own probe rows with the files, and their rows stay in
    /// that partition.
    fn one_for_all(&self) -> bool {
        self.partitions() == 1 || !is_by_probe_rows(self.spec.join_type())
    }

    /// Starts to read the build side that all partitions share.
    fn collect(
        &self,
        filter: Option<Arc<DynamicFilterPhysicalExpr>>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SharedBuild> {
        let input = self.planned.left().execute(0, Arc::clone(&self.context))?;
        let task = self.task("HybridHashJoin".to_string(), 1, SpillMetrics::new(metrics, 0));
        let build_input = Arc::clone(&self.build);
        let (one_for_all, partitions) = (self.one_for_all(), self.partitions());
        let collected = async move {
            let build = match read_build(&task, input, 0, 0).await? {
                Build::Fits(BuildRows { batches, rows, bytes }) => {
                    build_input.set_batches(0, batches);
                    let joined = task.spec.memory.joined(bytes, rows);
                    return Ok::<_, DataFusionError>(Arc::new(Collected::Fits { task, joined }));
                }
                Build::Partitioned(build) => build,
            };
            // No partition reports its part of the filter, so the filter stays TRUE and must not be
            // waited for.
            if let Some(filter) = filter {
                filter.mark_complete();
            }
            let builds = if one_for_all {
                vec![Some(build)]
            } else {
                let build = spill_all(&task, build)?;
                (0..partitions).map(|_| Some(build.clone_of_files())).collect()
            };
            Ok(Arc::new(Collected::Spilled { task, builds: Mutex::new(builds) }))
        };
        Ok(collected.map_err(Arc::new).boxed().shared())
    }
}

/// The execution of one output partition.
struct Execution {
    run: Arc<Run>,
    partition: usize,
    /// The output of the join in memory. If the build side fits into memory, it is polled after its
    /// inputs are set.
    in_memory: SendableRecordBatchStream,
    /// The probe rows of the partition; `None` if they may be joined with those of all partitions.
    probe: Option<SendableRecordBatchStream>,
    rows: BaselineMetrics,
}

type Emitter = TryEmitter<arrow::record_batch::RecordBatch, DataFusionError>;

impl Execution {
    /// Joins a build side that only this partition has.
    async fn own_build(mut self, build: SendableRecordBatchStream, task: Task, emitter: Emitter) -> Result<()> {
        match read_build(&task, build, 0, 0).await? {
            Build::Fits(BuildRows { batches, rows, bytes }) => {
                self.run.build.set_batches(self.partition, batches);
                let joined = task.spec.memory.joined(bytes, rows);
                self.join_in_memory(&task, joined, emitter).await
            }
            Build::Partitioned(build) => {
                let probe = self.probe()?;
                self.join_spilled(&task, build, probe, emitter).await
            }
        }
    }

    /// Joins a build side that all partitions share. `task` has the memory of this partition, if
    /// each partition joins the spilled files independently.
    async fn shared_build(mut self, shared: SharedBuild, task: Option<Task>, emitter: Emitter) -> Result<()> {
        let collected = shared.await.map_err(DataFusionError::Shared)?;
        match collected.as_ref() {
            Collected::Fits { task, joined } => self.join_in_memory(task, *joined, emitter).await,
            Collected::Spilled { task: shared, builds } => {
                let Some(build) = builds.lock().get_mut(self.partition).and_then(Option::take) else {
                    return Ok(());
                };
                let (probe, task) = match &task {
                    Some(task) => (self.probe()?, task),
                    None => (self.all_probes()?, shared),
                };
                self.join_spilled(task, build, probe, emitter).await
            }
        }
    }

    /// Returns the probe rows of the partition.
    fn probe(&mut self) -> Result<SendableRecordBatchStream> {
        match self.probe.take() {
            Some(probe) => Ok(probe),
            None => self.run.planned.right().execute(self.partition, Arc::clone(&self.run.context)),
        }
    }

    /// Returns the probe rows of all partitions.
    fn all_probes(&mut self) -> Result<SendableRecordBatchStream> {
        if self.run.partitions() == 1 {
            return self.probe();
        }
        let probe = CoalescePartitionsExec::new(Arc::clone(self.run.planned.right()));
        probe.execute(0, Arc::clone(&self.run.context))
    }

    /// Joins a build side that is already set as the input. Once the hash table is built, `joined`
    /// bytes stay reserved.
    async fn join_in_memory(mut self, task: &Task, joined: usize, mut emitter: Emitter) -> Result<()> {
        let budget = Arc::clone(&task.budget);
        let probe = on_first_poll(self.probe()?, move || budget.shrink_to(joined));
        self.run.probe.set(self.partition, probe);
        while let Some(batch) = self.in_memory.try_next().await? {
            emitter.emit(batch).await;
        }
        Ok(())
    }

    async fn join_spilled(
        self,
        task: &Task,
        build: PartitionedBuild,
        probe: SendableRecordBatchStream,
        emitter: Emitter,
    ) -> Result<()> {
        let Self { run, in_memory, rows, .. } = self;
        // Dropped, so that the dynamic filter does not wait for this partition.
        drop(in_memory);
        let planned = &run.planned;
        let mut output = Output::new(emitter, planned.schema(), planned.fetch(), rows);
        join_spilled(task, build, probe, &mut output).await
    }
}

/// Returns whether every output row of a join of this type comes from one probe row, so that the
/// output partitions are those of the probe side.
fn is_by_probe_rows(join_type: JoinType) -> bool {
    match join_type {
        JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => true,
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => false,
    }
}

/// Returns the dynamic filter that `join` builds for its probe side.
fn dynamic_filter(join: &HashJoinExec) -> Option<Arc<DynamicFilterPhysicalExpr>> {
    let filter = join.dynamic_expressions_produced().into_iter().next()?;
    (filter as Arc<dyn Any + Send + Sync>).downcast().ok()
}

/// Returns an error that says why if a [`Run`] cannot execute `join`.
pub(super) fn check(join: &HashJoinExec) -> Result<()> {
    if join.null_aware {
        return plan_err!("a null-aware anti join cannot be partitioned: use HashJoinExec");
    }
    if *join.partition_mode() == PartitionMode::Auto {
        return plan_err!("a hash join must have a partition mode other than Auto before it can spill");
    }
    Ok(())
}
