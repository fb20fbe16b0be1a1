//! Aliases of a SELECT in its other columns and clauses: `SELECT a + 1 AS y, y * 2 FROM t WHERE y >
//! 1`.
//!
//! A statement is first planned as it is written, so that columns of tables take precedence. If a
//! column is not found and an alias has its name, the alias is replaced by its expression in that
//! SELECT, and the statement is planned again.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, VisitorMut};

use super::visit::{any_expression, each_outside_subqueries, visit};

/// Replaces the name that `error` says was not found by the expression of the alias with that name.
/// Returns whether anything was replaced.
pub(crate) fn replace(statement: &mut Statement, error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return false };
    let SchemaError::FieldNotFound { field, .. } = schema_error.as_ref() else { return false };
    if field.relation.is_some() {
        return false;
    }
    let mut selects = Selects { missing: &field.name, replaced: false };
    let ControlFlow::Continue(()) = visit(statement, &mut selects) else { return false };
    selects.replaced
}

struct Selects<'a> {
    missing: &'a str,
    replaced: bool,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let named = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { expr, alias }
                if is_named(alias, self.missing) && !mentions(expr, self.missing) =>
            {
                Some(expr.clone())
            }
            _ => None,
        };
        let Some((at, meant)) = select.projection.iter().enumerate().find_map(|(at, item)| Some((at, named(item)?)))
        else {
            return ControlFlow::Continue(());
        };
        let meant = Expr::Nested(Box::new(meant));
        let mut replace = |expr: &mut Expr| {
            if matches!(expr, Expr::Identifier(name) if is_named(name, self.missing)) {
                *expr = meant.clone();
                self.replaced = true;
            }
        };
        for item in select.projection.iter_mut().skip(at + 1) {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                each_outside_subqueries(expr, &mut replace);
            }
        }
        for expr in [&mut select.selection, &mut select.having, &mut select.qualify].into_iter().flatten() {
            each_outside_subqueries(expr, &mut replace);
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether `expr` contains the name itself; then the name means a column.
fn mentions(expr: &Expr, name: &str) -> bool {
    any_expression(expr, &mut |expr| matches!(expr, Expr::Identifier(own) if is_named(own, name)))
}

/// Returns whether `name` is `missing` after the planner's conversion to lower case.
fn is_named(name: &Ident, missing: &str) -> bool {
    match name.quote_style {
        None => name.value.to_lowercase() == missing,
        Some(_) => name.value == missing,
    }
}
