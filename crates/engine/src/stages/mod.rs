//! Stages: parts of a plan that worker processes run.
//!
//! The engine plans a query as usual. A [`Cluster`] cuts the plan into stages and sends them to
//! workers, each of which has an engine of its own. This module has what both sides need of the
//! engine's operators:
//!
//! ```text
//! bytes      what the scans of a plan take in one process and in stages
//! traffic    the rows that operators handle and that workers exchange
//! choose     which plans are cut, and how many processes can run a scan together
//! scan       a scan as bytes: its plan, its share of the splits, its settings
//! nodes      other operators as bytes and expressions
//! functions  functions that no registry has
//! services   what a stage finds where it runs: stores, nodes, the keys of joins
//! usages     what scans of other processes counted, for the query's meter
//! ```
//!
//! Nothing of one process is visible in another, so a stage links its own parts again: the keys
//! that one of its joins collects, and the scans that they filter ([`services`]).

pub(crate) mod bytes;
pub(crate) mod choose;
pub(crate) mod functions;
mod messages;
mod nodes;
mod scan;
pub(crate) mod services;
pub(crate) mod traffic;
pub(crate) mod usages;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::ExecutionPlan;
use pushdowndb_contract::Result;

use crate::error::from_datafusion;
use crate::exec::build_keys::BuildKeysExec;
use crate::rules;

pub use bytes::{StageNodes, expected_bytes};
pub use choose::{most_tasks, shares};
pub use nodes::{NodeParts, node_from_parts, node_to_parts};
pub use services::{StageRequest, VERSION, carry};
pub use traffic::Traffic;
pub use usages::ScanUsages;

/// Worker processes that run queries together.
#[async_trait]
pub trait Cluster: fmt::Debug + Send + Sync {
    /// Cuts a plan into stages. Returns `None` if it has no part that several workers can run.
    ///
    /// # Errors
    ///
    /// Returns an error if the addresses of the workers are invalid, or no worker answers.
    async fn stage(&self, query: WholePlan) -> Result<Option<Arc<dyn StagedQuery>>>;
}

/// A plan for one process that a [`Cluster`] may cut into stages.
#[derive(Clone, Debug)]
pub struct WholePlan {
    /// The plan, without operators that spill ([`with_spilling`]).
    pub plan: Arc<dyn ExecutionPlan>,
    /// The state of its statement.
    pub state: SessionState,
    /// The addresses of the workers, as the setting `pushdown.workers` has them.
    pub workers: String,
    /// The part of the session that workers need.
    pub request: StageRequest,
    /// Collects what the scans of workers counted.
    pub usages: Arc<ScanUsages>,
}

/// A query whose plan was cut into stages.
pub trait StagedQuery: fmt::Debug + Send + Sync {
    /// Returns the stages and their tasks as text, for EXPLAIN.
    fn explain(&self) -> String;

    /// Returns one line about the workers that run the query, for the report.
    fn summary(&self) -> String;

    /// Returns the bytes that the query's scans are expected to take.
    fn expected_bytes(&self) -> u64;

    /// Returns the rows that the query is expected to handle and to exchange.
    fn traffic(&self) -> Traffic;

    /// Returns the number of workers that run the query.
    fn workers(&self) -> usize;

    /// Starts the query.
    ///
    /// # Errors
    ///
    /// Returns an error if DataFusion cannot start the plan of the first stage.
    fn start(self: Arc<Self>) -> Result<SendableRecordBatchStream>;
}

/// Replaces operators of a plan, or of a stage of one, by operators that spill.
pub fn with_spilling(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    rules::with_spilling(plan, config).map_err(from_datafusion)
}

/// Returns whether `node` collects the keys of a join's build side.
pub fn collects_keys(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<BuildKeysExec>()
}

/// Tells the scans of this process that the keys of the collector `node` are collected in another
/// process. Otherwise they would wait for the keys.
pub fn give_up_keys(node: &Arc<dyn ExecutionPlan>) {
    if let Some(collector) = node.downcast_ref::<BuildKeysExec>() {
        collector.keys().give_up();
    }
}

/// Returns the collector of keys `node` over another `input`, which has all rows of the build side
/// in each process that runs it; `None` if `node` is not a collector of keys.
pub fn collector_over_whole(
    node: &Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let collector = node.downcast_ref::<BuildKeysExec>()?;
    Some(Arc::new(collector.over_whole(input)))
}
