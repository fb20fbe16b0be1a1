//! Parts of statements that are written as text here, parsed.

use datafusion::sql::sqlparser::ast::{Expr, Query};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};

/// The query that `sql`, made here of parts of a statement, is.
pub(super) fn query(sql: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_query());
    parsed.map(|query| *query).map_err(|error| Error::invalid(format!("this cannot be read as a subquery: {error}")))
}

/// The expression that `sql`, made here of parts of a statement, is.
pub(super) fn expression(sql: &str) -> Result<Expr> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::invalid(format!("this cannot be read as an expression: {error}")))
}
