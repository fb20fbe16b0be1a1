//! CountDuplicates: makes EXCEPT ALL and INTERSECT ALL respect how often each row occurs.
//!
//! DataFusion 55.2 plans both as joins that only test whether a row occurs on the right. This rule
//! numbers the copies of each row on both sides, and also joins by that number:
//!
//! ```text
//! {1, 1, 1, 2} EXCEPT ALL {1, 2, 2}
//! (1, #1) (1, #2) (1, #3) (2, #1)  anti  (1, #1) (2, #1) (2, #2)  =  (1) (1)
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// The rule. It runs first, while only set operations are joins in which NULL equals NULL.
#[derive(Debug)]
pub(super) struct CountDuplicates;

impl AnalyzerRule for CountDuplicates {
    fn name(&self) -> &'static str {
        "count_duplicates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let counted = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if keeps_duplicates(&join) => count(join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        });
        counted.map(|counted| counted.data)
    }
}

/// Returns whether `join` is a set operation with ALL; without ALL, its left side is distinct.
fn keeps_duplicates(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn count(join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left, left_number) = numbered(&join.left, "__copy_left")?;
    let (right, right_number) = numbered(&join.right, "__copy_right")?;
    let mut on = join.on;
    on.push((left_number, right_number));
    let joined = Join::try_new(
        left,
        right,
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

/// Adds a column `name` to `plan` that numbers the copies of each row.
fn numbered(plan: &Arc<LogicalPlan>, name: &str) -> Result<(Arc<LogicalPlan>, Expr)> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?.alias(name);
    let numbered = LogicalPlanBuilder::from(Arc::clone(plan)).window(vec![number])?.build()?;
    Ok((Arc::new(numbered), Expr::Column(Column::new_unqualified(name))))
}
