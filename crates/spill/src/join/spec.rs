//! Joins of a part of the rows: their common parameters, and how such a join is created.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion_common::{JoinType, Result};
use datafusion_execution::memory_pool::UnboundedMemoryPool;
use datafusion_execution::runtime_env::RuntimeEnv;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExprRef;
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::metrics::SpillMetrics;
use datafusion_physical_plan::{ExecutionPlan, SpillManager};

use super::budget::{Budget, JoinMemory};
use super::input::StreamInput;

/// The common parameters of the joins of all parts of the rows.
pub(super) struct JoinSpec {
    /// The join, without the limit and the dynamic filter of the whole join.
    template: HashJoinExec,
    /// The context in which these joins run. Its memory pool is unbounded, since their memory is
    /// reserved beforehand, see [`JoinMemory`].
    context: Arc<TaskContext>,
    /// Estimates how much memory a join needs.
    pub(super) memory: JoinMemory,
    /// The number of rows of a batch.
    pub(super) batch_size: usize,
}

impl JoinSpec {
    /// Takes the join's parameters from `join` and the settings from `context`.
    pub(super) fn new(join: &HashJoinExec, context: &TaskContext) -> Result<Self> {
        let template =
            (join.builder().reset_state()).with_fetch(None).with_partition_mode(PartitionMode::Partitioned).build()?;
        let config = context.session_config();
        Ok(Self {
            template,
            context: without_limit(context),
            memory: JoinMemory::new(config.options()),
            batch_size: config.batch_size(),
        })
    }

    /// Returns the context for a join whose memory is already reserved.
    pub(super) fn context(&self) -> Arc<TaskContext> {
        Arc::clone(&self.context)
    }

    /// The kind of the join.
    pub(super) fn join_type(&self) -> JoinType {
        *self.template.join_type()
    }

    /// Returns the join without limit and dynamic filter.
    pub(super) fn template(&self) -> &HashJoinExec {
        &self.template
    }

    /// The schema of the build side.
    pub(super) fn build_schema(&self) -> SchemaRef {
        self.template.left().schema()
    }

    /// The schema of the probe side.
    pub(super) fn probe_schema(&self) -> SchemaRef {
        self.template.right().schema()
    }

    /// The keys of the build side.
    pub(super) fn build_keys(&self) -> Vec<PhysicalExprRef> {
        self.template.on().iter().map(|(build, _)| Arc::clone(build)).collect()
    }

    /// The keys of the probe side.
    pub(super) fn probe_keys(&self) -> Vec<PhysicalExprRef> {
        self.template.on().iter().map(|(_, probe)| Arc::clone(probe)).collect()
    }

    /// Joins the `build` rows with those of `probe`.
    pub(super) fn join(
        &self,
        build: Vec<RecordBatch>,
        probe: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        self.join_as(self.join_type(), build, probe)
    }

    /// Like [`Self::join`], with another `join_type` that has the same columns.
    pub(super) fn join_as(
        &self,
        join_type: JoinType,
        build: Vec<RecordBatch>,
        probe: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        let (left, right) = self.inputs();
        left.set_batches(0, build);
        right.set(0, probe);
        let join = (self.template.builder().reset_state())
            .with_type(join_type)
            .with_new_children(vec![left, right])?
            .build()?;
        join.execute(0, self.context())
    }

    /// Joins the rows of `build` with the `probe` rows, with the hash table built from `probe`. The
    /// join has the type `join_type`, and no projection if `whole` is true.
    pub(super) fn join_swapped(
        &self,
        join_type: JoinType,
        whole: bool,
        build: SendableRecordBatchStream,
        probe: Vec<RecordBatch>,
    ) -> Result<SendableRecordBatchStream> {
        let (left, right) = self.inputs();
        left.set(0, build);
        right.set_batches(0, probe);
        let mut builder = self.template.builder().reset_state().with_type(join_type);
        if whole {
            builder = builder.with_projection(None);
        }
        let join = builder.with_new_children(vec![left, right])?.build()?;
        join.swap_inputs(PartitionMode::Partitioned)?.execute(0, self.context())
    }

    fn inputs(&self) -> (Arc<StreamInput>, Arc<StreamInput>) {
        (StreamInput::single(self.build_schema()), StreamInput::single(self.probe_schema()))
    }
}

/// Returns a copy of `context` whose memory pool is unbounded.
fn without_limit(context: &TaskContext) -> Arc<TaskContext> {
    let runtime =
        RuntimeEnv { memory_pool: Arc::new(UnboundedMemoryPool::default()), ..context.runtime_env().as_ref().clone() };
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    ))
}

/// The resources of one output partition while it joins: the join, its memory, and its files.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) spec: Arc<JoinSpec>,
    pub(super) budget: Arc<Budget>,
    pub(super) build_files: SpillManager,
    pub(super) probe_files: SpillManager,
}

impl Task {
    /// Creates the task of a partition, which counts its spilling in `metrics`.
    pub(super) fn new(spec: Arc<JoinSpec>, budget: Budget, context: &TaskContext, metrics: SpillMetrics) -> Self {
        let compression = context.session_config().spill_compression();
        let files = |schema| {
            SpillManager::new(context.runtime_env(), metrics.clone(), schema).with_compression_type(compression)
        };
        let (build_files, probe_files) = (files(spec.build_schema()), files(spec.probe_schema()));
        Self { spec, budget: Arc::new(budget), build_files, probe_files }
    }
}
