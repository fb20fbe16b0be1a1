//! Inputs of a `HashJoinExec` whose streams are set while it runs.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

/// An input whose partitions are streams. Each must be set once, by [`Self::set`], before it is
/// polled.
pub(super) struct StreamInput {
    properties: Arc<PlanProperties>,
    /// The plan whose output the streams are, for code that looks for dynamic filters in it.
    plan: Option<Arc<dyn ExecutionPlan>>,
    streams: Arc<[Mutex<Option<SendableRecordBatchStream>>]>,
}

impl StreamInput {
    /// Creates an input that replaces `plan`, with the same partitions and properties.
    pub(super) fn in_place_of(plan: &Arc<dyn ExecutionPlan>) -> Arc<Self> {
        let properties = Arc::clone(plan.properties());
        Arc::new(Self::new(properties, Some(Arc::clone(plan))))
    }

    /// Creates an input with one partition and this `schema`.
    pub(super) fn single(schema: SchemaRef) -> Arc<Self> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Self::new(Arc::new(properties), None))
    }

    fn new(properties: Arc<PlanProperties>, plan: Option<Arc<dyn ExecutionPlan>>) -> Self {
        let streams = (0..properties.partitioning.partition_count()).map(|_| Mutex::new(None)).collect();
        Self { properties, plan, streams }
    }

    /// Sets the `stream` of `partition`.
    pub(super) fn set(&self, partition: usize, stream: SendableRecordBatchStream) {
        if let Some(place) = self.streams.get(partition) {
            *place.lock() = Some(stream);
        }
    }

    /// Sets a stream of `batches` for `partition`. The stream drops each batch after returning it.
    pub(super) fn set_batches(&self, partition: usize, batches: Vec<RecordBatch>) {
        self.set(partition, stream_of(self.schema(), batches));
    }
}

/// Creates a stream of `batches` with `schema`.
pub(super) fn stream_of(schema: SchemaRef, batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches).map(Ok)))
}

impl Debug for StreamInput {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamInput").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for StreamInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("StreamInput")
    }
}

impl ExecutionPlan for StreamInput {
    fn name(&self) -> &str {
        "StreamInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plan.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("an input of a running join cannot be changed")
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let streams = Arc::clone(&self.streams);
        let opened = async move {
            let stream = streams.get(partition).and_then(|place| place.lock().take());
            stream
                .ok_or_else(|| exec_datafusion_err!("input partition {partition} of a join was not set, or read twice"))
        };
        let stream = stream::once(opened).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// Returns `stream`, which calls `action` before it is first polled.
pub(super) fn on_first_poll(
    stream: SendableRecordBatchStream,
    action: impl FnOnce() + Send + 'static,
) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let stream = stream::once(async move {
        action();
        Ok::<_, DataFusionError>(stream)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream.try_flatten()))
}
