//! A query that runs in stages. It is repeated once if a worker is lost before the first row.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt, NetworkBroadcastExec, display_plan_ascii};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pushdowndb_contract::Result;
use pushdowndb_engine::stages::{StageNodes, StagedQuery, Traffic, WholePlan, expected_bytes, with_spilling};
use url::Url;

use crate::answers::answering;
use crate::channel::Channels;
use crate::cut::{Cut, cut};
use crate::error::{is_lost, of_lost, shown, to_datafusion};

/// A query that was cut into stages, and what is needed to cut it again.
pub(crate) struct Query {
    pub(crate) whole: WholePlan,
    pub(crate) cut: Cut,
    pub(crate) urls: Vec<Url>,
    pub(crate) channels: Channels,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl StagedQuery for Query {
    fn explain(&self) -> String {
        display_plan_ascii(self.cut.plan.as_ref(), false)
    }

    fn summary(&self) -> String {
        let Cut { stages, tasks, .. } = &self.cut;
        let workers: Vec<&str> = self.urls.iter().map(shown).collect();
        format!("stages on workers: {stages}, of {tasks} tasks in all, on {}", workers.join(", "))
    }

    fn expected_bytes(&self) -> u64 {
        expected_bytes(&self.cut.plan, &Nodes)
    }

    fn traffic(&self) -> Traffic {
        Traffic::of(&self.cut.plan, &Nodes)
    }

    fn workers(&self) -> usize {
        self.urls.len()
    }

    fn start(self: Arc<Self>) -> Result<SendableRecordBatchStream> {
        let schema = self.whole.plan.schema();
        let usages = Arc::clone(&self.whole.usages);
        let rows = stream::once(async move { self.first_rows().await }).try_flatten().map_err(of_lost);
        // The usage of workers is known only at the end, so the caps are checked once more.
        let capped = stream::once(async move { usages.check_caps().map_err(to_datafusion) });
        let rows = rows.chain(capped.filter_map(|checked| async move { checked.err().map(Err) }));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Provides information about the nodes of a plan in stages.
struct Nodes;

impl StageNodes for Nodes {
    fn tasks_below(&self, node: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        node.as_network_boundary().map(|boundary| boundary.input_stage().task_count())
    }

    fn is_broadcast(&self, node: &Arc<dyn ExecutionPlan>) -> bool {
        node.is::<NetworkBroadcastExec>()
    }

    fn shared<'a>(&self, node: &'a Arc<dyn ExecutionPlan>) -> Option<&'a Arc<dyn ExecutionPlan>> {
        node.downcast_ref::<DistributedLeafExec>().map(DistributedLeafExec::original)
    }
}

type Rows = BoxStream<'static, DfResult<RecordBatch>>;

impl Query {
    /// Starts the query and waits for its first rows. If a worker is lost until then, repeats the
    /// query without it.
    async fn first_rows(&self) -> DfResult<Rows> {
        let rows = execute_stream(Arc::clone(&self.cut.plan), Arc::clone(&self.cut.context))?;
        match begun(rows).await {
            Err(error) if is_lost(&error) => self.again(error).await,
            begun => begun,
        }
    }

    /// Repeats the query with the workers that still answer, after `error`.
    async fn again(&self, error: DataFusionError) -> DfResult<Rows> {
        let (left, _) = answering(&self.channels, &self.urls).await.map_err(to_datafusion)?;
        let lost: Vec<&str> = self.urls.iter().filter(|url| !left.contains(url)).map(shown).collect();
        if lost.is_empty() || left.is_empty() {
            return Err(error);
        }
        self.whole.usages.note(format!("repeated without {}, which was lost", lost.join(", ")));
        let whole = WholePlan { plan: reset_plan_states(Arc::clone(&self.whole.plan))?, ..self.whole.clone() };
        let rows = match cut(&whole, &left, &self.channels).await? {
            Some(cut) => execute_stream(cut.plan, cut.context)?,
            // A single worker would have no others to share the work with, so the query runs in
            // this process.
            None => {
                let options = whole.state.config_options();
                let plan = with_spilling(whole.plan, options).map_err(to_datafusion)?;
                execute_stream(plan, self.whole.state.task_ctx())?
            }
        };
        begun(rows).await
    }
}

/// Waits for the first batch, and returns all batches including it.
async fn begun(mut rows: SendableRecordBatchStream) -> DfResult<Rows> {
    match rows.next().await {
        None => Ok(stream::empty().boxed()),
        Some(Ok(first)) => Ok(stream::once(async move { Ok(first) }).chain(rows).boxed()),
        Some(Err(error)) => Err(error),
    }
}
