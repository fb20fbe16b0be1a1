//! CheckArithmetic: makes arithmetic fail on overflow, in every clause of a statement
//! ([`Checked`]).

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;
use crate::functions::arithmetic::Checked;

/// The rule. It runs after type coercion, and before the optimizer folds constants.
#[derive(Debug)]
pub(super) struct CheckArithmetic;

impl AnalyzerRule for CheckArithmetic {
    fn name(&self) -> &'static str {
        "check_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_exprs(plan, check)
    }
}

fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let checked = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let types = left.get_type(schema).ok().zip(right.get_type(schema).ok());
            types.and_then(|(left, right)| Checked::of(&left, *op, &right))
        }
        Expr::Negative(value) => value.get_type(schema).ok().and_then(|value| Checked::negation(&value)),
        _ => None,
    };
    let Some(checked) = checked else { return Ok(Transformed::no(expr)) };
    let args = match expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => vec![*left, *right],
        Expr::Negative(value) => vec![*value],
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(checked.function(), args))))
}
