//! Rewrites of the syntax tree, for statements that the parser (sqlparser 0.62) or the planner
//! misreads, or of which it ignores a part.
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `a IS DISTINCT FROM b AND c` | `(a IS DISTINCT FROM b) AND c` ([`distinct_from`]) |
//! | more than 64 conditions in a row | a tree of equal halves ([`chains`]) |
//! | `1e300`, more digits than a decimal has | a floating-point number |
//! | `FROM t` | `SELECT * FROM t`, in its tokens ([`from_first`]) |
//! | `?`, `$1`, `:name` | literals of their values ([`bind`]) |
//! | `x AT TIME ZONE 'z'` | `timezone('z', x)` ([`crate::functions::timezone`]) |
//! | `SHOW COLUMNS FROM t` | `DESCRIBE t` |
//! | `SHOW TABLES` | a query of the information schema, without its own tables |
//! | `(a, b) < (c, d)` | `a < c OR (a = c AND b < d)` ([`rows`]) |
//! | `x LIKE 'a!%' ESCAPE '!'` | `x LIKE 'a\%'` ([`patterns`]) |
//! | `x SIMILAR TO 'a%'` | the equivalent regular expression ([`patterns`]) |
//! | `GROUP BY ()`, `SELECT 1 HAVING a`, `FETCH FIRST 2 ROWS ONLY` | `GROUPING SETS (())`, `LIMIT 2` ([`groups`]) |
//! | `SET pushdown.threads = 4`, `RESET pushdown.level` | settings that DataFusion knows ([`settings`]) |
//! | `~x` | `x # -1` |
//! | `VENDORID`, where a column is called `VendorID` | `"VendorID"` ([`letter_case`]) |
//! | `SELECT a + 1 AS y, y * 2` | `SELECT a + 1 AS y, (a + 1) * 2` ([`aliases`]) |
//! | `SELECT 1, median(t.x)` | `SELECT 1 AS "1", median(t.x) AS "median(t.x)"` ([`headers`]) |
//! | `year(d)`, `arg_max(a, b)` | what they mean ([`macros`]) |
//! | `j -> 'a'`, `j ->> 'a'`, `x::JSON` | `json_extract(j, 'a')`, `json_extract_string(j, 'a')`, `json(x)` ([`json_operators`]) |
//! | `TIMESTAMP '2026-01-01 12:00'` | `TIMESTAMP '2026-01-01 12:00:00'` ([`times`]) |
//! | `(a).b`, `{'b': 1}.b` | `(a)['b']` |
//! | `a[:2]`, `INTERVAL 3 DAY`, `s ^@ 'a'`, `ARRAY (SELECT …)` | `a[1:2]`, `INTERVAL '3' DAY`, `starts_with(s, 'a')`, `(SELECT array_agg(…) …)` |
//! | `a ^ b` | `power(a, b)` ([`power`]) |
//! | `a ** b`, `a ISNULL`, `a IN [1]`, `TABLE t` and the like | longer spellings, in the tokens ([`shorthand`]) |
//! | `COLUMNS('a.*')`, `* RENAME (a AS b)` | one expression for each column ([`columns`]) |
//! | `s.*`, of a struct `s` | its fields, `s['a'] AS a` ([`struct_stars`]) |
//! | `a FULL JOIN b USING (k)`, `a ASOF JOIN b` | joins with ON ([`using`], [`asof`]) |
//! | `a // b` | `a / b`, which divides whole numbers likewise |
//! | `t TABLESAMPLE …`, `PIVOT`, `UNPIVOT` | subqueries ([`relations`]) |
//! | `SELECT EXISTS (q)`, `(a, b) IN (q)` | other subqueries ([`exists`]) |
//! | `ORDER BY ALL` | `ORDER BY 1, 2, …` ([`order_all`]) |
//! | `CREATE TEMP TABLE` | `CREATE TABLE`, which is in memory |
//! | `read_csv('a', skip = 1)` in FROM | a table whose name is the text of the call ([`reading`]) |
//! | `filename`, where no column is called so | `input_file_name()` ([`reading`]) |
//! | clauses and statements that would be ignored | an error that names them ([`refused`]) |

pub(crate) mod aliases;
mod asof;
pub(crate) mod bind;
mod calls;
pub(crate) mod chains;
pub(crate) mod columns;
mod copy;
pub(crate) mod distinct_from;
mod exists;
mod forms;
mod from_first;
pub(crate) mod groups;
pub(crate) mod headers;
mod json_operators;
mod lambdas;
pub(crate) mod letter_case;
pub(crate) mod macros;
mod marks;
mod order_all;
pub(crate) mod parameters;
mod parsed;
mod parts;
pub(crate) mod patterns;
mod power;
pub(crate) mod reading;
pub(crate) mod refused;
pub(crate) mod relations;
pub(crate) mod rows;
pub(crate) mod settings;
mod shorthand;
mod sources;
pub(crate) mod struct_stars;
pub(crate) mod times;
pub(crate) mod tokens;
pub(crate) mod types;
mod using;
pub(crate) mod visit;
mod wildcards;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{DescribeAlias, MacroDefinition, ShowStatementIn, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::Result;

use parts::Rewrite;
use visit::walk;

/// Rewrites `statement` so that DataFusion plans what is meant.
///
/// # Errors
///
/// Returns an error if a clause or a statement would be ignored.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<()> {
    settings::rewrite(statement);
    let rewrite_all = &mut Rewrite::default();
    let done = match statement {
        Statement::Statement(statement) => {
            refused::check_statement(statement)?;
            describe_columns(statement);
            list_tables(statement);
            delete_all(statement);
            make_durable(statement);
            // Columns are named by their text as written, so this comes before expressions change.
            lambdas::restore(statement);
            columns::mark(statement);
            headers::name_statement(statement);
            if let SqlStatement::CreateMacro { definition: MacroDefinition::Table(query), .. } = statement.as_mut() {
                headers::name_query(query, headers::Names::Inner);
            }
            walk(statement, rewrite_all)
        }
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => {
                lambdas::restore(query);
                columns::mark(query);
                headers::name_query(query, headers::Names::Inner);
                walk(query, rewrite_all)
            }
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return rewrite(&mut explain.statement),
        Statement::CreateExternalTable(table) => {
            table.columns.iter_mut().for_each(|column| types::known(&mut column.data_type));
            return refused::check_constraints(&table.columns, &table.constraints);
        }
        Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match done {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Rewrites SHOW COLUMNS to DESCRIBE: DataFusion looks columns up in the information schema, which
/// has no files and opens all tables.
fn describe_columns(statement: &mut SqlStatement) {
    let SqlStatement::ShowColumns { show_options, .. } = statement else { return };
    let Some(ShowStatementIn { parent_name: Some(name), .. }) = &show_options.show_in else { return };
    if show_options.filter_position.is_none() {
        *statement = SqlStatement::ExplainTable {
            describe_alias: DescribeAlias::Describe,
            hive_format: None,
            has_table_keyword: false,
            table_name: name.clone(),
        };
    }
}

/// Rewrites TRUNCATE to the DELETE that it is.
fn delete_all(statement: &mut SqlStatement) {
    let SqlStatement::Truncate(truncated) = &*statement else { return };
    let [table] = truncated.table_names.as_slice() else { return };
    if let Ok(mut parsed) = Parser::parse_sql(&GenericDialect {}, &format!("DELETE FROM {}", table.name))
        && let Some(delete) = parsed.pop()
    {
        *statement = delete;
    }
}

/// Rewrites SHOW TABLES and SHOW ALL TABLES to a query without the information schema's own tables,
/// which DataFusion would show, too.
fn list_tables(statement: &mut SqlStatement) {
    const QUERY: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
                         WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name";
    let is_meant = match &*statement {
        SqlStatement::ShowTables { show_options, .. } => {
            show_options.show_in.is_none() && show_options.filter_position.is_none()
        }
        SqlStatement::ShowVariable { variable } => {
            let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
            words == ["all", "tables"]
        }
        _ => false,
    };
    if !is_meant {
        return;
    }
    if let Ok(mut parsed) = Parser::parse_sql(&GenericDialect {}, QUERY)
        && let Some(query) = parsed.pop()
    {
        *statement = query;
    }
}

/// Turns TEMP tables and views into ordinary ones of the session, and types of columns into ones
/// that DataFusion has.
fn make_durable(statement: &mut SqlStatement) {
    match statement {
        SqlStatement::CreateTable(table) => {
            table.temporary = false;
            table.columns.iter_mut().for_each(|column| types::known(&mut column.data_type));
        }
        SqlStatement::CreateView(view) => view.temporary = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;
    use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};

    use super::*;

    fn parsed(sql: &str) -> Statement {
        DFParser::parse_sql(sql).unwrap().pop_front().unwrap()
    }

    /// The condition with brackets around each operator.
    fn bracketed(expr: &Expr) -> String {
        let distinct =
            |left: &Expr, how: &str, right: &Expr| format!("[{} {how} {}]", bracketed(left), bracketed(right));
        match expr {
            Expr::BinaryOp { left, op, right } => distinct(left, &op.to_string(), right),
            Expr::UnaryOp { op, expr } => format!("[{op} {}]", bracketed(expr)),
            Expr::IsDistinctFrom(left, right) => distinct(left, "<>", right),
            Expr::IsNotDistinctFrom(left, right) => distinct(left, "==", right),
            Expr::Nested(inner) => format!("({})", bracketed(inner)),
            other => other.to_string(),
        }
    }

    fn condition(sql: &str) -> String {
        struct First(Option<String>);
        impl VisitorMut for First {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                self.0 = Some(bracketed(expr));
                ControlFlow::Break(())
            }
        }
        let mut first = First(None);
        let mut statement = parsed(&format!("SELECT {sql}"));
        rewrite(&mut statement).unwrap();
        let Statement::Statement(mut statement) = statement else { panic!("{sql}") };
        let _ = walk(&mut statement, &mut first);
        first.0.unwrap()
    }

    #[test]
    fn distinct_from_binds_as_a_comparison_does() {
        for (sql, expected) in [
            ("a IS DISTINCT FROM b", "[a <> b]"),
            ("a IS DISTINCT FROM b + 1 AND c", "[[a <> [b + 1]] AND c]"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "[[a == b] OR [c AND d]]"),
            ("x AND a IS DISTINCT FROM b OR c", "[[x AND [a <> b]] OR c]"),
            ("x OR a IS DISTINCT FROM b AND c", "[x OR [[a <> b] AND c]]"),
            ("NOT a IS DISTINCT FROM b AND c", "[[NOT [a <> b]] AND c]"),
            ("a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d AND e", "[[[a <> b] AND [c == d]] AND e]"),
            ("a IS DISTINCT FROM (b AND c)", "[a <> ([b AND c])]"),
            ("(a IS DISTINCT FROM b AND c) OR d", "[([[a <> b] AND c]) OR d]"),
            ("a AND b OR NOT c AND d", "[[a AND b] OR [[NOT c] AND d]]"),
        ] {
            assert_eq!(condition(sql), expected, "{sql}");
        }
    }

    #[test]
    fn large_numbers_are_floating() {
        assert_eq!(condition("1e300"), "CAST('1e300' AS DOUBLE)");
        assert_eq!(condition("5e-324"), "CAST('5e-324' AS DOUBLE)");
        assert_eq!(condition("1.5e7"), "1.5e7");
        assert_eq!(condition("0.05"), "0.05");
        let error = rewrite(&mut parsed("EXPLAIN SELECT a FROM t WHERE b < 1e400")).unwrap_err().to_string();
        assert!(error.contains("1e400 is larger"), "{error}");
    }
}
