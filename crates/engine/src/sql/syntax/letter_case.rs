//! Names of columns in another case than the columns have.
//!
//! DataFusion compares names exactly, after it has turned those without quotes into lower case, so
//! that `VendorID` of a file could only be asked for in quotes. Here a name without quotes means the
//! one column that it matches whatever the case, as in DuckDB; a name in quotes is exact.
//!
//! A statement is planned as it is written. Where a column is not found, the names in the statement
//! that match a column of the same tables are replaced by that column's, in quotes, and it is
//! planned again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Select, VisitMut, VisitorMut,
};
use pushdowndb_contract::{Error, Result};

/// Replaces names in `statement` by those of columns that they match in another case, after planning
/// failed with `error`. Returns whether there was any.
///
/// # Errors
///
/// A name matches several columns.
pub(crate) fn match_columns(statement: &mut Statement, error: &DataFusionError) -> Result<bool> {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return Ok(false) };
    let SchemaError::FieldNotFound { field, valid_fields } = schema_error.as_ref() else { return Ok(false) };
    let mut names = Names { missing: &field.name, known: valid_fields, replaced: false };
    match visit(statement, &mut names) {
        ControlFlow::Continue(()) => Ok(names.replaced),
        ControlFlow::Break(error) => Err(*error),
    }
}

fn visit(statement: &mut Statement, names: &mut Names<'_>) -> ControlFlow<Box<Error>> {
    match statement {
        Statement::Statement(statement) => statement.visit(names),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(names),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, names),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

struct Names<'a> {
    /// The name that was not found, in lower case if it was without quotes.
    missing: &'a str,
    /// The columns of the tables in which it was looked for.
    known: &'a [Column],
    replaced: bool,
}

impl Names<'_> {
    /// Replaces `name` if it has no quotes and matches a column in another case.
    fn replace(&mut self, name: &mut Ident) -> ControlFlow<Box<Error>> {
        if name.quote_style.is_some() {
            return ControlFlow::Continue(());
        }
        let lower = name.value.to_lowercase();
        let matching: BTreeSet<&str> =
            self.known.iter().map(Column::name).filter(|known| known.to_lowercase() == lower).collect();
        let mut matching = matching.into_iter();
        match (matching.next(), matching.next()) {
            (Some(exact), None) if exact != lower => {
                *name = Ident { quote_style: Some('"'), value: exact.to_owned(), ..name.clone() };
                self.replaced = true;
            }
            (Some(one), Some(other)) if lower == self.missing => {
                let message = format!(
                    "column {name} is ambiguous: it matches \"{one}\" and \"{other}\"; write the one that is meant in \
                     quotes"
                );
                return ControlFlow::Break(Box::new(Error::invalid(message)));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Names<'_> {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(name) => self.replace(name),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().skip(1).try_for_each(|part| self.replace(part)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        joins.flat_map(columns_of_using).try_for_each(|name| self.replace(name))
    }
}

/// The columns of `USING (…)`.
fn columns_of_using(join: &mut Join) -> Vec<&mut Ident> {
    use JoinOperator::{FullOuter, Inner, Left, LeftOuter, Right, RightOuter};
    let constraint = match &mut join.join_operator {
        JoinOperator::Join(constraint)
        | Inner(constraint)
        | Left(constraint)
        | LeftOuter(constraint)
        | Right(constraint)
        | RightOuter(constraint)
        | FullOuter(constraint) => constraint,
        _ => return vec![],
    };
    let JoinConstraint::Using(columns) = constraint else { return vec![] };
    let parts = columns.iter_mut().filter_map(|column| column.0.last_mut());
    parts
        .filter_map(|part| match part {
            ObjectNamePart::Identifier(name) => Some(name),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// The statement after `missing` was not found among the columns of a table `t`.
    fn matched(sql: &str, missing: &str, known: &[&str]) -> Result<Option<String>> {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let valid_fields = known.iter().map(|name| Column::new(Some("t"), *name)).collect();
        let field = Box::new(Column::new_unqualified(missing));
        let error =
            DataFusionError::SchemaError(Box::new(SchemaError::FieldNotFound { field, valid_fields }), Box::new(None));
        Ok(match_columns(&mut statement, &error.context("planning"))?.then(|| statement.to_string()))
    }

    #[test]
    fn names_without_quotes_match_whatever_their_case() {
        let columns = ["VendorID", "tip", "Fare Amount"];
        let all = |sql: &str| matched(sql, "vendorid", &columns).unwrap();
        assert_eq!(
            all("SELECT VENDORID AS v, t.vendorid, Tip FROM t WHERE vendorId > 1 ORDER BY vendorid").unwrap(),
            "SELECT \"VendorID\" AS v, t.\"VendorID\", Tip FROM t WHERE \"VendorID\" > 1 ORDER BY \"VendorID\""
        );
        assert_eq!(
            all("SELECT * FROM t JOIN u USING (vendorid)").unwrap(),
            "SELECT * FROM t JOIN u USING(\"VendorID\")"
        );
        assert_eq!(all("EXPLAIN SELECT vendorid FROM t").unwrap(), "EXPLAIN SELECT \"VendorID\" FROM t");
        assert_eq!(all("SELECT \"vendorid\" FROM t"), None, "exact");
        assert_eq!(all("SELECT vendor FROM t"), None);
    }

    #[test]
    fn names_of_several_columns_are_ambiguous() {
        let error = matched("SELECT ID FROM t", "id", &["Id", "iD"]).unwrap_err();
        assert!(error.message().contains("\"Id\" and \"iD\""), "{error}");
        assert_eq!(
            matched("SELECT ID, x FROM t", "x", &["Id", "iD", "X"]).unwrap().unwrap(),
            "SELECT ID, \"X\" FROM t"
        );
    }
}
