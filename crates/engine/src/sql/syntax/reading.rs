//! Calls of reading functions in FROM, and the name of the object that a row came from.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, TableAlias, TableFactor, VisitorMut,
};

use super::calls::call;
use super::visit::{visit, walk};
use crate::catalog::{Call, FILENAME};

/// Turns the call of a reading function into a table whose name is the text of the call. Its alias
/// is the function's name, and after the first call of a statement a number; `calls` counts them.
pub(super) fn name_call(table: &mut TableFactor, calls: &mut usize) {
    let TableFactor::Table { name, alias, args: args @ Some(_), .. } = table else { return };
    let Some(function) = name.0.first().and_then(|part| part.as_ident()).filter(|_| name.0.len() == 1) else { return };
    if function.quote_style.is_some() || !Call::is_known(&function.value) {
        return;
    }
    let function = function.value.to_ascii_lowercase();
    let all = args.take().map(|args| args.args).unwrap_or_default();
    let written: Vec<String> = all.iter().map(ToString::to_string).collect();
    *name = ObjectName::from(vec![Ident::with_quote('"', format!("{function}({})", written.join(", ")))]);
    *calls += 1;
    let short = if *calls == 1 { function } else { format!("{function}_{calls}") };
    alias.get_or_insert_with(|| TableAlias { explicit: true, name: Ident::new(short), columns: vec![], at: None });
}

/// Replaces `filename` by `input_file_name()`, after planning failed with `error` because no column
/// has that name. Returns whether anything was replaced.
pub(crate) fn name_files(statement: &mut Statement, error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return false };
    let SchemaError::FieldNotFound { field, .. } = schema_error.as_ref() else { return false };
    if field.name != FILENAME || field.relation.is_some() {
        return false;
    }
    let mut files = Files { replaced: false };
    let ControlFlow::Continue(()) = visit(statement, &mut files) else { return false };
    files.replaced
}

struct Files {
    replaced: bool,
}

fn is_filename(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case(FILENAME))
}

impl VisitorMut for Files {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // The output column keeps its name, to which ORDER BY refers.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_filename(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(FILENAME) };
            }
        }
        let mut calls = Calls { replaced: false };
        let _ = walk(&mut select.projection, &mut calls);
        let _ = walk(&mut select.selection, &mut calls);
        let _ = walk(&mut select.group_by, &mut calls);
        let _ = walk(&mut select.having, &mut calls);
        self.replaced |= calls.replaced;
        ControlFlow::Continue(())
    }
}

/// Replaces the name in expressions.
struct Calls {
    replaced: bool,
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_filename(expr) {
            *expr = call("input_file_name", []);
            self.replaced = true;
        }
        ControlFlow::Continue(())
    }
}
