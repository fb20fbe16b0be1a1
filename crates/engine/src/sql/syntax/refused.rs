//! Errors for statements and clauses that the parser accepts and the planner would ignore.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, GroupByExpr, JoinConstraint, JoinOperator, Query, Select, Statement,
    TableConstraint, TableFactor,
};
use pushdowndb_contract::{Error, Result};

/// Fails for a statement that would do nothing.
pub(crate) fn check_statement(statement: &Statement) -> Result<()> {
    let transaction = "there are no transactions: each statement takes effect, or fails, by itself";
    let (name, reason) = match statement {
        Statement::StartTransaction { .. } => ("BEGIN", transaction),
        Statement::Commit { .. } => ("COMMIT", transaction),
        Statement::Rollback { .. } => ("ROLLBACK", transaction),
        Statement::Savepoint { .. } => ("SAVEPOINT", transaction),
        Statement::ReleaseSavepoint { .. } => ("RELEASE SAVEPOINT", transaction),
        Statement::Prepare { statement, .. } => return check_statement(statement),
        Statement::CreateTable(table) => return check_table(table),
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("{name} is not supported: {reason}")))
}

/// Fails if a table in memory has keys. NOT NULL and DEFAULT are enforced.
fn check_table(table: &CreateTable) -> Result<()> {
    check_constraints(&table.columns, &table.constraints)
}

/// Fails for constraints that nothing enforces, and for options of columns that would be ignored.
/// The optimizer relies on keys, so rows that violate them would give wrong answers.
pub(crate) fn check_constraints(columns: &[ColumnDef], constraints: &[TableConstraint]) -> Result<()> {
    let of_column = |option: &ColumnOption| match option {
        ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_) | ColumnOption::Comment(_) => None,
        ColumnOption::PrimaryKey(_) => Some("PRIMARY KEY".to_owned()),
        ColumnOption::Unique(_) => Some("UNIQUE".to_owned()),
        ColumnOption::ForeignKey(_) => Some("REFERENCES".to_owned()),
        ColumnOption::Check(_) => Some("CHECK".to_owned()),
        other => Some(other.to_string()),
    };
    let of_table = |constraint: &TableConstraint| match constraint {
        TableConstraint::PrimaryKey(_) | TableConstraint::PrimaryKeyUsingIndex(_) => "PRIMARY KEY".to_owned(),
        TableConstraint::Unique(_) | TableConstraint::UniqueUsingIndex(_) => "UNIQUE".to_owned(),
        TableConstraint::ForeignKey(_) => "FOREIGN KEY".to_owned(),
        TableConstraint::Check(_) => "CHECK".to_owned(),
        other => other.to_string(),
    };
    let options = columns.iter().flat_map(|column| &column.options);
    let mut found = options.filter_map(|option| of_column(&option.option)).chain(constraints.iter().map(of_table));
    match found.next() {
        Some(name) => {
            Err(Error::unsupported(format!("{name} is not supported: tables here do not enforce it; leave it out")))
        }
        None => Ok(()),
    }
}

/// Returns the error for a clause at the end of a query that would be ignored.
pub(crate) fn clause_of_query(query: &Query) -> Option<Error> {
    if let Some(lock) = query.locks.first() {
        let message = format!("{lock} is not supported: there is nothing to lock in a table of objects");
        return Some(Error::unsupported(message));
    }
    let clause = match query {
        Query { settings: Some(_), .. } => "SETTINGS behind a query",
        Query { format_clause: Some(_), .. } => "FORMAT behind a query",
        Query { for_clause: Some(_), .. } => "FOR XML, FOR JSON or FOR BROWSE",
        _ => return None,
    };
    Some(ignored(clause))
}

/// Returns the error for a clause of a SELECT that would be ignored.
pub(crate) fn clause_of_select(select: &Select) -> Option<Error> {
    let joins = select.from.iter().flat_map(|from| &from.joins);
    if let Some(error) = joins.filter_map(|join| self::join(&join.join_operator, false)).next() {
        return Some(error);
    }
    let modifiers = match &select.group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
    };
    match select {
        Select { prewhere: Some(_), .. } => Some(ignored("PREWHERE")),
        Select { connect_by, .. } if !connect_by.is_empty() => Some(ignored("CONNECT BY")),
        _ => modifiers.first().map(|modifier| {
            Error::unsupported(format!(
                "{modifier} is not supported; write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS"
            ))
        }),
    }
}

fn ignored(clause: &str) -> Error {
    Error::unsupported(format!("{clause} is not supported"))
}

/// Returns the error for a join without a condition, which would be a product of all rows, and for
/// a `nested` outer join with USING, whose columns would come from the side that may have no row.
fn join(join: &JoinOperator, nested: bool) -> Option<Error> {
    let (is_outer, constraint) = match join {
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => (true, constraint),
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (false, constraint),
        _ => return None,
    };
    match constraint {
        JoinConstraint::None => Some(Error::invalid(
            "a JOIN needs ON or USING: write JOIN b ON a.key = b.key, or CROSS JOIN for all pairs of rows",
        )),
        JoinConstraint::Using(_) | JoinConstraint::Natural if is_outer && nested => Some(Error::unsupported(
            "an outer join in brackets takes no USING; write ON a.key = b.key, and coalesce(a.key, b.key) for the key \
             of both",
        )),
        _ => None,
    }
}

/// Returns the error for a clause after a table that would be ignored.
pub(crate) fn clause_of_table(table: &TableFactor) -> Option<Error> {
    match table {
        TableFactor::Table { version: Some(_), .. } => Some(ignored("a version of a table")),
        TableFactor::Table { with_hints, index_hints, .. } if !with_hints.is_empty() || !index_hints.is_empty() => {
            Some(ignored("a hint behind a table"))
        }
        TableFactor::Table { partitions, .. } if !partitions.is_empty() => Some(Error::unsupported(
            "PARTITION behind a table is not supported; partitions are columns, which WHERE can name",
        )),
        TableFactor::Table { with_ordinality: true, .. } => Some(ignored("WITH ORDINALITY")),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            table_with_joins.joins.iter().find_map(|join| self::join(&join.join_operator, true))
        }
        _ => None,
    }
}
