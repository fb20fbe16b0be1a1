//! Parses queries and expressions that are composed here as text.

use datafusion::sql::sqlparser::ast::{Expr, Query};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};

/// Parses the query `sql`, which was composed from parts of a statement.
pub(super) fn query(sql: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_query());
    parsed.map(|query| *query).map_err(|error| Error::invalid(format!("this cannot be read as a subquery: {error}")))
}

/// Parses the expression `sql`, which was composed from parts of a statement.
pub(super) fn expression(sql: &str) -> Result<Expr> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::invalid(format!("this cannot be read as an expression: {error}")))
}
