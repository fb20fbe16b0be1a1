//! TieZeros: makes `-0.0` and `0.0` equal in sort keys, CASE and NULLIF, as they are in `-0.0 =
//! 0.0`.
//!
//! ```text
//! becomes   ORDER BY f, id                      ORDER BY f + 0.0, id
//! becomes   rank() OVER (ORDER BY f)            rank() OVER (ORDER BY f + 0.0)
//! becomes   CASE f WHEN 0 THEN …                CASE f + 0.0 WHEN 0 THEN …
//! becomes   nullif(f, 0)                        CASE WHEN f = 0 THEN NULL ELSE f END
//! stays     ORDER BY id, f                      rows that differ in the last key alone may come in any order
//! ```
//!
//! Keys are compared by bits, which differ between the zeros. A sum with `0.0` is never `-0.0`, and
//! does not change a NaN. DataFusion's groups and comparisons already treat the zeros as equal.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, SortExpr, binary_expr, when};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;

/// The rule. It runs after type coercion, and before sums are checked.
#[derive(Debug)]
pub(super) struct TieZeros;

impl AnalyzerRule for TieZeros {
    fn name(&self) -> &'static str {
        "tie_zeros"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_exprs(plan, tie)?;
        let tied = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
            let schema = merge_schema(&[&sort.input]);
            let last = sort.expr.len().saturating_sub(1);
            let (before, _) = sort.expr.split_at_mut(last);
            before.iter_mut().for_each(|key| tie_key(key, &schema));
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        })?;
        Ok(tied.data)
    }
}

fn tie(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::WindowFunction(mut window) => {
            let WindowFunction { params, .. } = window.as_mut();
            params.order_by.iter_mut().for_each(|key| tie_key(key, schema));
            params.partition_by = std::mem::take(&mut params.partition_by)
                .into_iter()
                .map(|key| zero_added(&key, schema).unwrap_or(key))
                .collect();
            Transformed::yes(Expr::WindowFunction(window))
        }
        Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) => {
            let tied = zero_added(&value, schema).map_or(value, Box::new);
            let whens = when_then_expr.into_iter().map(|(when, then)| match zero_added(&when, schema) {
                Some(tied) => (Box::new(tied), then),
                None => (when, then),
            });
            Transformed::yes(Expr::Case(Case { expr: Some(tied), when_then_expr: whens.collect(), else_expr }))
        }
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => match call.args.as_slice() {
            [value, other] if is_floating(value, schema) || is_floating(other, schema) => {
                let null = ScalarValue::try_new_null(&value.get_type(schema)?)?;
                Transformed::yes(
                    when(value.clone().eq(other.clone()), Expr::Literal(null, None)).otherwise(value.clone())?,
                )
            }
            _ => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => Transformed::no(other),
    })
}

fn is_floating(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|own| own.is_floating())
}

fn tie_key(key: &mut SortExpr, schema: &DFSchema) {
    if let Some(tied) = zero_added(&key.expr, schema) {
        key.expr = tied;
    }
}

/// Returns `expr + 0.0`, or `None` if `expr` is not a floating-point number.
fn zero_added(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let own = expr.get_type(schema).ok().filter(|own| own.is_floating())?;
    let zero = ScalarValue::new_zero(&own).ok()?;
    Some(binary_expr(expr.clone(), Operator::Plus, Expr::Literal(zero, None)))
}
