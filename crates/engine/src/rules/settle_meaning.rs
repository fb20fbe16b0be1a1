//! What a query means, settled before types are brought together: where DataFusion 55.2 takes it for something else.
//!
//! **Decimals beside floating-point numbers.** DataFusion would make a decimal of the latter, which has 15 places, no large
//! numbers and no NaN; so the decimal becomes a floating-point number, as in PostgreSQL and DuckDB. `0.05` is a decimal.
//!
//! **Subqueries of ANY and ALL** get a name of their own. DataFusion makes a condition inside the subquery of them, in which
//! a column of the outer table is taken for one of the same name of the inner one.
//!
//! **Functions** with a mistake are replaced ([`crate::functions`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, Subquery, cast,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::functions::date_part;

/// The rule; it stands before DataFusion's type coercion.
#[derive(Debug)]
pub(super) struct SettleMeaning {
    /// Counts the names that were given.
    named: AtomicUsize,
    date_part: Arc<ScalarUDF>,
}

impl SettleMeaning {
    pub(super) fn new() -> Self {
        Self { named: AtomicUsize::new(0), date_part: Arc::new(date_part::function()) }
    }
}

impl AnalyzerRule for SettleMeaning {
    fn name(&self) -> &'static str {
        "settle_meaning"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let settled = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(scan.projected_schema.as_ref());
            }
            // Names of what is computed stay as they are written.
            let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let settled = expr.transform_up(|expr| self.settle(expr, &schema))?;
                Ok(settled.update_data(|expr| name.restore(expr)))
            })
        });
        settled.map(|settled| settled.data)
    }
}

impl SettleMeaning {
    fn settle(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let to = floating([left.as_ref(), right.as_ref()], schema);
                let (left, right) = (as_floating(left, to.as_ref(), schema), as_floating(right, to.as_ref(), schema));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let to = floating([expr.as_ref(), low.as_ref(), high.as_ref()], schema);
                let [expr, low, high] = [expr, low, high].map(|side| as_floating(side, to.as_ref(), schema));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let to = floating(list.iter().chain([expr.as_ref()]), schema);
                let list = list.into_iter().map(|item| *as_floating(Box::new(item), to.as_ref(), schema)).collect();
                let expr = as_floating(expr, to.as_ref(), schema);
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let field = subquery.subquery.schema().fields().first();
                let to = field.map(|field| field.data_type().clone()).filter(DataType::is_floating);
                let expr = as_floating(expr, to.as_ref(), schema);
                Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let name = format!("__subquery_{}", self.named.fetch_add(1, Relaxed));
                let plan = LogicalPlanBuilder::from((*subquery.subquery).clone()).alias(name)?.build()?;
                let subquery = Subquery { subquery: plan.into(), ..subquery };
                Transformed::yes(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
            }
            Expr::ScalarFunction(call) if call.func.name() == self.date_part.name() => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.date_part), ..call }))
            }
            other => Transformed::no(other),
        })
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The type of the first of these that is floating-point.
fn floating<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    all.into_iter().filter_map(|expr| expr.get_type(schema).ok()).find(DataType::is_floating)
}

/// A decimal as a floating-point number, where it stands beside one of this type.
fn as_floating(expr: Box<Expr>, to: Option<&DataType>, schema: &DFSchema) -> Box<Expr> {
    let Some(to) = to else { return expr };
    match *expr {
        Expr::Literal(value, metadata) if is_decimal(&value.data_type()) => match value.cast_to(to) {
            Ok(floating) => Box::new(Expr::Literal(floating, metadata)),
            Err(_) => Box::new(Expr::Literal(value, metadata)),
        },
        Expr::Negative(inner) if matches!(*inner, Expr::Literal(..)) => {
            Box::new(Expr::Negative(as_floating(inner, Some(to), schema)))
        }
        // Not all of a decimal's digits are in the smaller floating-point numbers.
        other if other.get_type(schema).is_ok_and(|own| is_decimal(&own)) => Box::new(cast(other, DataType::Float64)),
        other => Box::new(other),
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}
