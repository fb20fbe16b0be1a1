//! `ORDER BY ALL`: by all columns of the result, from the first to the last.

use datafusion::sql::sqlparser::ast::{Expr, Ident, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value};

/// Rewrites `ORDER BY ALL` to the positions of the columns, or to the planner's own form if there
/// is a `*`.
pub(super) fn rewrite(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &order.kind else { return };
    let [OrderByExpr { expr: Expr::Identifier(Ident { value, quote_style: None, .. }), options, .. }] = keys.as_slice()
    else {
        return;
    };
    if !value.eq_ignore_ascii_case("all") {
        return;
    }
    let options = *options;
    order.kind = match columns(&query.body) {
        None => OrderByKind::All(options),
        Some(columns) => {
            let position = |at: usize| OrderByExpr {
                expr: Expr::value(Value::Number(at.to_string(), false)),
                options,
                with_fill: None,
            };
            OrderByKind::Expressions((1..=columns).map(position).collect())
        }
    };
}

/// The number of columns; `None` if there are wildcards.
fn columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}
