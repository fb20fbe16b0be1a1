//! The tables of a SELECT as a query of their own. Its columns tell what names in the SELECT mean.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Select, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, VisitorMut, With,
};

use super::parsed::query;
use super::visit::visit;

/// Returns, for each SELECT for which `is_one` holds, `SELECT * FROM` its tables, without those
/// that are computed from the rows of another table.
pub(crate) fn of_selects(statement: &mut Statement, is_one: &mut dyn FnMut(&Select) -> bool) -> Vec<Statement> {
    let with = match &*statement {
        Statement::Statement(tree) => match tree.as_ref() {
            SqlStatement::Query(query) => query.with.clone(),
            _ => None,
        },
        _ => None,
    };
    let mut sources = Sources { is_one, with, found: Vec::new() };
    let done = visit(statement, &mut sources);
    debug_assert!(done.is_continue(), "nothing breaks off");
    sources.found
}

/// Whether a table is computed for each row of the tables before it.
pub(crate) fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::UNNEST { .. } | TableFactor::Derived { lateral: true, .. })
}

struct Sources<'a> {
    is_one: &'a mut dyn FnMut(&Select) -> bool,
    with: Option<With>,
    found: Vec<Statement>,
}

impl VisitorMut for Sources<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !(self.is_one)(select) {
            return ControlFlow::Continue(());
        }
        let mut from: Vec<TableWithJoins> = select.from.clone();
        from.retain(|table| !is_lateral(&table.relation));
        from.iter_mut().for_each(|table| table.joins.retain(|join| !is_lateral(&join.relation)));
        if let Ok(mut all) = query("SELECT * FROM t")
            && let SetExpr::Select(selected) = all.body.as_mut()
            && !from.is_empty()
        {
            selected.from = from;
            all.with = self.with.clone();
            self.found.push(Statement::Statement(Box::new(SqlStatement::Query(Box::new(all)))));
        }
        ControlFlow::Continue(())
    }
}
