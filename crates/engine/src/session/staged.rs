//! Statements whose plans worker processes run together.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::common::DataFusionError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use pushdowndb_contract::{Error, Result};

use super::Engine;
use super::statement_run::StatementRun;
use crate::error::from_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::rules::staged_physical_rules;
use crate::settings::{Distribution, PushdownOptions, Use, WORKERS};
use crate::stages::functions::{function_from_bytes, made_for};
use crate::stages::services::StageServices;
use crate::stages::{Cluster, ScanUsages, StageRequest, StagedQuery, WholePlan, bytes, choose};

/// Maximum size of a build side that is sent to every worker as a whole, in bytes and rows. The
/// keys of such a build side filter the scans of its probe side on every worker; those of a larger
/// one are seldom worth it.
const BROADCAST_BYTES: usize = 64 << 20;
const BROADCAST_ROWS: usize = 2 << 20;

/// Limit on the network bytes of a query on workers: those of one process times this factor, plus a
/// number of bytes.
const MAX_BYTES_FACTOR: f64 = 1.1;
const MORE_BYTES: u64 = 64 << 10;

/// Prefixes of DataFusion's settings that are the same in every process, or that do not matter to a
/// worker.
const NOT_SENT: [&str; 3] = ["datafusion.catalog.", "datafusion.sql_parser.", "datafusion.explain."];

/// A query in stages, with the plan that was cut into them.
pub(super) struct Staged {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) query: Arc<dyn StagedQuery>,
}

impl Engine {
    /// Cuts the query `plan` into stages for the session's workers; `None` if it should run in this
    /// process.
    pub(super) async fn staged(&self, run: &StatementRun, plan: &LogicalPlan) -> Result<Option<Staged>> {
        let options = &run.query.options;
        if options.workers.trim().is_empty() || options.distribute == Distribution::None || !is_query(plan) {
            return Ok(None);
        }
        let Some(cluster) = &self.cluster else {
            let message =
                format!("{WORKERS} is set, but this program cannot reach workers: there is no token for them");
            return Err(Error::unsupported(message));
        };
        let state = staging_state(&run.state);
        // If this plan is not possible, one for a single process may be.
        let planned = async {
            let optimized = state.optimize(plan)?;
            let whole = state.query_planner().create_physical_plan(&optimized, &state).await?;
            Ok::<_, DataFusionError>((optimized, whole))
        };
        let (optimized, whole) = match planned.await {
            Ok(planned) => planned,
            Err(error) => {
                tracing::debug!(%error, "this query has no plan in stages");
                return Ok(None);
            }
        };
        if let Some(why) = choose::refusal(&whole, options.distribute) {
            run.query.meter.strategy(format!("without workers: {why}"));
            return Ok(None);
        }
        let is_known = |name: &str| state.scalar_functions().contains_key(name);
        let Some(functions) = made_for(&optimized, &is_known) else {
            run.query.meter.strategy("without workers: a function of the query is not known to them");
            return Ok(None);
        };
        let query = WholePlan {
            plan: Arc::clone(&whole),
            request: StageRequest { settings: sent_settings(&state), stores: stores(&whole), functions },
            state,
            workers: options.workers.clone(),
            usages: Arc::new(ScanUsages::new(&whole, &run.query)),
        };
        let Some(query) = cluster.stage(query).await? else {
            run.query.meter.strategy("without workers: no part of the plan has work for several");
            return Ok(None);
        };
        let alone = run.state.create_physical_plan(plan).await.map_err(from_datafusion)?;
        let (several, one) = (query.expected_bytes(), bytes::of_whole(&alone));
        if several as f64 > one as f64 * MAX_BYTES_FACTOR + MORE_BYTES as f64 {
            let why = "without workers: their scans would lose keys of joins or rows of other scans";
            run.query.meter.strategy(why);
            return Ok(None);
        }
        let traffic = query.traffic();
        tracing::debug!(?traffic, "a plan in stages");
        if options.distribute == Distribution::Auto && !traffic.pays(query.workers()) {
            let mib = traffic.exchanged >> 20;
            let why = format!(
                "without workers: {} of them would take longer, as they exchange {mib} MiB of rows",
                query.workers()
            );
            run.query.meter.strategy(why);
            return Ok(None);
        }
        run.query.meter.strategy(query.summary());
        Ok(Some(Staged { plan: whole, query }))
    }

    /// Returns the state in which a worker runs stages of a session that sent `request`.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting of the request is unknown or cannot have its value, or if a
    /// store is unknown.
    pub async fn stage_state(&self, request: &StageRequest) -> Result<SessionState> {
        let mut settings = self.settings();
        let options = settings.config.options_mut();
        for (name, value) in &request.settings {
            options.set(name, value).map_err(from_datafusion)?;
        }
        PushdownOptions::of(options).check()?;
        let StatementRun { query, state, .. } = self.begin_with("", settings)?;
        let services = StageServices::open(&query, &request.stores).await?;
        let config = state.config().clone().with_extension(Arc::new(services));
        let mut builder = SessionStateBuilder::new_from_existing(state).with_config(config);
        let functions = builder.scalar_functions().get_or_insert_default();
        for function in &request.functions {
            functions.push(function_from_bytes(function)?);
        }
        Ok(builder.build())
    }

    /// Returns the cluster of the session, if its program has one.
    pub fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.cluster.as_ref()
    }
}

/// Returns whether a plan yields rows and changes nothing.
fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
    )
}

/// Returns the state that makes plans which can be cut into stages.
fn staging_state(state: &SessionState) -> SessionState {
    let mut config = state.config().clone();
    let options = config.options_mut();
    // A plan with a single partition cannot be cut.
    options.execution.target_partitions = options.execution.target_partitions.max(2);
    // Results of subqueries are passed within a process only.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    let most = &mut options.optimizer.hash_join_single_partition_threshold;
    *most = (*most).max(BROADCAST_BYTES);
    let most = &mut options.optimizer.hash_join_single_partition_threshold_rows;
    *most = (*most).max(BROADCAST_ROWS);
    if let Some(ours) = options.extensions.get_mut::<PushdownOptions>() {
        // Kept rows serve later scans of the same process only.
        ours.reuse = Use::None;
    }
    SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_physical_optimizer_rules(staged_physical_rules())
        .build()
}

/// Returns the settings to send to a worker: those that differ from the defaults.
fn sent_settings(state: &SessionState) -> Vec<(String, String)> {
    let defaults: HashMap<String, Option<String>> =
        ConfigOptions::new().entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    let options = state.config().options();
    let is_sent = |name: &str| name.starts_with("datafusion.") && !NOT_SENT.iter().any(|other| name.starts_with(other));
    let theirs = options.entries().into_iter().filter(|entry| is_sent(&entry.key));
    let mut settings: Vec<(String, String)> = theirs
        .filter(|entry| defaults.get(&entry.key).is_some_and(|default| *default != entry.value))
        .filter_map(|entry| Some((entry.key, entry.value?)))
        .collect();
    settings.extend(choose::changed_settings(&PushdownOptions::of(options)));
    settings
}

/// Returns the URL of each store that `plan` reads.
fn stores(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut stores = Vec::new();
    let walked = plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<RemoteScanExec>() {
            stores.push(scan.context().backend.url().to_string());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // The closure never fails.
    drop(walked);
    stores.sort();
    stores.dedup();
    stores
}

/// Returns the rows of EXPLAIN with `stages` as the physical plan; `None` if the rows are of
/// another form.
pub(super) fn explained(rows: &[RecordBatch], stages: &str) -> Result<Option<RecordBatch>> {
    let Some(first) = rows.first() else { return Ok(None) };
    let (mut kinds, mut plans) = (Vec::new(), Vec::new());
    for batch in rows {
        let (Some(kind), Some(plan)) = (batch.columns().first(), batch.columns().get(1)) else { return Ok(None) };
        let (Some(kind), Some(plan)) = (kind.as_string_opt::<i32>(), plan.as_string_opt::<i32>()) else {
            return Ok(None);
        };
        for row in 0..batch.num_rows() {
            let is_physical = kind.value(row) == "physical_plan";
            kinds.push(kind.value(row).to_owned());
            plans.push(if is_physical { stages.to_owned() } else { plan.value(row).to_owned() });
        }
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(kinds)), Arc::new(StringArray::from(plans))];
    let rows = RecordBatch::try_new(first.schema(), columns);
    rows.map(Some).map_err(|error| Error::internal("EXPLAIN as rows").with_source(error))
}
