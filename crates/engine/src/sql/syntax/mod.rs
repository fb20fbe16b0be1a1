//! Rewrites of the syntax tree, where the parser (sqlparser 0.62) or the planner takes a statement
//! for something else, or ignores a part of it.
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `a IS DISTINCT FROM b AND c` | `(a IS DISTINCT FROM b) AND c` ([`distinct_from`]) |
//! | `1e300`, more digits than a decimal has | a floating-point number |
//! | `FROM t` | `SELECT * FROM t`, in its tokens ([`from_first`]) |
//! | `x AT TIME ZONE 'z'` | `timezone('z', x)` ([`crate::functions::timezone`]) |
//! | `SHOW COLUMNS FROM 'file'` | `DESCRIBE 'file'` |
//! | `(a, b) < (c, d)` | `a < c OR (a = c AND b < d)` ([`rows`]) |
//! | `x LIKE 'a!%' ESCAPE '!'` | `x LIKE 'a\%'` ([`patterns`]) |
//! | `x SIMILAR TO 'a%'` | the equivalent regular expression ([`patterns`]) |
//! | `GROUP BY ()`, `SELECT 1 HAVING a`, `FETCH FIRST 2 ROWS ONLY` | `GROUPING SETS (())`, `LIMIT 2` ([`groups`]) |
//! | `SET pushdown.threads = 4`, `RESET pushdown.level` | settings that DataFusion knows ([`settings`]) |
//! | `~x` | `x # -1` |
//! | `VENDORID`, where a column is called `VendorID` | `"VendorID"` ([`letter_case`]) |
//! | clauses and statements that would be ignored | an error that names them ([`refused`]) |

pub(crate) mod distinct_from;
pub(crate) mod from_first;
pub(crate) mod groups;
pub(crate) mod letter_case;
pub(crate) mod patterns;
pub(crate) mod refused;
pub(crate) mod rows;
pub(crate) mod settings;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DescribeAlias, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, Select, ShowStatementIn,
    Statement as SqlStatement, TableFactor, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use pushdowndb_contract::{Error, Result};

/// The digits of the widest decimal.
const MAX_DECIMAL_DIGITS: u64 = 76;

/// Rewrites `statement` to what DataFusion plans as it was meant.
///
/// # Errors
///
/// A clause or a statement would be ignored.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<()> {
    settings::rewrite(statement);
    let rewrite_all = &mut Rewrite;
    let done = match statement {
        Statement::Statement(statement) => {
            refused::check_statement(statement)?;
            describe_columns(statement);
            statement.visit(rewrite_all)
        }
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(rewrite_all),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return rewrite(&mut explain.statement),
        Statement::CreateExternalTable(table) => return refused::check_constraints(&table.columns, &table.constraints),
        Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match done {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Rewrites SHOW COLUMNS of a file: DataFusion looks columns up in the information schema, which
/// has no files.
fn describe_columns(statement: &mut SqlStatement) {
    let SqlStatement::ShowColumns { show_options, .. } = statement else { return };
    let Some(ShowStatementIn { parent_name: Some(name), .. }) = &show_options.show_in else { return };
    let is_file = name.0.iter().any(|part| part.as_ident().is_some_and(|ident| ident.quote_style == Some('\'')));
    if is_file && show_options.filter_position.is_none() {
        *statement = SqlStatement::ExplainTable {
            describe_alias: DescribeAlias::Describe,
            hive_format: None,
            has_table_keyword: false,
            table_name: name.clone(),
        };
    }
}

struct Rewrite;

impl Rewrite {
    fn break_with(error: Option<Error>) -> ControlFlow<Box<Error>> {
        error.map_or(ControlFlow::Continue(()), |error| ControlFlow::Break(Box::new(error)))
    }
}

impl VisitorMut for Rewrite {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        Self::break_with(refused::clause_of_query(query).or_else(|| groups::fetch_as_limit(query).err()))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        groups::rewrite(select);
        Self::break_with(refused::clause_of_select(select))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        Self::break_with(refused::clause_of_table(table))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Some(error) = refused::operator(expr) {
            return Self::break_with(Some(error));
        }
        if let Err(error) = patterns::translate(expr) {
            return Self::break_with(Some(error));
        }
        if let Some(compared) = rows::by_fields(expr) {
            *expr = compared;
        }
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if is_wider_than_decimals(number) => {
                if number.parse().is_ok_and(f64::is_infinite) {
                    let message = format!("{number} is larger than any number, of which the largest is 1.8e308");
                    return ControlFlow::Break(Box::new(Error::invalid(message)));
                }
                let text = Value::SingleQuotedString(std::mem::take(number));
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::value(text)),
                    data_type: DataType::Double(ExactNumberInfo::None),
                    array: false,
                    format: None,
                };
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: bits } => {
                let bits = std::mem::replace(&mut **bits, Expr::value(Value::Null));
                let all = Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(Expr::value(Value::Number("1".to_owned(), false))),
                };
                *expr = Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(bits))),
                    op: BinaryOperator::PGBitwiseXor,
                    right: Box::new(all),
                };
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let [time, zone] =
                    [timestamp, time_zone].map(|e| std::mem::replace(&mut **e, Expr::value(Value::Null)));
                *expr = call("timezone", [zone, time]);
            }
            _ => distinct_from::regroup(expr),
        }
        ControlFlow::Continue(())
    }
}

/// A call of the function `name`.
fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn is_wider_than_decimals(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).count() as u64;
    let exponent = exponent.parse::<i64>().map_or(u64::MAX, i64::unsigned_abs);
    digits.saturating_add(exponent) > MAX_DECIMAL_DIGITS
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

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
        let _ = statement.visit(&mut first);
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
