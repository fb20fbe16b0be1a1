//! GraftLaterals: lateral subqueries without a table of their own.
//!
//! `FROM t, unnest(t.items) AS u(item)` and `FROM t, LATERAL (SELECT t.a + 1 AS b) AS u` compute
//! columns from each row of `t`. DataFusion 55.2 plans lateral subqueries that read a table as
//! joins, but cannot plan these. This rule puts the subquery's operators on top of `t`, and passes
//! the columns of `t` through them:
//!
//! ```text
//! Join                              Projection: t.*, x AS u.item
//!   t                         →       Unnest: x
//!   Subquery: u                         Projection: t.*, t.items AS x
//!     Projection: x AS item                 t
//!       Unnest: x
//!         Projection: outer(t.items) AS x
//!           one row
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, Result, TableReference};
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, Join, LogicalPlan, Projection, Subquery, SubqueryAlias, Unnest,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Qualifier of the subquery's columns until they get the subquery's alias. It distinguishes them
/// from the columns of the other table.
const OWN: &str = "__lateral";

/// Prefix of the names of columns that DataFusion unnests.
const PLACEHOLDER: &str = "__unnest_placeholder";

/// The rule. It runs before all others.
#[derive(Debug)]
pub(super) struct GraftLaterals;

impl AnalyzerRule for GraftLaterals {
    fn name(&self) -> &'static str {
        "graft_laterals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let grafted = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match graft(&join)? {
                Some(grafted) => Ok(Transformed::yes(grafted)),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            node => Ok(Transformed::no(node)),
        });
        grafted.data()
    }
}

/// Returns the plan that replaces a lateral join; `None` for other joins, and for subqueries with
/// operators that do not work row by row.
fn graft(join: &Join) -> Result<Option<LogicalPlan>> {
    if join.join_type != JoinType::Inner || !join.on.is_empty() || !is_lateral(&join.right) {
        return Ok(None);
    }
    let Some(plan) = on_top(&join.right, &join.left)? else { return Ok(None) };
    // Rename the columns to those of the join.
    let left = join.left.schema().fields().len();
    let names = join.schema.columns().into_iter().zip(plan.schema().columns());
    let exprs = names.enumerate().map(|(at, (named, found))| match at < left || named == found {
        true => Expr::Column(found),
        false => Expr::Column(found).alias_qualified(named.relation, named.name),
    });
    let plan = LogicalPlan::Projection(Projection::try_new(exprs.collect(), Arc::new(plan))?);
    Ok(Some(match &join.filter {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition.clone(), Arc::new(plan))?),
        None => plan,
    }))
}

/// Returns whether a plan is a subquery that refers to another table.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(Subquery { outer_ref_columns, .. }) => !outer_ref_columns.is_empty(),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => is_lateral(input),
        LogicalPlan::Projection(Projection { input, .. }) => is_lateral(input),
        _ => false,
    }
}

/// Rebuilds the operators of `plan` on top of `left`, whose columns come first. Returns `None` if
/// an operator does not work row by row.
fn on_top(plan: &LogicalPlan, left: &Arc<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    let over = |input: &LogicalPlan| on_top(input, left).map(|plan| plan.map(Arc::new));
    Ok(Some(match plan {
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => left.as_ref().clone(),
        LogicalPlan::Subquery(Subquery { subquery, .. }) => return on_top(subquery, left),
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let Some(input) = over(input)? else { return Ok(None) };
            let mut exprs = kept(left);
            for expr in expr {
                let (_, name) = expr.qualified_name();
                let expr = resolved(expr.clone(), left)?.unalias();
                exprs.push(match name.starts_with(PLACEHOLDER) {
                    true => expr.alias(name),
                    false => expr.alias_qualified(Some(OWN), name),
                });
            }
            LogicalPlan::Projection(Projection::try_new(exprs, input)?)
        }
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let Some(input) = over(input)? else { return Ok(None) };
            LogicalPlan::Filter(Filter::try_new(resolved(predicate.clone(), left)?, input)?)
        }
        LogicalPlan::Unnest(Unnest { input, exec_columns, options, .. }) => {
            let Some(input) = over(input)? else { return Ok(None) };
            LogicalPlan::Unnest(Unnest::try_new(input, exec_columns.clone(), options.clone())?)
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let Some(input) = over(input)? else { return Ok(None) };
            let mut exprs = kept(left);
            for column in input.schema().columns().into_iter().skip(exprs.len()) {
                let name = column.name.clone();
                exprs.push(Expr::Column(column).alias_qualified(Some(alias.clone()), name));
            }
            LogicalPlan::Projection(Projection::try_new(exprs, input)?)
        }
        _ => return Ok(None),
    }))
}

/// Returns the columns of `left`.
fn kept(left: &LogicalPlan) -> Vec<Expr> {
    left.schema().columns().into_iter().map(Expr::Column).collect()
}

/// Rewrites an expression of the subquery to the columns of the rebuilt plan, where outer
/// references are columns of `left`.
fn resolved(expr: Expr, left: &LogicalPlan) -> Result<Expr> {
    let resolved = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) if left.schema().has_column(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            Expr::Column(Column { relation: None, name, spans }) if !name.starts_with(PLACEHOLDER) => {
                let relation = Some(TableReference::bare(OWN));
                Transformed::yes(Expr::Column(Column { relation, name, spans }))
            }
            expr => Transformed::no(expr),
        })
    });
    resolved.data()
}
