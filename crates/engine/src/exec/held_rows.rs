//! [`HeldRowsExec`]: accounts for the memory of rows that the operator above it holds until its
//! input ends.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{MemoryConsumer, human_readable_size};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::TryStreamExt;

use super::pass_through::{PassThroughExec, RowObserver};

/// Number of copies of its rows that the operator holds: the batches as they came, and their
/// concatenation.
const COPIES: usize = 2;

/// Operator that reserves memory for the rows of its input until its stream is dropped. It is
/// placed below DataFusion operators that hold all rows, cannot spill, and do not account for their
/// memory.
pub(crate) type HeldRowsExec = PassThroughExec<HeldRows>;

/// [`RowObserver`] that reserves memory for the rows that `operator` holds.
#[derive(Clone, Debug)]
pub(crate) struct HeldRows {
    operator: &'static str,
}

impl HeldRowsExec {
    /// Creates an operator that accounts for the rows of `input`, which the `operator` above it
    /// holds.
    pub(crate) fn new(operator: &'static str, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::of(input, HeldRows { operator })
    }
}

impl RowObserver for HeldRows {
    const NAME: &'static str = "HeldRowsExec";

    fn shown(&self) -> String {
        format!("{} holds all rows", self.operator)
    }

    fn watch(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        _partitions: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream {
        let operator = self.operator;
        let held = MemoryConsumer::new(format!("{operator}[{partition}]")).register(context.memory_pool());
        let schema = rows.schema();
        let rows = rows.and_then(move |batch: RecordBatch| {
            let reserved = held.try_grow(COPIES * batch.get_array_memory_size());
            let reserved = reserved.map(|()| batch).map_err(|error| cannot_spill(operator, held.size(), &error));
            async move { reserved }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

fn cannot_spill(operator: &str, held: usize, error: &DataFusionError) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "{operator} holds all of its rows, cannot spill them, and needs more than {}: {}",
        human_readable_size(held),
        error.strip_backtrace()
    ))
}

/// Returns `plan` with a [`HeldRowsExec`] over each of its inputs. `plan` is an `operator` that
/// holds all of its input rows.
pub(crate) fn with_held_rows(operator: &'static str, plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let inputs = plan
        .children()
        .into_iter()
        .map(|input| Arc::new(HeldRowsExec::new(operator, Arc::clone(input))) as Arc<dyn ExecutionPlan>);
    let inputs = inputs.collect();
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
