//! The walk over a statement's syntax tree, behind one visitor type.
//!
//! The parser's walk is compiled for each type of visitor: some hundred kilobytes of code each time.
//! The functions here take a visitor by reference to a trait object, so that it is compiled once for
//! each type of break.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, ObjectName, Query, Select, TableFactor, ValueWithSpan};
use datafusion::sql::sqlparser::ast::{Visit, VisitMut, Visitor, VisitorMut};

/// Visits a statement with `visitor`: of COPY the query, of EXPLAIN the explained statement.
/// DataFusion's own statements have no expressions to visit.
pub(crate) fn visit<B>(statement: &mut Statement, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    match statement {
        Statement::Statement(statement) => walk(statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Visits `part` of a statement with `visitor`.
pub(crate) fn walk<B>(part: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    part.visit(&mut AnyVisitor(visitor))
}

/// Calls `change` for each expression of `part`, inner ones first.
pub(crate) fn each_expression(part: &mut impl VisitMut, change: &mut dyn FnMut(&mut Expr)) {
    let done = walk(part, &mut Each(change));
    debug_assert!(done.is_continue(), "nothing breaks off");
}

/// Calls `change` for each expression of `part` that is not in a subquery, outer ones first.
pub(crate) fn each_outside_subqueries(part: &mut impl VisitMut, change: &mut dyn FnMut(&mut Expr)) {
    let done = walk(part, &mut Outside { change, depth: 0 });
    debug_assert!(done.is_continue(), "nothing breaks off");
}

/// Returns whether `is_one` holds for an expression of `part`, and stops at the first one.
pub(crate) fn any_expression(part: &impl Visit, is_one: &mut dyn FnMut(&Expr) -> bool) -> bool {
    part.visit(&mut First(is_one)).is_break()
}

/// Adapts a visitor behind a trait object to the parser's walk.
struct AnyVisitor<'a, B>(&'a mut dyn VisitorMut<Break = B>);

impl<B> VisitorMut for AnyVisitor<'_, B> {
    type Break = B;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<B> {
        self.0.pre_visit_relation(relation)
    }

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<B> {
        self.0.post_visit_relation(relation)
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<B> {
        self.0.pre_visit_table_factor(table)
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<B> {
        self.0.post_visit_table_factor(table)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<B> {
        self.0.pre_visit_statement(statement)
    }

    fn post_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<B> {
        self.0.post_visit_statement(statement)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<B> {
        self.0.pre_visit_value(value)
    }

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<B> {
        self.0.post_visit_value(value)
    }
}

/// A visitor that calls a function for each expression.
struct Each<'a>(&'a mut dyn FnMut(&mut Expr));

impl VisitorMut for Each<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

/// A visitor that calls a function for each expression outside of subqueries.
struct Outside<'a> {
    change: &'a mut dyn FnMut(&mut Expr),
    /// The number of subqueries around the current expression.
    depth: usize,
}

impl VisitorMut for Outside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth = self.depth.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}

/// A visitor that ends at the first expression for which a function is true.
struct First<'a>(&'a mut dyn FnMut(&Expr) -> bool);

impl Visitor for First<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
