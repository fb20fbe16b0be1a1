//! The optimizer rules of our own, and where they stand among DataFusion's.

mod check_remote_plan;
mod push_aggregate;
mod push_join;
mod push_top_k;

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use check_remote_plan::CheckRemotePlan;
use push_aggregate::PushAggregate;
use push_join::PushJoin;
use push_top_k::PushTopK;

/// DataFusion's rules with ours among them.
///
/// Filters and limits reach the scan by DataFusion's own `FilterPushdown` and `LimitPushdown`. Ours follow
/// when those are done, and before `EnsureCooperative` wraps the leaves.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let before = rules.iter().position(|rule| rule.name() == "EnsureCooperative").unwrap_or(rules.len());
    // They need the filters in the scan: they push nothing over one that is left above it.
    rules.splice(before..before, [Arc::new(PushJoin) as _, Arc::new(PushAggregate) as _, Arc::new(PushTopK) as _]);
    // Last of all: rewrites nothing, refuses plans that would give wrong rows.
    rules.push(Arc::new(CheckRemotePlan));
    rules
}
