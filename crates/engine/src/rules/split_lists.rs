//! SplitLists: compares a CASE in an IN list separately from the list.
//!
//! ```text
//! becomes   x IN (1, 2, CASE a WHEN 1 THEN b END)     x IN (1, 2) OR x = CASE a WHEN 1 THEN b END
//! stays     x IN (1, a, a + b)
//! ```
//!
//! DataFusion 55.2 mistakes a list item for a constant if it evaluates to one value for a batch
//! without rows. A CASE with several branches does that, and so does COALESCE, which becomes a
//! CASE. Its value would then be NULL for every row.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, in_list, not};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;

/// The rule. It runs after type coercion, which finds a common type for the list.
#[derive(Debug)]
pub(super) struct SplitLists;

impl AnalyzerRule for SplitLists {
    fn name(&self) -> &'static str {
        "split_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_exprs(plan, split)
    }
}

fn split(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr: value, list, negated }) = expr else { return Ok(Transformed::no(expr)) };
    let (chosen, plain): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(chooses);
    if chosen.is_empty() || value.is_volatile() {
        let list = plain.into_iter().chain(chosen).collect();
        return Ok(Transformed::no(Expr::InList(InList { expr: value, list, negated })));
    }
    let plain = (!plain.is_empty()).then(|| in_list((*value).clone(), plain, false));
    let each = chosen.into_iter().map(|item| (*value).clone().eq(item));
    let Some(any) = disjunction(plain.into_iter().chain(each)) else { return Ok(Transformed::no(*value)) };
    Ok(Transformed::yes(if negated { not(any) } else { any }))
}

/// Returns whether `expr` contains a CASE, or a function that becomes one.
fn chooses(expr: &Expr) -> bool {
    let is_case = |part: &Expr| match part {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => call.func.short_circuits(),
        _ => false,
    };
    expr.exists(|part| Ok(is_case(part))).unwrap_or(true)
}
