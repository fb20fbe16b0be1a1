//! Subqueries that DataFusion 55.2 does not support at their place:
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `SELECT EXISTS (q)` | `SELECT (SELECT count(*) > 0 FROM (q))` |
//! | `(a, b) IN (q)` | `EXISTS (SELECT 1 FROM (q) r(f1, f2) WHERE r.f1 = a AND r.f2 = b)` |

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, UnaryOperator};
use pushdowndb_contract::{Error, Result};

use super::parsed::expression;
use super::visit::{any_expression, each_outside_subqueries};

/// Rewrites EXISTS in what `select` computes.
pub(super) fn in_projection(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            each_outside_subqueries(expr, &mut count);
        }
    }
}

/// Replaces EXISTS by a subquery that counts rows.
fn count(expr: &mut Expr) {
    if row_in_subquery(expr).is_err() {
        // The same error is reported when all expressions are rewritten.
        return;
    }
    if let Expr::Exists { subquery, negated } = expr
        && let Ok(counted) = expression(&counted(subquery))
    {
        *expr = match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(counted) },
            false => counted,
        };
    }
}

/// Returns the subquery that tells whether `query` has a row. If possible, its own SELECT counts:
/// the planner finds columns of outer tables in its WHERE, but not below another SELECT.
fn counted(query: &Query) -> String {
    let mut own = query.clone();
    own.order_by = None;
    if let SetExpr::Select(select) = own.body.as_mut() {
        let is_plain = own.limit_clause.is_none()
            && own.fetch.is_none()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.qualify.is_none()
            && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
            && !any_expression(&select.projection, &mut |expr| matches!(expr, Expr::Function(_)));
        if is_plain && let Ok(count) = expression("count(*) > 0") {
            select.projection = vec![SelectItem::UnnamedExpr(count)];
            return format!("({own})");
        }
    }
    format!("(SELECT count(*) > 0 FROM ({query}) AS found)")
}

/// Rewrites `expr` if it looks for a row in a subquery.
///
/// # Errors
///
/// Returns an error for NOT IN, whose result is unknown where a field is NULL.
pub(super) fn row_in_subquery(expr: &mut Expr) -> Result<()> {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return Ok(()) };
    let Expr::Tuple(fields) = row.as_ref() else { return Ok(()) };
    if *negated {
        return Err(Error::unsupported(
            "(a, b) NOT IN (SELECT …) is not supported; write NOT EXISTS (SELECT 1 FROM … WHERE …)",
        ));
    }
    let names = (1..=fields.len()).map(|at| format!("f{at}")).collect::<Vec<_>>().join(", ");
    let equal = fields.iter().enumerate().map(|(at, field)| format!("row_in.f{} = ({field})", at + 1));
    let equal = equal.collect::<Vec<_>>().join(" AND ");
    *expr = expression(&format!("EXISTS (SELECT 1 FROM ({subquery}) AS row_in({names}) WHERE {equal})"))?;
    Ok(())
}
