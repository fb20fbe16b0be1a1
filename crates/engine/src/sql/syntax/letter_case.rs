//! Names of columns that are written in another case than the columns have.
//!
//! DataFusion compares names exactly, after it has turned those without quotes into lower case, so
//! that `VendorID` of a file could only be asked for in quotes. Here a name without quotes means the
//! one column that it matches whatever the case, as in DuckDB; a name in quotes is exact.
//!
//! A statement is first planned as it is written. If a column is not found, the names in the
//! statement that match a column of the same tables are replaced by that column's, in quotes, and
//! the statement is planned again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Select, SelectItem, VisitorMut,
};
use pushdowndb_contract::{Error, Result};

use super::sources;
use super::visit::visit;
use super::wildcards::excluded;

/// Replaces names in `statement` by those of columns that they match in another case, after
/// planning failed with `error`. If `error` lists no columns, those in `beside` are matched
/// ([`lateral_sources`]). Returns whether anything was replaced.
///
/// # Errors
///
/// Returns an error if a name matches several columns.
pub(crate) fn match_columns(statement: &mut Statement, error: &DataFusionError, beside: &[Column]) -> Result<bool> {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return Ok(false) };
    let SchemaError::FieldNotFound { field, valid_fields } = schema_error.as_ref() else { return Ok(false) };
    let known = if valid_fields.is_empty() { beside } else { valid_fields };
    let mut names = Names { missing: &field.name, known, replaced: false };
    match visit(statement, &mut names) {
        ControlFlow::Continue(()) => Ok(names.replaced),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Returns queries of the tables beside those that are computed from their rows, such as
/// `unnest(t.l)`, if `error` says that a name in such a table was not found.
pub(crate) fn lateral_sources(statement: &mut Statement, error: &DataFusionError) -> Vec<Statement> {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return vec![] };
    match schema_error.as_ref() {
        SchemaError::FieldNotFound { valid_fields, .. } if valid_fields.is_empty() => {}
        _ => return vec![],
    }
    sources::of_selects(statement, &mut |select| {
        let relations = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        relations.into_iter().any(sources::is_lateral)
    })
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
        self.replace_of(name, None)
    }

    /// Like [`Self::replace`], but with the columns of `table` only, if it is given.
    fn replace_of(&mut self, name: &mut Ident, table: Option<&str>) -> ControlFlow<Box<Error>> {
        if name.quote_style.is_some() {
            return ControlFlow::Continue(());
        }
        let lower = name.value.to_lowercase();
        let of_table = |known: &&Column| {
            let relation = known.relation.as_ref().map(|relation| relation.table());
            table.is_none_or(|table| relation.is_some_and(|relation| relation.eq_ignore_ascii_case(table)))
        };
        let known = self.known.iter().filter(of_table).map(Column::name);
        let matching: BTreeSet<&str> = known.filter(|known| known.to_lowercase() == lower).collect();
        let mut matching = matching.into_iter();
        match (matching.next(), matching.next()) {
            (Some(exact), None) if exact != lower => {
                *name = Ident { quote_style: Some('"'), value: exact.to_owned(), ..name.clone() };
                self.replaced = true;
            }
            (None, None) if lower == self.missing => self.replace_numbered(name),
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

    /// Replaces a name without quotes by the only column that it matches in any case. The planner
    /// compares these names as they are written.
    fn replace_exact(&mut self, name: &mut Ident) {
        let matching: BTreeSet<&str> =
            self.known.iter().map(Column::name).filter(|known| known.eq_ignore_ascii_case(&name.value)).collect();
        if let ([exact], None) = (matching.iter().collect::<Vec<_>>().as_slice(), name.quote_style)
            && **exact != name.value
        {
            *name = Ident { quote_style: Some('"'), value: (**exact).to_owned(), ..name.clone() };
            self.replaced = true;
        }
    }

    /// Replaces `USING ("key")` by `ON "key" = "KEY"`, if one table has the column as it is written
    /// and the other in another case.
    fn replace_using(&mut self, join: &mut Join) {
        use JoinOperator::{Inner, Left, LeftOuter, Right, RightOuter};
        let one = match columns_of_using(join).as_slice() {
            [one] if one.quote_style.is_some() && one.value == self.missing => (*one).clone(),
            _ => return,
        };
        let like = |known: &&str| known.eq_ignore_ascii_case(&one.value) && **known != *one.value;
        let other: BTreeSet<&str> = self.known.iter().map(Column::name).filter(like).collect();
        let (Some(other), 1) = (other.first(), other.len()) else { return };
        let (JoinOperator::Join(constraint)
        | Inner(constraint)
        | Left(constraint)
        | LeftOuter(constraint)
        | Right(constraint)
        | RightOuter(constraint)) = &mut join.join_operator
        else {
            return;
        };
        let right = Ident::with_quote('"', *other);
        *constraint = JoinConstraint::On(Expr::BinaryOp {
            left: Box::new(Expr::Identifier(one)),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::Identifier(right)),
        });
        self.replaced = true;
    }

    /// Replaces DuckDB's `column0`, a column without a header, by `column_1`: here they count from
    /// 1.
    fn replace_numbered(&mut self, name: &mut Ident) {
        let number = name.value.to_ascii_lowercase().strip_prefix("column").and_then(|at| at.parse::<usize>().ok());
        let Some(own) = number.map(|number| format!("column_{}", number.saturating_add(1))) else { return };
        if name.quote_style.is_none() && self.known.iter().any(|known| known.name == own) {
            *name = Ident { value: own, ..name.clone() };
            self.replaced = true;
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(name) => self.replace(name),
            Expr::CompoundIdentifier(parts) => {
                // The first is a table, unless it is a column whose fields follow. Tables of other
                // queries have other columns.
                let is_table = |name: &Ident| {
                    let tables = self.known.iter().filter_map(|known| known.relation.as_ref());
                    tables.into_iter().any(|table| table.table().eq_ignore_ascii_case(&name.value))
                };
                match parts.as_mut_slice() {
                    [table, fields @ ..] if is_table(table) => {
                        let table = table.value.clone();
                        fields.iter_mut().try_for_each(|part| self.replace_of(part, Some(&table)))
                    }
                    [column, fields @ ..]
                        if self.known.iter().any(|known| known.name.eq_ignore_ascii_case(&column.value)) =>
                    {
                        self.replace(column)?;
                        fields.iter_mut().try_for_each(|part| self.replace(part))
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        select.projection.iter_mut().flat_map(columns_of_wildcard).for_each(|name| self.replace_exact(name));
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        joins.for_each(|join| self.replace_using(join));
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        joins.flat_map(columns_of_using).try_for_each(|name| self.replace(name))
    }
}

/// Returns the columns of `* EXCLUDE (…)`, which the planner compares as they are written.
fn columns_of_wildcard(item: &mut SelectItem) -> Vec<&mut Ident> {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => excluded(options),
        _ => vec![],
    }
}

/// Returns the columns of `USING (…)`.
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
        Ok(match_columns(&mut statement, &error.context("planning"), &[])?.then(|| statement.to_string()))
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
        let known = &columns;
        assert_eq!(
            matched("SELECT * FROM t JOIN u USING (\"vendorID\")", "vendorID", known).unwrap().unwrap(),
            "SELECT * FROM t JOIN u ON \"vendorID\" = \"VendorID\""
        );
        assert_eq!(all("EXPLAIN SELECT vendorid FROM t").unwrap(), "EXPLAIN SELECT \"VendorID\" FROM t");
        assert_eq!(all("SELECT \"vendorid\" FROM t"), None, "exact");
        // Another table may have the column in another case.
        let two = all("SELECT t.vendorid FROM t JOIN u ON t.vendorid = u.VENDORID").unwrap();
        assert_eq!(two, "SELECT t.\"VendorID\" FROM t JOIN u ON t.\"VendorID\" = u.VENDORID");
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
