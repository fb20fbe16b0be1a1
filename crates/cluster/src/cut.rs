//! Cuts a plan into stages.
//!
//! ```text
//! HashJoinExec CollectLeft                      HashJoinExec CollectLeft
//! ├ BuildKeysExec                               ├ BuildKeysExec                each task has all keys
//! │ └ CoalescePartitionsExec        becomes     │ └ CoalescePartitionsExec
//! │   └ RemoteScanExec part                     │   └ NetworkBroadcastExec     to each task of the join
//! └ RemoteScanExec lineitem, keys=[…]           │     ╌╌ BroadcastExec ─ RemoteScanExec part, in shares
//!                                               └ RemoteScanExec lineitem, keys=[…], in shares
//! ```

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use datafusion_distributed::{
    BroadcastExec, DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec, DistributedExt,
    DistributedLeafExec, MaybeEncoded, NetworkBoundaryExt, NetworkBroadcastExec, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, SessionStateBuilderExt,
    WorkerResolver,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use pushdowndb_engine::stages::{
    WholePlan, collector_over_whole, collects_keys, give_up_keys, most_tasks, shares, with_spilling,
};
use url::Url;

use crate::channel::{Channels, WatchedChannels};
use crate::codec::StageCodec;
use crate::error::to_datafusion;
use crate::hidden::outside_of;

/// The header with the session's settings for the workers, in hexadecimal digits.
pub(crate) static REQUEST: HeaderName = HeaderName::from_static("x-pushdowndb-request");

/// A plan that was cut into stages, and the context to run it in.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    /// The number of stages that workers run.
    pub(crate) stages: usize,
    pub(crate) tasks: usize,
}

/// Cuts a plan into stages for the workers `urls`. Returns `None` if no part of it has work for
/// several workers, or if a part cannot be serialized.
pub(crate) async fn cut(query: &WholePlan, urls: &[Url], channels: &Channels) -> DfResult<Option<Cut>> {
    let whole = lowered(Arc::clone(&query.plan))?;
    let workers = urls.len();
    let usages = Arc::clone(&query.usages);
    let routes = urls.to_vec();
    let resolver = WatchedChannels { channels: channels.clone(), usages: Some(Arc::clone(&usages)) };
    let state = SessionStateBuilder::new_from_existing(query.state.clone())
        .with_query_planner(Arc::new(Planned(whole)))
        .with_distributed_worker_resolver(Listed(urls.to_vec()))
        .with_distributed_channel_resolver(resolver)
        .with_distributed_user_codec(StageCodec)
        .with_distributed_passthrough_headers(headers(&query.request.to_bytes())?)?
        .with_distributed_desired_task_count_handler(
            move |event: DesiredTaskCountEvent<'_>| -> Option<DfResult<DesiredTaskCountEventResponse>> {
                most_tasks(event.plan, workers).map(|tasks| Ok(DesiredTaskCountEventResponse::desired(tasks)))
            },
        )
        .with_distributed_scale_up_leaf_node_handler(
            move |event: ScaleUpLeafNodeEvent<'_>| -> Option<DfResult<ScaleUpLeafNodeEventResponse>> {
                let variants = shares(event.plan, event.task_count, &usages)?;
                let scaled = variants
                    .map_err(to_datafusion)
                    .and_then(|variants| DistributedLeafExec::try_new(Arc::clone(event.plan), variants))
                    .map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)));
                Some(scaled)
            },
        )
        // Task i of each stage runs on worker i, so that a repeated query finds cached data there.
        .with_distributed_route_tasks_handler(
            move |event: RouteTasksEvent<'_>| -> Option<DfResult<RouteTasksEventResponse>> {
                (event.task_count == routes.len()).then(|| Ok(RouteTasksEventResponse::new(routes.clone())))
            },
        )
        .with_distributed_planner()
        .build();
    let nothing =
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(DFSchema::empty()) });
    let plan = state.query_planner().create_physical_plan(&nothing, &state).await?;
    if !plan.is::<DistributedExec>() {
        return Ok(None);
    }
    let context = state.task_ctx();
    let plan = with_whole_keys(plan)?;
    if let Err(error) = check_encoding(&plan, &context) {
        tracing::debug!(%error, "this plan cannot be sent to workers");
        return Ok(None);
    }
    // The part of the plan that runs in this process spills like the plan of a single process;
    // workers do the same with their stages.
    let spilling = |head| with_spilling(head, state.config_options()).map_err(to_datafusion);
    let plan = outside_of(plan, |node| node.is_network_boundary(), spilling)?;
    give_up_keys_below(&plan, false);
    let (stages, tasks) = counts(&plan)?;
    Ok(Some(Cut { plan, context, stages, tasks }))
}

fn headers(request: &[u8]) -> DfResult<HeaderMap> {
    let digits: String = request.iter().map(|byte| format!("{byte:02x}")).collect();
    let value = HeaderValue::from_str(&digits).map_err(|error| to_datafusion(internal(error)))?;
    Ok(HeaderMap::from_iter([(REQUEST.clone(), value)]))
}

fn internal(error: impl std::error::Error + Send + Sync + 'static) -> pushdowndb_contract::Error {
    pushdowndb_contract::Error::internal("settings that are no header").with_source(error)
}

/// Moves collectors of join keys below the node that gathers the partitions of a build side. The
/// planner cuts the build side off at that node, and [`with_whole_keys`] finds the collectors below
/// it.
fn lowered(plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let lowered = plan.transform_up(|node| {
        let Some((join, left)) = collecting_join(&node) else { return Ok(Transformed::no(node)) };
        let [gather] = left.children()[..] else { return Ok(Transformed::no(node)) };
        if !collects_keys(&left) || !gather.is::<CoalescePartitionsExec>() || gather.fetch().is_some() {
            return Ok(Transformed::no(node));
        }
        let [input] = gather.children()[..] else { return Ok(Transformed::no(node)) };
        let collector = over(&left, Arc::clone(input))?;
        let build = Arc::new(CoalescePartitionsExec::new(collector));
        let right = Arc::clone(join.right());
        Ok(Transformed::yes(over_all(&node, vec![build, right])?))
    })?;
    Ok(lowered.data)
}

/// Moves collectors of join keys out of stages that are broadcast, up to the tasks of the join,
/// each of which receives all rows of the build side.
fn with_whole_keys(plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let moved = plan.transform_up(|node| {
        let Some((join, gather)) = collecting_join(&node) else { return Ok(Transformed::no(node)) };
        match whole_keys(&gather)? {
            Some(build) => {
                let right = Arc::clone(join.right());
                Ok(Transformed::yes(over_all(&node, vec![build, right])?))
            }
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(moved.data)
}

/// Returns a broadcast build side with its collector of keys moved above the broadcast; `None` if
/// it has a different form.
fn whole_keys(gather: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if !gather.is::<CoalescePartitionsExec>() {
        return Ok(None);
    }
    let [boundary] = gather.children()[..] else { return Ok(None) };
    if !boundary.is::<NetworkBroadcastExec>() {
        return Ok(None);
    }
    let [broadcast] = boundary.children()[..] else { return Ok(None) };
    if !broadcast.is::<BroadcastExec>() {
        return Ok(None);
    }
    let [collector] = broadcast.children()[..] else { return Ok(None) };
    let [rows] = collector.children()[..] else { return Ok(None) };
    if !collects_keys(collector) {
        return Ok(None);
    }
    let boundary = over(boundary, over(broadcast, Arc::clone(rows))?)?;
    Ok(collector_over_whole(collector, over(gather, boundary)?))
}

/// Returns a join that collects its build side as a whole, and the build side.
fn collecting_join(node: &Arc<dyn ExecutionPlan>) -> Option<(&HashJoinExec, Arc<dyn ExecutionPlan>)> {
    let join = node.downcast_ref::<HashJoinExec>()?;
    (*join.partition_mode() == PartitionMode::CollectLeft).then(|| (join, Arc::clone(join.left())))
}

fn over(node: &Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    over_all(node, vec![input])
}

fn over_all(node: &Arc<dyn ExecutionPlan>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
    Arc::clone(node).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Keeps scans of this process from waiting for keys that workers collect.
fn give_up_keys_below(plan: &Arc<dyn ExecutionPlan>, is_sent: bool) {
    if is_sent {
        give_up_keys(plan);
    }
    let is_sent = is_sent || plan.is_network_boundary();
    plan.children().into_iter().for_each(|input| give_up_keys_below(input, is_sent));
}

/// Serializes the stages that would be sent, to detect errors before anything runs.
fn check_encoding(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> DfResult<()> {
    plan.apply(|node| {
        let Some(boundary) = node.as_network_boundary() else { return Ok(TreeNodeRecursion::Continue) };
        if let Some(stage) = boundary.input_stage().local_plan() {
            let first_task = Arc::clone(stage).transform_up(|node| {
                let leaf = node.downcast_ref::<DistributedLeafExec>().and_then(|leaf| leaf.variants().first());
                Ok(match leaf {
                    Some(leaf) => Transformed::yes(Arc::clone(leaf)),
                    None => Transformed::no(node),
                })
            })?;
            MaybeEncoded::Decoded(first_task.data).encode(context)?;
        }
        // The stages below were included.
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(())
}

/// The numbers of stages and of tasks that workers run.
fn counts(plan: &Arc<dyn ExecutionPlan>) -> DfResult<(usize, usize)> {
    let (mut stages, mut tasks) = (0, 0);
    plan.apply(|node| {
        if let Some(boundary) = node.as_network_boundary() {
            stages += 1;
            tasks += boundary.input_stage().task_count();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((stages, tasks))
}

/// A planner that returns an existing plan.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait::async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// The workers of a query.
struct Listed(Vec<Url>);

impl WorkerResolver for Listed {
    fn get_urls(&self) -> DfResult<Vec<Url>> {
        Ok(self.0.clone())
    }
}
