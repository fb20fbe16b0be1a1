//! UniqueSortKeys: drops a sort key that repeats an earlier one of the same ORDER BY.
//!
//! Such a key cannot change the order. If it stays, DataFusion 55.2 later drops it from the sort
//! that it plans for DISTINCT ON and ordered aggregates, but not from the order that these require,
//! and panics.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;

/// The rule. It runs before the keys are coerced.
#[derive(Debug)]
pub(super) struct UniqueSortKeys;

impl AnalyzerRule for UniqueSortKeys {
    fn name(&self) -> &'static str {
        "unique_sort_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                on.sort_expr = on.sort_expr.map(unique);
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        rewrite_exprs(plan.data, |expr, _| match expr {
            Expr::AggregateFunction(mut call) if call.params.order_by.len() > 1 => {
                call.params.order_by = unique(call.params.order_by);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Keeps only the first of several `keys` that sort by the same expression.
fn unique(keys: Vec<SortExpr>) -> Vec<SortExpr> {
    let mut seen = HashSet::new();
    keys.into_iter().filter(|key| seen.insert(key.expr.clone())).collect()
}
