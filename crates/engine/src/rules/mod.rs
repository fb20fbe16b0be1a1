//! Optimizer rules, and their order among DataFusion's.

pub(crate) mod check_arithmetic;
pub(crate) mod check_remote_plan;
pub(crate) mod count_duplicates;
pub(crate) mod graft_laterals;
pub(crate) mod guard_conditions;
pub(crate) mod guard_filters;
pub(crate) mod name_files;
pub(crate) mod order_joins;
pub(crate) mod place_scans;
pub(crate) mod push_aggregate;
pub(crate) mod push_join;
pub(crate) mod push_top_k;
pub(crate) mod reuse_scans;
pub(crate) mod rewrite;
pub(crate) mod sample_splits;
pub(crate) mod settle_casts;
pub(crate) mod settle_meaning;
pub(crate) mod sort_nested;
pub(crate) mod spill_operators;
pub(crate) mod split_lists;
pub(crate) mod swap_semijoins;
pub(crate) mod tie_zeros;
pub(crate) mod unique_sort_keys;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use crate::context::QueryContext;
use check_arithmetic::CheckArithmetic;
use check_remote_plan::CheckRemotePlan;
use count_duplicates::CountDuplicates;
use graft_laterals::GraftLaterals;
use guard_conditions::GuardConditions;
use guard_filters::GuardFilters;
use name_files::NameFiles;
use order_joins::OrderJoins;
use place_scans::PlaceScans;
use push_aggregate::PushAggregate;
use push_join::PushJoin;
use push_top_k::PushTopK;
use reuse_scans::ReuseScans;
use sample_splits::SampleSplits;
use settle_casts::SettleCasts;
use settle_meaning::SettleMeaning;
use sort_nested::SortNested;
use spill_operators::SpillOperators;
use split_lists::SplitLists;
use swap_semijoins::SwapSemijoins;
use tie_zeros::TieZeros;
use unique_sort_keys::UniqueSortKeys;

/// Returns DataFusion's analyzer rules and those of this crate. Some of the latter run first; the
/// others run last, since they depend on the types after coercion.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(GraftLaterals));
    rules.insert(1, Arc::new(CountDuplicates));
    rules.insert(2, Arc::new(UniqueSortKeys));
    rules.insert(3, Arc::new(SettleMeaning::new()));
    rules.insert(0, Arc::new(NameFiles));
    rules.insert(0, Arc::new(SampleSplits));
    rules.push(Arc::new(SplitLists));
    rules.push(Arc::new(GuardConditions));
    rules.push(Arc::new(TieZeros));
    rules.push(Arc::new(SettleCasts));
    rules.push(Arc::new(CheckArithmetic));
    rules
}

/// Returns DataFusion's logical rules and [`OrderJoins`]. Joins are ordered after their conditions
/// have been pushed down, and before unused columns are pruned between them.
pub(crate) fn logical_rules(query: &Arc<QueryContext>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let after = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(rules.len(), |place| place + 1);
    rules.insert(after, Arc::new(OrderJoins { query: Arc::clone(query) }));
    rules
}

/// Returns the physical rules for a plan that is cut into stages. Operators that spill are added to
/// each stage in the process that runs it ([`with_spilling`]), because plans can be cut only at
/// DataFusion's own operators.
pub(crate) fn staged_physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = physical_rules();
    rules.retain(|rule| rule.name() != SpillOperators.name());
    rules
}

/// Returns `plan`, a stage or a whole plan, with operators that spill.
pub(crate) fn with_spilling(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    SpillOperators.optimize(plan, config)
}

/// Returns DataFusion's physical rules and those of this crate.
///
/// Filters and limits reach the scan by DataFusion's own `FilterPushdown` and `LimitPushdown`. The
/// rules of this crate run after those, and before `EnsureCooperative` wraps the leaves.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // Scans with pushed filters give better estimates for the choice of the build side.
    let place = |name| rules.iter().position(|rule| rule.name() == name);
    if let (Some(sides), Some(filters)) = (place("join_selection"), place("FilterPushdown"))
        && sides < filters
    {
        rules[sides..=filters].rotate_right(1);
    }
    if let Some(sides) = rules.iter().position(|rule| rule.name() == "join_selection") {
        rules.insert(sides + 1, Arc::new(SwapSemijoins));
    }
    for rule in rules.iter_mut().filter(|rule| rule.name().starts_with("FilterPushdown")) {
        *rule = Arc::new(GuardFilters(Arc::clone(rule)));
    }
    let before = rules.iter().position(|rule| rule.name() == "EnsureCooperative").unwrap_or(rules.len());
    // These rules push nothing below a filter that remains above a scan.
    let ours: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 4] =
        [Arc::new(SortNested), Arc::new(PushJoin), Arc::new(PushAggregate), Arc::new(PushTopK)];
    rules.splice(before..before, ours);
    // By now every filter and key filter is in the plan.
    rules.push(Arc::new(ReuseScans));
    rules.push(Arc::new(PlaceScans));
    rules.push(Arc::new(SpillOperators));
    rules.push(Arc::new(CheckRemotePlan));
    rules
}
