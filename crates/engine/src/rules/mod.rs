//! The optimizer rules of our own, and where they stand among DataFusion's.

mod check_remote_plan;
mod order_joins;
mod push_aggregate;
mod push_join;
mod push_top_k;
mod reuse_scans;
mod settle_meaning;
mod sort_nested;

use std::sync::Arc;

use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use check_remote_plan::CheckRemotePlan;
use order_joins::OrderJoins;
use push_aggregate::PushAggregate;
use push_join::PushJoin;
use push_top_k::PushTopK;
use reuse_scans::ReuseScans;
use settle_meaning::SettleMeaning;
use sort_nested::SortNested;

use crate::query::QueryContext;

/// DataFusion's analyzer rules after ours: types are brought together of what is meant.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(SettleMeaning::new()));
    rules
}

/// DataFusion's logical rules with ours among them: joins are put in order once their conditions lie where they belong,
/// and before columns are left out between them.
pub(crate) fn logical_rules(query: &Arc<QueryContext>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let after = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(rules.len(), |place| place + 1);
    rules.insert(after, Arc::new(OrderJoins { query: Arc::clone(query) }));
    rules
}

/// DataFusion's physical rules with ours among them.
///
/// Filters and limits reach the scan by DataFusion's own `FilterPushdown` and `LimitPushdown`. Ours follow
/// when those are done, and before `EnsureCooperative` wraps the leaves.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // A scan knows better than a filter above it how many rows pass, and the smaller side of a join is the one to build.
    let place = |name| rules.iter().position(|rule| rule.name() == name);
    if let (Some(sides), Some(filters)) = (place("join_selection"), place("FilterPushdown"))
        && sides < filters
    {
        rules[sides..=filters].rotate_right(1);
    }
    let before = rules.iter().position(|rule| rule.name() == "EnsureCooperative").unwrap_or(rules.len());
    // They need the filters in the scan: they push nothing over one that is left above it.
    let ours: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 4] =
        [Arc::new(SortNested), Arc::new(PushJoin), Arc::new(PushAggregate), Arc::new(PushTopK)];
    rules.splice(before..before, ours);
    // Whatever is yet to leave rows out has been put into the plan.
    rules.push(Arc::new(ReuseScans));
    // Last of all: rewrites nothing, refuses plans that would give wrong rows.
    rules.push(Arc::new(CheckRemotePlan));
    rules
}
