//! SettleCasts: replaces Arrow's casts by the functions of [`crate::functions::casts`], in every
//! clause of a statement.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;
use crate::functions::casts;

/// The rule. It runs after type coercion, which casts operands of `||` and arguments of functions.
#[derive(Debug)]
pub(super) struct SettleCasts;

impl AnalyzerRule for SettleCasts {
    fn name(&self) -> &'static str {
        "settle_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_exprs(plan, settle)
    }
}

fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (value, field, safe) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return Ok(Transformed::no(expr)),
    };
    let Ok(from) = value.get_type(schema) else { return Ok(Transformed::no(expr)) };
    let Some(function) = casts::function(&from, field.data_type(), safe) else { return Ok(Transformed::no(expr)) };
    match expr {
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*expr]))))
        }
        other => Ok(Transformed::no(other)),
    }
}
